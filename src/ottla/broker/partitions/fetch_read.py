"""Reading for a fetch: what each partition has, and the wait until there is enough."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple, TypeVar

from ottla.broker.node import Node
from ottla.broker.partitions.shard import Shard
from ottla.core.aborted import AbortedSpan
from ottla.core.fetch_session import FetchContext, FetchTarget, Key
from ottla.core.leader_epochs import UNDEFINED, EpochEnd, end_of_epoch
from ottla.core.partition import READ_COMMITTED, Bounds
from ottla.errors import ErrorCode
from ottla.ports import Buffer, StorageError

T = TypeVar("T")

NO_RECORDS = b""
UNKNOWN_BOUNDS = Bounds(-1, -1, -1, -1)
# A fetch of more partitions goes on in slices.
PARTITIONS_AT_ONCE = 256
PARTITIONS_PER_STEP = 16


class FetchLimits(NamedTuple):
    """How much a fetch takes and how long it may wait for how much."""

    max_bytes: int
    min_bytes: int
    max_wait_ms: int
    isolation_level: int


class Fetched(NamedTuple):
    """What one partition gave."""

    key: Key
    target: FetchTarget
    error: ErrorCode
    bounds: Bounds
    records: Buffer
    leader_epoch: int = -1
    diverging: EpochEnd | None = None
    aborted: Sequence[AbortedSpan] = ()


class FetchRead:
    """What partitions gave; `is_final` if waiting would be wrong."""

    __slots__ = ("is_final", "partitions", "size_bytes")

    def __init__(self) -> None:
        self.partitions: list[Fetched] = []
        self.size_bytes = 0
        self.is_final = False

    def add(
        self, node: Node, targets: Sequence[tuple[Key, FetchTarget]], limits: FetchLimits
    ) -> None:
        """Reads partitions within the limits; the first batch comes even if it is larger than they are."""
        size_bytes = self.size_bytes
        for key, target in targets:
            one = _read(
                node, key, target, limits, limits.max_bytes - size_bytes, is_first=size_bytes == 0
            )
            size_bytes += len(one.records)
            if one.error is not ErrorCode.NONE or one.diverging is not None:
                self.is_final = True
            self.partitions.append(one)
        self.size_bytes = size_bytes


def read_all(node: Node, context: FetchContext, limits: FetchLimits) -> FetchRead:
    """Reads every partition once."""
    read = FetchRead()
    read.add(node, context.targets, limits)
    return read


def read_in_steps(
    node: Node, context: FetchContext, limits: FetchLimits
) -> Generator[None, None, FetchRead]:
    """As `read_all`, with pauses."""
    read = FetchRead()
    for targets in steps_of(context.targets):
        read.add(node, targets, limits)
        yield
    return read


def steps_of(elements: Sequence[T]) -> Iterator[Sequence[T]]:
    """So many at a time that others need not wait for them."""
    for start in range(0, len(elements), PARTITIONS_PER_STEP):
        yield elements[start : start + PARTITIONS_PER_STEP]


def _read(
    node: Node, key: Key, target: FetchTarget, limits: FetchLimits, room_bytes: int, is_first: bool
) -> Fetched:
    name = target.topic
    if not name:
        topic = node.cluster.catalog.topics_by_id.get(target.topic_id)
        if topic is None:
            return Fetched(key, target, ErrorCode.UNKNOWN_TOPIC_ID, UNKNOWN_BOUNDS, NO_RECORDS)
        name = topic.name
    shard = node.partitions.shard(name, target.partition)
    if not isinstance(shard, Shard):
        return Fetched(key, target, shard, UNKNOWN_BOUNDS, NO_RECORDS)
    partition = shard.partition
    epoch = partition.leader_epoch
    error = partition.check_leader_epoch(target.leader_epoch)
    if error is not ErrorCode.NONE:
        return Fetched(key, target, error, UNKNOWN_BOUNDS, NO_RECORDS, epoch)
    bounds = partition.bounds(limits.isolation_level)
    offset = target.fetch_offset
    end = UNDEFINED
    if target.last_fetched_epoch >= 0:
        end = end_of_epoch(shard.log.epochs, epoch, target.last_fetched_epoch, partition.end_offset)
    is_lost = target.last_fetched_epoch >= 0 and end is UNDEFINED
    if is_lost or not bounds.start_offset <= offset <= partition.end_offset:
        return Fetched(
            key, target, ErrorCode.OFFSET_OUT_OF_RANGE, UNKNOWN_BOUNDS, NO_RECORDS, epoch
        )
    if end is not UNDEFINED and (end.epoch < target.last_fetched_epoch or end.end_offset < offset):
        return Fetched(key, target, ErrorCode.NONE, bounds, NO_RECORDS, epoch, end)
    max_bytes = min(target.max_bytes, room_bytes)
    if offset >= bounds.end_offset or (max_bytes <= 0 and not is_first):
        return Fetched(key, target, ErrorCode.NONE, bounds, NO_RECORDS, epoch)
    try:
        records = shard.read(offset, max_bytes, bounds.end_offset)
        if len(records) > max_bytes and not is_first:
            # Only the first partition may exceed the limits, so that a consumer gets ahead whatever they are (KIP-74).
            records = NO_RECORDS
        aborted: Sequence[AbortedSpan] = ()
        if limits.isolation_level == READ_COMMITTED:
            aborted = shard.aborted_in(records, offset, bounds.end_offset)
    except StorageError as failure:
        shard.fail(failure)
        return Fetched(
            key, target, ErrorCode.KAFKA_STORAGE_ERROR, UNKNOWN_BOUNDS, NO_RECORDS, epoch
        )
    return Fetched(key, target, ErrorCode.NONE, bounds, records, epoch, None, aborted)


class ParkedFetch:
    """A fetch that waits for data: woken by the partitions it reads, by the clock, or by their end."""

    def __init__(
        self, node: Node, context: FetchContext, max_wait_ms: int, missing_bytes: int
    ) -> None:
        loop = asyncio.get_running_loop()
        self._missing_bytes = missing_bytes
        self._is_due = False
        self._shards = _shards(node, context)
        self._loop = loop
        self._timer = loop.call_later(max_wait_ms / 1000, self._finish)
        self.over: asyncio.Future[None] = loop.create_future()
        self.over.add_done_callback(self._leave)
        for shard in self._shards:
            shard.waiters[self] = None

    def grown(self, shard: Shard, size_bytes: int) -> None:
        """A partition has more to read."""
        self._missing_bytes -= size_bytes
        if self._missing_bytes <= 0 and self._may_read(shard):
            self._finish_soon()

    def has_read(self, size_bytes: int) -> None:
        """So much was there already."""
        self._missing_bytes -= size_bytes
        if size_bytes and self._missing_bytes <= 0:
            self._finish_soon()

    def _may_read(self, shard: Shard) -> bool:
        """Whether there is more for this reader."""
        return True

    def gone(self) -> None:
        """A partition will not be what it was: whatever there is must be answered."""
        self._finish_soon()

    def _finish_soon(self) -> None:
        # Not at once: more of the same turn of the loop may come along.
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._finish)

    def _finish(self) -> None:
        if not self.over.done():
            self.over.set_result(None)

    def _leave(self, _: asyncio.Future[None]) -> None:
        self._timer.cancel()
        for shard in self._shards:
            shard.waiters.pop(self, None)


class ParkedCommittedFetch(ParkedFetch):
    """A fetch of committed records: those of open transactions are nothing to it until they end."""

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
    """Waits until a reader of this isolation level has more to read."""
    is_committed = limits.isolation_level == READ_COMMITTED
    kind = ParkedCommittedFetch if is_committed else ParkedFetch
    return kind(node, context, limits.max_wait_ms, missing_bytes)


def _shards(node: Node, context: FetchContext) -> list[Shard]:
    found = []
    for _, target in context.targets:
        name = target.topic
        if not name:
            topic = node.cluster.catalog.topics_by_id.get(target.topic_id)
            name = "" if topic is None else topic.name
        shard = node.partitions.shard(name, target.partition)
        if isinstance(shard, Shard):
            found.append(shard)
    return found
