"""The catalog as a worker has it: a copy of the supervisor's, which decides in what order changes come."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType

from ottla.broker.workers.messages import CatalogCopy
from ottla.broker.workers.worker_channel import WorkerChannel
from ottla.ports import Follower, JsonValue


class WorkerCatalog:
    """Implements Catalog."""

    def __init__(self, channel: WorkerChannel, copy: CatalogCopy) -> None:
        self._channel = channel
        self._entries = dict(copy.entries)
        self._revision = copy.revision
        self._follower: Follower | None = None
        channel.follow_catalog(self._follow)

    @property
    def revision(self) -> int:
        return self._revision

    def entries(self) -> Mapping[str, JsonValue]:
        return MappingProxyType(self._entries)

    def follow(self, follower: Follower) -> None:
        self._follower = follower

    def commit(
        self, changes: Mapping[str, JsonValue], expected_revision: int
    ) -> asyncio.Future[int]:
        return self._channel.commit(changes, expected_revision)

    def _follow(self, revision: int, changes: Mapping[str, JsonValue]) -> None:
        for key, value in changes.items():
            if value is None:
                self._entries.pop(key, None)
            else:
                self._entries[key] = value
        self._revision = revision
        if self._follower is not None:
            self._follower(revision, changes)
