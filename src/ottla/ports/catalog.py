"""The catalog: topics, their options, and the other state of the cluster beside records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]

# Is given the revision and the changes of a commit.
Follower: TypeAlias = Callable[[int, Mapping[str, JsonValue]], None]


class Catalog(Protocol):
    """A small durable map that is changed in atomic steps, perhaps by several processes."""

    @property
    def revision(self) -> int:
        """That of the last change that the follower was given, and of `entries`."""
        ...

    def entries(self) -> Mapping[str, JsonValue]: ...

    def follow(self, follower: Follower) -> None:
        """Has the follower called with every change from now on, own ones included, in the order of revisions.

        The last caller is the only follower. It must neither raise an exception nor commit within the call.
        """
        ...

    def commit(
        self, changes: Mapping[str, JsonValue], expected_revision: int
    ) -> int | asyncio.Future[int]:
        """Durably sets the values (None removes the key) in one step; the new revision, or its future.

        CatalogConflictError if the catalog is at another revision: nothing was changed then. It is raised, or set as
        the exception of the future. The follower has got the change itself before the new revision is returned, and
        the changes of others before they are reported as a conflict. Another StorageError: nothing was changed
        either.
        """
        ...
