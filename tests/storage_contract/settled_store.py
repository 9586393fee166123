"""An engine whose changes are futures and whose reads may be pending, as the tests of the contract use every engine.

Its event loop runs on a thread. A call returns when it is settled: futures are awaited, and what is pending is called
again when it can be answered.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

from ottla.config.topic import TopicConfig
from ottla.ports import (
    Buffer,
    ClaimPendingError,
    Extent,
    LogDir,
    LogStore,
    PartitionLog,
    PartitionRef,
    ReadPendingError,
    Replacement,
    StorageError,
    UnclaimedLog,
)
from ottla.storage.shared.log.partition_log import SharedLog
from ottla.storage.shared.store import SharedStore

T = TypeVar("T")


class LoopThread:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, call: Callable[[], Any]) -> Any:
        """Calls something in the loop, and returns its settled result."""
        if threading.current_thread() is self._thread:
            return call()
        return asyncio.run_coroutine_threadsafe(self._settle(call), self.loop).result(20)

    async def _settle(self, call: Callable[[], Any]) -> Any:
        while True:
            try:
                result = call()
            except (ReadPendingError, ClaimPendingError) as pending:
                await asyncio.wait([pending.done])
                continue
            if isinstance(result, Awaitable):
                return await result
            return iter(list(result)) if isinstance(result, Iterator) else result

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()


class Settled:
    """Anything that belongs to the loop: its methods are called there, and return settled results."""

    def __init__(self, inner: Any, thread: LoopThread) -> None:
        self.inner = inner
        self.thread = thread

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if not callable(found):
            return found
        return lambda *arguments: self.thread.run(lambda: found(*arguments))


class SettledLog(Settled):
    """Implements PartitionLog."""

    def append(self, data: Buffer, extents: Sequence[Extent], expected_end_offset: int) -> None:
        inner: SharedLog = self.inner
        self.thread.run(lambda: inner.append(data, extents, expected_end_offset))

    def begin_replacement(self, base_offsets: Sequence[int]) -> Replacement:
        made = self.thread.run(lambda: self.inner.begin_replacement(base_offsets))
        return cast(Replacement, Settled(made, self.thread))

    def in_one_turn(self, call: Callable[[PartitionLog], Any]) -> Any:
        return self.thread.run(lambda: call(self.inner))


class SettledStore(Settled):
    """Implements LogStore."""

    def __init__(
        self, opened: Callable[[], Awaitable[SharedStore]], thread: LoopThread | None = None
    ) -> None:
        """A thread that is given is stopped by the caller."""
        self._stops_thread = thread is None
        thread = thread or LoopThread()
        super().__init__(thread.run(opened), thread)

    def claim(self, ref: PartitionRef, config: TopicConfig) -> PartitionLog:
        made = self.thread.run(lambda: self.inner.claim(ref, config))
        return cast(PartitionLog, SettledLog(made, self.thread))

    @property
    def catalog(self) -> Any:
        return Settled(self.inner.catalog, self.thread)

    def trim_all(self, starts: Mapping[PartitionLog, int]) -> Sequence[StorageError | None]:
        inner = {cast(SettledLog, log).inner: start for log, start in starts.items()}
        errors: Sequence[StorageError | None] = self.thread.run(lambda: self.inner.trim_all(inner))
        return errors

    def unclaimed(
        self, refs: Iterable[PartitionRef]
    ) -> Mapping[PartitionRef, UnclaimedLog | StorageError]:
        asked = list(refs)
        self.thread.run(lambda: self.inner.ask_unclaimed(asked))
        found: Mapping[PartitionRef, UnclaimedLog | StorageError]
        found = self.thread.run(lambda: self.inner.unclaimed(asked))
        return found

    def log_dirs(self) -> Sequence[LogDir]:
        self.unclaimed(self.inner.partitions())
        found: Sequence[LogDir] = self.thread.run(self.inner.log_dirs)
        return found

    def close(self) -> None:
        if not self.thread.loop.is_closed():
            self.thread.run(self.inner.close)
            if self._stops_thread:
                self.thread.stop()


def in_one_turn(log: PartitionLog, call: Callable[[PartitionLog], Any]) -> Any:
    """Calls several methods of a log without anything in between."""
    return log.in_one_turn(call) if isinstance(log, SettledLog) else call(log)


def snapshots_kept(store: LogStore, by_rule: int) -> int:
    """How many of the newest snapshots an engine keeps, where others keep `by_rule`."""
    return min(by_rule, 2) if is_shared(store) else by_rule


def is_shared(store: LogStore) -> bool:
    """Whether the store is a shared one. It differs in what the port leaves to engines:

    - A trim deletes whatever lies wholly below the start, in whole appends, not only whole segments.
    - Two snapshots are kept: no recovery cuts its logs.
    - An aborted transaction is stored with the append of its marker, so it has to be noted in the same turn.
    - It does not know how large its disks are.
    """
    return isinstance(store, SettledStore)
