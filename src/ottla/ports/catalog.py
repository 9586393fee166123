"""The catalog: topics, their options, and the other state of the cluster beside records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]


class Catalog(Protocol):
    """A small durable map that is changed in atomic steps."""

    @property
    def revision(self) -> int: ...

    def entries(self) -> Mapping[str, JsonValue]: ...

    def commit(self, changes: Mapping[str, JsonValue], expected_revision: int) -> int:
        """Durably sets the values (None removes the key) in one step; returns the new revision.

        Raises CatalogConflictError if the catalog is not at the expected revision: nothing was changed then.
        """
        ...
