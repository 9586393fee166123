"""Disks that are full or slow: faults behind the storage port, which every engine has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from ottla.config.topic import TopicConfig
from ottla.ports import (
    Buffer,
    Catalog,
    Clock,
    Extent,
    JsonValue,
    LogStore,
    PartitionLog,
    PartitionRef,
    Replacement,
    StorageFullError,
)
from ottla.testing.clock import wait_by
from ottla.testing.faults import Faults

_FULL: Final = "a fault of the test filled the disk"


class FaultyStore:
    """A storage engine with the disk faults of a test; everything else is the engine's."""

    def __init__(self, store: LogStore, faults: Faults, clock: Clock) -> None:
        self._store = store
        self._faults = faults
        self._clock = clock
        self.catalog = cast(Catalog, _FaultyCatalog(store.catalog, faults))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def claim(self, ref: PartitionRef, config: TopicConfig) -> PartitionLog:
        log = self._store.claim(ref, config)
        return cast(PartitionLog, _FaultyLog(log, self._faults, self._clock))

    def trim_all(self, starts: Mapping[PartitionLog, int]) -> Any:
        # An engine knows only the logs that it gave.
        return self._store.trim_all(
            {cast(_FaultyLog, log).inner: start for log, start in starts.items()}
        )


class _FaultyCatalog:
    def __init__(self, catalog: Catalog, faults: Faults) -> None:
        self._catalog = catalog
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def commit(self, changes: Mapping[str, JsonValue], expected_revision: int) -> Any:
        _check_room(self._faults)
        return self._catalog.commit(changes, expected_revision)


class _FaultyLog:
    def __init__(self, log: PartitionLog, faults: Faults, clock: Clock) -> None:
        self.inner = log
        self._faults = faults
        self._clock = clock
        # The last write that is late: none becomes durable before those that came earlier.
        self._late: asyncio.Future[None] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def append(
        self, data: Buffer, extents: Sequence[Extent], expected_end_offset: int
    ) -> asyncio.Future[None] | None:
        _check_room(self._faults)
        return self._delayed(self.inner.append(data, extents, expected_end_offset))

    def flush(self) -> asyncio.Future[None] | None:
        return self._delayed(self.inner.flush())

    def begin_replacement(self, base_offsets: Sequence[int]) -> Replacement:
        _check_room(self._faults)
        return self.inner.begin_replacement(base_offsets)

    def _delayed(self, settled: asyncio.Future[None] | None) -> asyncio.Future[None] | None:
        """What is durable when the engine says so, at the earliest after the delay and after earlier writes."""
        slow_disks, holds_back = self._faults.slow_disks, self._faults.holds_back
        earlier = self._late
        if not slow_disks and (earlier is None or earlier.done()):
            return settled

        async def settle() -> None:
            await wait_by(
                self._clock,
                lambda: sum(each.delay_seconds for each in slow_disks if holds_back(each)),
            )
            for each in (earlier, settled):
                if each is not None:
                    await asyncio.shield(each)

        self._late = asyncio.ensure_future(settle())
        return self._late


def _check_room(faults: Faults) -> None:
    if faults.is_disk_full:
        raise StorageFullError(_FULL)


def faulty_store(faults: Faults, clock: Clock) -> Callable[[LogStore], LogStore]:
    """Puts the disk faults of a test into a storage engine."""
    return lambda store: cast(LogStore, FaultyStore(store, faults, clock))
