"""Reads partitions for a Fetch, and waits until there is enough; `core.fetch` has the rules."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Generator, Iterator, Sequence
from typing import NamedTuple, TypeVar
from uuid import UUID

from ottla.broker.node import Node
from ottla.broker.partitions.shard import Shard
from ottla.core.aborted import AbortedSpan
from ottla.core.fetch import Diverged, FetchLimits, Read, decide_read
from ottla.core.fetch_session import FetchContext, FetchTarget, Key
from ottla.core.leader_epochs import EpochEnd
from ottla.core.outcomes import Refused
from ottla.core.partition import Bounds
from ottla.errors import ErrorCode
from ottla.ports import Buffer, ReadPendingError, StorageError, StorageUnavailableError

T = TypeVar("T")

NO_RECORDS = b""
_DENIED = Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
UNKNOWN_BOUNDS = Bounds(-1, -1, -1, -1)
# A fetch of more partitions runs in slices of the loop's time.
PARTITIONS_AT_ONCE = 256
PARTITIONS_PER_STEP = 16


class Fetched(NamedTuple):
    """The result of a fetch for one partition."""

    key: Key
    target: FetchTarget
    refused: Refused | None
    bounds: Bounds
    records: Buffer = NO_RECORDS
    diverging: EpochEnd | None = None
    aborted: Sequence[AbortedSpan] = ()


class FetchRead:
    """The partitions that a fetch has read; `is_final` if it must not wait for more.

    Partitions whose records the engine has to fetch are read as if they had none; `pending` is done when it has them.
    """

    __slots__ = ("is_final", "partitions", "pending", "size_bytes")

    def __init__(self) -> None:
        self.partitions: list[Fetched] = []
        self.size_bytes = 0
        self.is_final = False
        self.pending: list[asyncio.Future[None]] = []

    def add(
        self,
        node: Node,
        targets: Sequence[tuple[Key, FetchTarget]],
        limits: FetchLimits,
        denied: Container[str | UUID],
    ) -> None:
        """Reads partitions within the limits."""
        size_bytes = self.size_bytes
        for key, target in targets:
            if key[0] in denied:
                one = Fetched(key, target, _DENIED, UNKNOWN_BOUNDS)
            else:
                room_bytes = limits.max_bytes - size_bytes
                one = self._read(node, key, target, limits, room_bytes, size_bytes == 0)
            size_bytes += len(one.records)
            if one.refused is not None or one.diverging is not None:
                self.is_final = True
            self.partitions.append(one)
        self.size_bytes = size_bytes

    def _read(
        self,
        node: Node,
        key: Key,
        target: FetchTarget,
        limits: FetchLimits,
        room_bytes: int,
        is_first: bool,
    ) -> Fetched:
        shard = _shard(node, target)
        if not isinstance(shard, Shard):
            return Fetched(key, target, Refused(shard), UNKNOWN_BOUNDS)
        decision = decide_read(
            shard.partition, shard.log, target, limits.isolation_level, room_bytes, is_first
        )
        if isinstance(decision, Read):
            return self._read_log(shard, key, target, decision, limits)
        if isinstance(decision, Refused):
            return Fetched(key, target, decision, UNKNOWN_BOUNDS)
        end = decision.end if isinstance(decision, Diverged) else None
        return Fetched(key, target, None, decision.bounds, diverging=end)

    def _read_log(
        self, shard: Shard, key: Key, target: FetchTarget, permitted: Read, limits: FetchLimits
    ) -> Fetched:
        bounds, offset = permitted.bounds, target.fetch_offset
        try:
            records = shard.read(offset, permitted.max_bytes, bounds.end_offset)
            if not permitted.accepts(len(records)):
                records = NO_RECORDS
            aborted: Sequence[AbortedSpan] = ()
            if limits.is_committed:
                aborted = shard.aborted_in(records, offset, bounds.end_offset)
        except StorageUnavailableError as failure:
            if isinstance(failure, ReadPendingError):
                self.pending.append(failure.done)
            return Fetched(key, target, None, bounds)
        except StorageError as failure:
            shard.fail(failure)
            return Fetched(key, target, Refused(ErrorCode.KAFKA_STORAGE_ERROR), UNKNOWN_BOUNDS)
        return Fetched(key, target, None, bounds, records, None, aborted)


def read_all(node: Node, context: FetchContext, limits: FetchLimits) -> FetchRead:
    """Reads every partition once."""
    read = FetchRead()
    read.add(node, context.targets, limits, context.denied)
    return read


def read_in_steps(
    node: Node, context: FetchContext, limits: FetchLimits
) -> Generator[None, None, FetchRead]:
    """As `read_all`, with pauses."""
    read = FetchRead()
    for targets in steps_of(context.targets):
        read.add(node, targets, limits, context.denied)
        yield
    return read


def steps_of(elements: Sequence[T]) -> Iterator[Sequence[T]]:
    """The elements in portions that take little time each."""
    for start in range(0, len(elements), PARTITIONS_PER_STEP):
        yield elements[start : start + PARTITIONS_PER_STEP]


def _shard(node: Node, target: FetchTarget) -> Shard | ErrorCode:
    name = target.topic
    if not name:
        topic = node.cluster.catalog.topics_by_id.get(target.topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        name = topic.name
    return node.partitions.readable_shard(name, target.partition)


class ParkedFetch:
    """A fetch that waits for records.

    It is woken by its partitions, by the first of the reads that it waits for, by its timer, or when a partition
    moves away.
    """

    def __init__(
        self, node: Node, context: FetchContext, max_wait_ms: int, missing_bytes: int
    ) -> None:
        loop = asyncio.get_running_loop()
        self._missing_bytes = missing_bytes
        self._is_due = False
        self.is_released = False
        """Whether it has to be answered now, because a partition is no longer served here."""
        self._shards = _shards(node, context)
        self._loop = loop
        self._timer = loop.call_later(max_wait_ms / 1000, self._finish)
        self.over: asyncio.Future[None] = loop.create_future()
        self.over.add_done_callback(self._leave)
        self._pending: Sequence[asyncio.Future[None]] = ()
        for shard in self._shards:
            shard.waiters[self] = None

    def left_ms(self) -> int:
        """What is left of the time that it may wait."""
        return int((self._timer.when() - self._loop.time()) * 1000)

    def wait_for(self, pending: Sequence[asyncio.Future[None]]) -> None:
        """Has the first of these reads wake the fetch, too."""
        self._pending = pending
        for done in pending:
            done.add_done_callback(self._fetched)

    def _fetched(self, _: asyncio.Future[None]) -> None:
        self._finish_soon()

    def grown(self, shard: Shard, size_bytes: int) -> None:
        """A partition has more records."""
        self._missing_bytes -= size_bytes
        if self._missing_bytes <= 0 and self._may_read(shard):
            self._finish_soon()

    def has_read(self, size_bytes: int) -> None:
        """The fetch has read this much before it waits."""
        self._missing_bytes -= size_bytes
        if size_bytes and self._missing_bytes <= 0:
            self._finish_soon()

    def _may_read(self, shard: Shard) -> bool:
        """Whether the reader may see more records than when it began to wait."""
        return True

    def gone(self) -> None:
        """A partition is no longer served here: the fetch returns the records that it has."""
        self.is_released = True
        self._finish_soon()

    def _finish_soon(self) -> None:
        # At the end of the loop's turn: other partitions may have grown in it too.
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._finish)

    def _finish(self) -> None:
        if not self.over.done():
            self.over.set_result(None)

    def _leave(self, _: asyncio.Future[None]) -> None:
        self._timer.cancel()
        for done in self._pending:
            done.remove_done_callback(self._fetched)
        for shard in self._shards:
            shard.waiters.pop(self, None)


class ParkedCommittedFetch(ParkedFetch):
    """A fetch of committed records: it is woken only when a last stable offset has moved."""

    def __init__(
        self, node: Node, context: FetchContext, max_wait_ms: int, missing_bytes: int
    ) -> None:
        super().__init__(node, context, max_wait_ms, missing_bytes)
        self._stable = {shard: shard.partition.last_stable_offset for shard in self._shards}
        self._has_more = False

    def _may_read(self, shard: Shard) -> bool:
        self._has_more = self._has_more or shard.partition.last_stable_offset > self._stable[shard]
        return self._has_more


def park(node: Node, context: FetchContext, limits: FetchLimits, missing_bytes: int) -> ParkedFetch:
    """Parks a fetch until a reader of its isolation level has `missing_bytes` more to read."""
    kind = ParkedCommittedFetch if limits.is_committed else ParkedFetch
    return kind(node, context, limits.max_wait_ms, missing_bytes)


class FetchWait:
    """The wait of one fetch, which is parked once, and again as long as the engine has nothing for it in memory."""

    __slots__ = ("_context", "_limits", "_node", "parked")

    def __init__(
        self, node: Node, context: FetchContext, limits: FetchLimits, missing_bytes: int
    ) -> None:
        self._node = node
        self._context = context
        self._limits = limits
        self.parked = park(node, context, limits, missing_bytes)

    def goes_on(self, read: FetchRead) -> bool:
        """Parks the fetch for the rest of its time if all that it has read is still pending."""
        last = self.parked
        if not read.pending or read.size_bytes or read.is_final or last.is_released:
            return False
        left_ms = last.left_ms()
        if left_ms <= 0:
            return False
        self.parked = park(
            self._node,
            self._context,
            self._limits._replace(max_wait_ms=left_ms),
            self._limits.min_bytes,
        )
        self.parked.wait_for(read.pending)
        return True


def _shards(node: Node, context: FetchContext) -> list[Shard]:
    found = [
        _shard(node, target) for key, target in context.targets if key[0] not in context.denied
    ]
    return [shard for shard in found if isinstance(shard, Shard)]
