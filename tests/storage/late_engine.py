"""The memory engine as a remote one would behave: every change takes its time, and is a future until then."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from ottla.config.topic import TopicConfig
from ottla.ports import (
    Buffer,
    Clock,
    Extent,
    PartitionLog,
    PartitionRef,
    Replacement,
    SaveTime,
    Snapshot,
    StorageError,
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
