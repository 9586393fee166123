"""A claimed partition of the memory engine, and the segments that replace others in it."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence

from ottla.config.topic import TopicConfig
from ottla.core.aborted import AbortedSpan
from ottla.ports import (
    BatchEntry,
    Buffer,
    Clock,
    EpochStart,
    Extent,
    FencedError,
    PartitionRef,
    SaveTime,
    SegmentInfo,
    Snapshot,
    StorageError,
    monotonic_ms,
)
from ottla.storage.batch_headers import HEADERS_READ_BYTES, take_headers
from ottla.storage.kept_snapshots import kept_snapshots
from ottla.storage.memory.segments import (
    BATCH_OVERHEAD_BYTES,
    MAX_RELATIVE_OFFSET,
    Budget,
    MemoryPartition,
    MemorySegment,
)


class MemoryReplacement:
    """Implements Replacement."""

    def __init__(
        self,
        log: MemoryLog,
        partition: MemoryPartition,
        old: Sequence[MemorySegment],
        budget: Budget,
    ) -> None:
        self._log = log
        self._partition = partition
        self._old = old
        self._budget = budget
        base_offset = old[0].base_offset
        self._new = MemorySegment(base_offset, old[0].created_ms, base_offset, old[-1].written_ms)
        self._is_over = False

    def append(self, data: Buffer, extents: Sequence[Extent]) -> None:
        self._log.check_open()
        if (
            self._is_over
            or extents[0].base_offset < self._new.end_offset
            or extents[-1].last_offset >= self._old[-1].end_offset
        ):
            raise ValueError(f"{extents} cannot replace what is in {self._partition.ref}")
        self._budget.take(len(data) + BATCH_OVERHEAD_BYTES * len(extents))
        position = 0
        for extent in extents:
            self._new.add(bytes(data[position : position + extent.size_bytes]), extent)
            position += extent.size_bytes

    def flush(self) -> asyncio.Future[None] | None:
        self._log.check_open()
        return None

    def commit(self) -> bool:
        self._log.check_open()
        segments = self._partition.segments
        if not any(segment is self._old[0] for segment in segments):
            self.abandon()
            return False
        self._is_over = True
        first = self._partition.bases.index(self._new.base_offset)
        stop = first + len(self._old)
        self._new.end_offset = self._old[-1].end_offset
        segments[first:stop] = [self._new]
        self._partition.bases[first:stop] = [self._new.base_offset]
        self._budget.used_bytes -= sum(segment.cost_bytes for segment in self._old)
        self._log.prune_snapshots()
        return True

    def abandon(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._budget.used_bytes -= self._new.cost_bytes


class MemoryLog:
    """Implements PartitionLog."""

    __slots__ = ("_budget", "_clock", "_config", "_ended", "_epoch", "_partition", "_released")

    def __init__(
        self,
        partition: MemoryPartition,
        epoch: int,
        config: TopicConfig,
        clock: Clock,
        budget: Budget,
        released: Callable[[MemoryLog], None],
    ) -> None:
        self._partition = partition
        self._epoch = epoch
        self._config = config
        self._clock = clock
        self._budget = budget
        self._released = released
        self._ended: StorageError | None = None

    @property
    def ref(self) -> PartitionRef:
        return self._partition.ref

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def is_open(self) -> bool:
        return self._ended is None

    @property
    def start_offset(self) -> int:
        return self._partition.start_offset

    @property
    def end_offset(self) -> int:
        return self._partition.segments[-1].end_offset

    @property
    def last_base_offset(self) -> int:
        return self._partition.bases[-1]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._partition.segments)

    @property
    def epochs(self) -> Sequence[EpochStart]:
        return tuple(self._partition.epochs)

    def configure(self, config: TopicConfig) -> None:
        self._config = config

    def check_open(self) -> None:
        if self._ended is not None:
            raise type(self._ended)(*self._ended.args)

    def append(
        self, data: Buffer, extents: Sequence[Extent], expected_end_offset: int
    ) -> asyncio.Future[None] | None:
        self.check_open()
        partition = self._partition
        active = partition.segments[-1]
        if (
            expected_end_offset != active.end_offset
            or extents[0].base_offset < expected_end_offset
            or sum(extent.size_bytes for extent in extents) != len(data)
        ):
            raise ValueError(
                f"append of {extents} expecting {expected_end_offset} to {partition.ref}, "
                f"which ends at {active.end_offset}"
            )
        if self._roll_is_due(active, len(data), extents[-1]):
            self.roll()
            active = partition.segments[-1]
        if extents[-1].last_offset - active.base_offset > MAX_RELATIVE_OFFSET:
            raise ValueError(f"{extents[-1]} is too far from the start of its segment")
        self._budget.take(len(data) + BATCH_OVERHEAD_BYTES * len(extents))
        if not partition.epochs or partition.epochs[-1].epoch != self._epoch:
            start = EpochStart(self._epoch, extents[0].base_offset)
            # An epoch without records is replaced.
            lasting = [old for old in partition.epochs if old.start_offset < start.start_offset]
            partition.epochs = [*lasting, start]
        position = 0
        active.written_ms = self._clock.now_ms()
        for extent in extents:
            active.add(bytes(data[position : position + extent.size_bytes]), extent)
            position += extent.size_bytes
        return None

    def _roll_is_due(self, active: MemorySegment, size_bytes: int, extent: Extent) -> bool:
        if not active.batches:
            return False
        first_ms = active.timestamps_ms[0]
        age_ms = (
            extent.max_timestamp_ms - first_ms
            if first_ms >= 0
            else monotonic_ms(self._clock) - active.created_ms
        )
        return (
            active.size_bytes > self._config.segment_bytes - size_bytes
            or age_ms > self._config.max_segment_ms
            or extent.last_offset - active.base_offset > MAX_RELATIVE_OFFSET
        )

    def roll(self) -> None:
        self.check_open()
        partition = self._partition
        end_offset = self.end_offset
        if not partition.segments[-1].batches:
            return
        partition.segments.append(
            MemorySegment(end_offset, monotonic_ms(self._clock), end_offset, self._clock.now_ms())
        )
        partition.bases.append(end_offset)

    def read(self, offset: int, max_bytes: int, end_offset: int) -> Buffer:
        self.check_open()
        partition = self._partition
        offset = max(offset, partition.start_offset)
        for segment in partition.segments[bisect_right(partition.bases, offset) - 1 :]:
            if segment.base_offset >= end_offset:
                break
            data = segment.read(offset, max_bytes, end_offset)
            if data:
                return data
        return b""

    def headers(self, offset: int, end_offset: int, max_cost: int) -> Sequence[BatchEntry]:
        return take_headers(self.read(offset, HEADERS_READ_BYTES, end_offset), offset, max_cost)

    def scan(self, offset: int, max_bytes: int, end_offset: int) -> Buffer:
        return self.read(offset, max_bytes, end_offset)

    def batch_at_timestamp(self, timestamp_ms: int, offset: int) -> Buffer | None:
        self.check_open()
        offset = max(offset, self._partition.start_offset)
        for segment in self._partition.segments:
            if segment.max_timestamp_ms < timestamp_ms:
                continue
            for number in range(bisect_left(segment.last_offsets, offset), len(segment.batches)):
                if segment.timestamps_ms[number] >= timestamp_ms:
                    return segment.batches[number]
        return None

    def batch_of_max_timestamp(self) -> Buffer | None:
        self.check_open()
        best: tuple[int, bytes] | None = None
        for segment in self._partition.segments:
            first = bisect_left(segment.last_offsets, self._partition.start_offset)
            for number in range(first, len(segment.batches)):
                if best is None or segment.timestamps_ms[number] > best[0]:
                    best = segment.timestamps_ms[number], segment.batches[number]
        return None if best is None else best[1]

    def segments(self) -> Sequence[SegmentInfo]:
        return [
            SegmentInfo(
                segment.base_offset,
                segment.end_offset,
                segment.size_bytes,
                segment.written_ms if segment.max_timestamp_ms < 0 else segment.max_timestamp_ms,
            )
            for segment in self._partition.segments
        ]

    def trim(self, start_offset: int) -> None:
        self.check_open()
        partition = self._partition
        if start_offset > self.end_offset:
            raise ValueError(f"{partition.ref} ends at {self.end_offset}, below {start_offset}")
        # A segment that stayed because it was the last one may be deleted now.
        start_offset = max(start_offset, partition.start_offset)
        kept = bisect_right(partition.bases, start_offset) - 1
        self._budget.used_bytes -= sum(segment.cost_bytes for segment in partition.segments[:kept])
        del partition.segments[:kept], partition.bases[:kept]
        partition.start_offset = start_offset
        below = [entry for entry in partition.epochs if entry.start_offset <= start_offset]
        if below:
            first = EpochStart(below[-1].epoch, start_offset)
            partition.epochs[: len(below)] = [first]
        self.prune_snapshots()

    def begin_replacement(self, base_offsets: Sequence[int]) -> MemoryReplacement:
        self.check_open()
        partition = self._partition
        first = bisect_right(partition.bases, base_offsets[0]) - 1
        stop = first + len(base_offsets)
        if partition.bases[first:stop] != list(base_offsets) or stop >= len(partition.bases):
            raise ValueError(f"{base_offsets} are no neighbouring sealed segments")
        return MemoryReplacement(self, partition, partition.segments[first:stop], self._budget)

    @property
    def cleaned_offset(self) -> int | None:
        return self._partition.cleaned_offset

    def save_cleaned_offset(self, offset: int) -> None:
        self.check_open()
        self._partition.cleaned_offset = offset

    def save_snapshot(self, snapshot: Snapshot, when: SaveTime = SaveTime.NOW) -> None:
        self.check_open()
        partition = self._partition
        self._budget.take(len(snapshot.data))
        if snapshot.offset in partition.snapshots:
            self._budget.used_bytes -= len(partition.snapshots[snapshot.offset])
        else:
            insort(partition.snapshot_offsets, snapshot.offset)
        partition.snapshots[snapshot.offset] = snapshot.data
        self.prune_snapshots()

    def prune_snapshots(self) -> None:
        partition = self._partition
        kept = kept_snapshots(partition.snapshot_offsets, partition.bases)
        for offset in [found for found in partition.snapshot_offsets if found not in kept]:
            self._budget.used_bytes -= len(partition.snapshots.pop(offset))
            partition.snapshot_offsets.remove(offset)

    def snapshots(self) -> Iterator[Snapshot]:
        partition = self._partition
        for offset in list(reversed(partition.snapshot_offsets)):
            if offset <= self.end_offset:
                yield Snapshot(offset, partition.snapshots[offset])

    def note_aborted(self, span: AbortedSpan) -> None:
        self.check_open()
        aborted = self._segment_of(span.last_offset).aborted
        if not aborted or span.last_offset > aborted[-1].last_offset:
            # Even beyond the limit: the marker is in the log, and needs its span.
            self._budget.used_bytes += BATCH_OVERHEAD_BYTES
            aborted.append(span)

    def aborted(self, offset: int) -> Iterator[AbortedSpan]:
        self.check_open()
        partition = self._partition
        for segment in partition.segments[max(bisect_right(partition.bases, offset) - 1, 0) :]:
            yield from segment.aborted

    def _segment_of(self, offset: int) -> MemorySegment:
        partition = self._partition
        return partition.segments[max(bisect_right(partition.bases, offset) - 1, 0)]

    def flush(self) -> asyncio.Future[None] | None:
        self.check_open()
        return None

    def fence(self) -> None:
        """Ends the claim in favour of another."""
        self._ended = FencedError(f"{self.ref} was claimed anew, epoch {self._epoch} is over")

    def close(self) -> None:
        if self._ended is None:
            self._ended = StorageError(f"{self.ref} was closed")
            self._released(self)
