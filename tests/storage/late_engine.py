"""Engines as a remote one would behave: every change takes its time, and so does every read.

`LateStore` is the memory engine whose changes are futures; `LateReadStore` is any engine whose reads are pending at
first.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar, cast

from ottla.config.topic import TopicConfig
from ottla.ports import (
    BatchEntry,
    Buffer,
    Clock,
    Extent,
    LogStore,
    PartitionLog,
    PartitionRef,
    ReadPendingError,
    Replacement,
    SaveTime,
    Snapshot,
    StorageError,
    StorageUnavailableError,
)
from ottla.storage.memory import MemoryLog, MemoryStore

T = TypeVar("T")


class LateStore(MemoryStore):
    """Changes are made, in their order, when `settle` is called; with `by_itself`, in a later turn of the loop."""

    def __init__(self, clock: Clock, *, by_itself: bool = False) -> None:
        super().__init__(clock=clock)
        self._by_itself = by_itself
        self.changes: deque[Callable[[], None]] = deque()

    def later(self, change: Callable[[], T]) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def make() -> None:
            try:
                done.set_result(change())
            except StorageError as error:
                done.set_exception(error)

        self.changes.append(make)
        if self._by_itself:
            loop.call_later(0.001, self.settle)
        return done

    def settle(self) -> None:
        """Makes the oldest change that waits."""
        if self.changes:
            self.changes.popleft()()

    def claim(self, ref: PartitionRef, config: TopicConfig) -> MemoryLog:
        return cast(MemoryLog, LateLog(super().claim(ref, config), self))

    def trim_all(self, starts: Mapping[PartitionLog, int]) -> Any:
        inner: dict[PartitionLog, int] = {
            cast(LateLog, log).inner: start for log, start in starts.items()
        }
        return self.later(lambda: MemoryStore.trim_all(self, inner))


class LateLog:
    """Implements PartitionLog."""

    def __init__(self, inner: MemoryLog, store: LateStore) -> None:
        self.inner = inner
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def append(
        self, data: Buffer, extents: Sequence[Extent], expected_end_offset: int
    ) -> asyncio.Future[None]:
        self.inner.append(data, extents, expected_end_offset)
        return self._store.later(self.inner.check_open)

    def flush(self) -> asyncio.Future[None] | None:
        return self._store.later(self.inner.check_open) if self._store.changes else None

    def trim(self, start_offset: int) -> asyncio.Future[None]:
        return self._store.later(lambda: self.inner.trim(start_offset))

    def save_snapshot(
        self, snapshot: Snapshot, when: SaveTime = SaveTime.NOW
    ) -> asyncio.Future[None]:
        # It may be durable long before what was appended earlier.
        self.inner.save_snapshot(snapshot, when)
        return self._store.later(self.inner.check_open)

    def save_cleaned_offset(self, offset: int) -> asyncio.Future[None]:
        return self._store.later(lambda: self.inner.save_cleaned_offset(offset))

    def begin_replacement(self, base_offsets: Sequence[int]) -> Replacement:
        made = self.inner.begin_replacement(base_offsets)
        return cast(Replacement, LateReplacement(made, self._store))


class LateReplacement:
    """Implements Replacement."""

    def __init__(self, inner: Replacement, store: LateStore) -> None:
        self.append = inner.append
        self.abandon = inner.abandon
        self._inner = inner
        self._store = store

    def flush(self) -> asyncio.Future[None]:
        return self._store.later(lambda: None)

    def commit(self) -> asyncio.Future[bool]:
        return self._store.later(lambda: cast(bool, self._inner.commit()))


READ_SECONDS: Final = 0.002
KEPT_SECONDS: Final = 5.0


class LateReads:
    """The reads of an engine that has nothing in memory: each is pending first, and answered once when it was fetched.

    They are fetched when `fetch` is called; with `by_itself`, after READ_SECONDS.
    """

    def __init__(self, *, by_itself: bool = False) -> None:
        self._by_itself = by_itself
        self.pending: dict[tuple[Any, ...], asyncio.Future[None]] = {}
        self._fetched: dict[tuple[Any, ...], asyncio.TimerHandle] = {}
        self.is_unavailable = False
        """Whether the data cannot be got now."""

    def read(self, key: tuple[Any, ...], read: Callable[[], T]) -> T:
        """The result of a read whose data is there; a read counts as the same if its key is."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return read()
        kept = self._fetched.pop(key, None)
        if kept is not None:
            kept.cancel()
            if self.is_unavailable:
                raise StorageUnavailableError("the test has taken the store away")
            return read()
        done = self.pending.get(key)
        if done is None:
            done = self.pending[key] = loop.create_future()
            if self._by_itself:
                loop.call_later(READ_SECONDS, self.fetch, key)
        raise ReadPendingError(f"{key} is not in memory", done)

    def fetch(self, key: tuple[Any, ...] | None = None) -> None:
        """Fetches what a read waits for; the oldest one if none is named."""
        if key is None:
            key = next(iter(self.pending))
        self.pending.pop(key).set_result(None)
        loop = asyncio.get_running_loop()
        self._fetched[key] = loop.call_later(KEPT_SECONDS, self._fetched.pop, key)


class LateReadStore:
    """Implements LogStore over another one."""

    def __init__(self, inner: LogStore, reads: LateReads) -> None:
        self.inner = inner
        self.reads = reads

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def claim(self, ref: PartitionRef, config: TopicConfig) -> PartitionLog:
        return cast(PartitionLog, LateReadLog(self.inner.claim(ref, config), self.reads))

    def trim_all(self, starts: Mapping[PartitionLog, int]) -> Any:
        return self.inner.trim_all(
            {cast(LateReadLog, log).inner: start for log, start in starts.items()}
        )


class LateReadLog:
    """Implements PartitionLog over another one."""

    def __init__(self, inner: PartitionLog, reads: LateReads) -> None:
        self.inner = inner
        self._reads = reads

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def _late(self, name: str, place: Any, read: Callable[[], T]) -> T:
        if not self.inner.is_open:
            return read()
        return self._reads.read((name, self.inner.ref, place), read)

    def read(self, offset: int, max_bytes: int, end_offset: int) -> Buffer:
        read = partial(self.inner.read, offset, max_bytes, end_offset)
        return self._late("read", offset, read)

    def scan(self, offset: int, max_bytes: int, end_offset: int) -> Buffer:
        read = partial(self.inner.scan, offset, max_bytes, end_offset)
        return self._late("scan", offset, read)

    def headers(self, offset: int, end_offset: int, max_cost: int) -> Sequence[BatchEntry]:
        read = partial(self.inner.headers, offset, end_offset, max_cost)
        return self._late("headers", offset, read)

    def batch_at_timestamp(self, timestamp_ms: int, offset: int) -> Buffer | None:
        read = partial(self.inner.batch_at_timestamp, timestamp_ms, offset)
        return self._late("at timestamp", (timestamp_ms, offset), read)

    def batch_of_max_timestamp(self) -> Buffer | None:
        return self._late("max timestamp", None, self.inner.batch_of_max_timestamp)
