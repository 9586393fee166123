"""A claimed partition of the shared engine."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from ottla.config.topic import TopicConfig
from ottla.core.aborted import AbortedSpan
from ottla.ports import (
    BatchEntry,
    Buffer,
    DamagedError,
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
from ottla.storage.shared.log.aborted_spans import AbortedSpans
from ottla.storage.shared.log.epoch_starts import cut_start, enter_epoch, stored_epochs
from ottla.storage.shared.log.replacement import SharedReplacement
from ottla.storage.shared.log.runs import Run, Runs
from ottla.storage.shared.log.snapshots import LogSnapshots
from ottla.storage.shared.log.store_parts import StoreParts
from ottla.storage.shared.log.timestamps import batch_at_timestamp, batch_of_max_timestamp
from ottla.storage.shared.read.block import Block
from ottla.storage.shared.read.cold_reads import ColdLog
from ottla.storage.shared.read.tail_cache import LogTail
from ottla.storage.shared.retries import until_available
from ottla.storage.shared.run_headers import read_run_headers
from ottla.storage.shared.run_spans import decode_spans
from ottla.storage.shared.segment_marks import Mark
from ottla.storage.shared.sequencer.records import (
    Claimed,
    OpenedPartition,
    StoredRun,
    WrittenObject,
)
from ottla.storage.shared.sequencer.records import Replacement as RunReplacement
from ottla.storage.shared.write.lanes import Lane
from ottla.storage.shared.write.part import Part
from ottla.storage.shared_future import unwatched_future

T = TypeVar("T")

MAX_RELATIVE_OFFSET: Final = 2**31 - 1


class SharedLog:
    """Implements PartitionLog. All state is in memory but the batches; every change goes through the sequencer."""

    def __init__(
        self, claimed: Claimed, opened: OpenedPartition, config: TopicConfig, parts: StoreParts
    ) -> None:
        self._parts = parts
        self._ref = claimed.ref
        self._epoch = claimed.epoch
        self.partition_id = claimed.partition_id
        self._start_offset = claimed.start_offset
        self._end_offset = claimed.end_offset
        # Everything below it is durable.
        self.settled_offset = claimed.end_offset
        self._config = config
        self._epochs = stored_epochs(opened.epochs, claimed.start_offset, claimed.end_offset)
        self._cleaned_offset = opened.cleaned_offset
        self._aborted = AbortedSpans(spans_of(opened))
        self._runs = Runs(runs_of(opened), claimed.end_offset)
        self._active_since_ms = monotonic_ms(parts.clock)
        self._empty_since_ms = parts.clock.now_ms()
        self._snapshots = LogSnapshots(opened.snapshots, self._save_snapshot)
        self._tail = LogTail()
        self._cold = ColdLog(
            claimed.partition_id,
            f"partition {claimed.ref.topic}-{claimed.ref.partition}",
            parts.reads,
            lambda: self._start_offset,
        )
        self._last: tuple[Lane, Part] | None = None
        self._is_closed = False
        self._closing: asyncio.Future[None] | None = None
        self.lost: StorageError | None = None
        # At most one of them changes which runs the log has.
        self.replacing = asyncio.Lock()
        self.replacement: SharedReplacement | None = None

    # What it is.

    @property
    def ref(self) -> PartitionRef:
        return self._ref

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def is_open(self) -> bool:
        return self.lost is None and not self._is_closed

    @property
    def start_offset(self) -> int:
        return self._start_offset

    @property
    def end_offset(self) -> int:
        return self._end_offset

    @property
    def last_base_offset(self) -> int:
        return self._runs.last_base_offset

    @property
    def size_bytes(self) -> int:
        return self._runs.size_bytes

    @property
    def runs(self) -> Runs:
        return self._runs

    @property
    def epochs(self) -> Sequence[EpochStart]:
        return tuple(self._epochs)

    def configure(self, config: TopicConfig) -> None:
        self._config = config

    # The claim.

    def check_open(self) -> None:
        if self.lost is not None:
            raise type(self.lost)(*self.lost.args)
        if self._is_closed:
            raise StorageError(f"{self._ref} was closed")

    def lose(self, error: StorageError) -> None:
        """The claim is over; what was not sent to the sequencer yet fails."""
        if self.lost is not None:
            return
        self.lost = error
        self._parts.tails.forget_all(self._tail)
        self._cold.forget()
        self._parts.ended(self)

    def fence(self) -> None:
        """Ends the claim in favour of another."""
        self.lose(self._fenced())

    def _fenced(self) -> FencedError:
        return FencedError(f"{self._ref} was claimed anew, epoch {self._epoch} is over")

    def _check_accepted(self, accepted: bool) -> None:
        """The sequencer refuses a change only if the claim is over."""
        if not accepted:
            self.fence()
            raise self._fenced()

    def _begin(self, change: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        """Makes a change in the background; its failure need not be read."""
        done = unwatched_future()

        def end(task: asyncio.Task[None]) -> None:
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            if error is None:
                done.set_result(None)
            elif isinstance(error, asyncio.CancelledError):
                done.set_exception(StorageError(f"{self._ref}: the change was given up"))
            else:
                done.set_exception(error)

        asyncio.get_running_loop().create_task(change).add_done_callback(end)
        return done

    # Appending.

    def append(
        self, data: Buffer, extents: Sequence[Extent], expected_end_offset: int
    ) -> asyncio.Future[None]:
        if self.lost is not None or self._is_closed:
            self.check_open()
        size_bytes = len(data)
        if (
            expected_end_offset != self._end_offset
            or extents[0].base_offset < expected_end_offset
            or sum([extent.size_bytes for extent in extents]) != size_bytes
        ):
            raise ValueError(
                f"append of {extents} expecting {expected_end_offset} to {self._ref}, "
                f"which ends at {self._end_offset}"
            )
        if self._roll_is_due(size_bytes, extents[-1]):
            self.roll()
        if extents[-1].last_offset - self._runs.last_base_offset > MAX_RELATIVE_OFFSET:
            raise ValueError(f"{extents[-1]} is too far from the start of its segment")
        if not self._epochs or self._epochs[-1].epoch != self._epoch:
            start = EpochStart(self._epoch, expected_end_offset)
            self._epochs = enter_epoch(self._epochs, start)
        lane, part = self._part_for(size_bytes)
        part.add(bytes(data), extents)
        self._end_offset = part.run.end_offset
        self._runs.grown(part.run.first_timestamp_ms, size_bytes)
        self._parts.tails.grown(size_bytes)
        lane.grown(size_bytes)
        return part.settled

    def _part_for(self, size_bytes: int) -> tuple[Lane, Part]:
        """The part that batches at the end of the log go into."""
        last = self._last
        if last is not None and last[1].is_open:
            if not self._runs.is_rolled and self._parts.lanes.may_grow(self, last[0], size_bytes):
                return last
            last[1].is_open = False
        begins_segment = self._runs.is_rolled or not len(self._runs)
        lane, part = self._parts.lanes.begin(
            self,
            last,
            base_offset=self._end_offset,
            size_bytes=size_bytes,
            now_ms=self._parts.clock.now_ms(),
            begins_segment=begins_segment,
        )
        if self._runs.active_bytes == 0 or begins_segment:
            self._active_since_ms = monotonic_ms(self._parts.clock)
        self._runs.begin(part.run)
        self._parts.tails.add(self._tail, part.block)
        if self._aborted.unstored:
            part.spans += self._aborted.unstored
            self._aborted.unstored.clear()
        self._last = lane, part
        return self._last

    def _roll_is_due(self, size_bytes: int, extent: Extent) -> bool:
        runs = self._runs
        if not runs.active_bytes:
            return False
        first_ms = runs.active_first_ms
        age_ms = (
            extent.max_timestamp_ms - first_ms
            if first_ms >= 0
            else monotonic_ms(self._parts.clock) - self._active_since_ms
        )
        return (
            runs.active_bytes > self._config.segment_bytes - size_bytes
            or age_ms > self._config.max_segment_ms
            or extent.last_offset - runs.last_base_offset > MAX_RELATIVE_OFFSET
        )

    def roll(self) -> None:
        self.check_open()
        if self._runs.roll():
            self._empty_since_ms = self._parts.clock.now_ms()

    def part_settled(self, part: Part) -> None:
        """A part is durable, and all parts before it."""
        self.settled_offset = part.run.end_offset
        part.run.headers = bytes(part.run.headers or b"")
        self._parts.tails.grown(0)  # now the block may be dropped

    def flush(self) -> asyncio.Future[None] | None:
        self.check_open()
        return self._unsettled()

    def _unsettled(self) -> asyncio.Future[None] | None:
        if self._last is None or self._last[1].settled.done():
            return None
        return self._last[1].settled

    def note_aborted(self, span: AbortedSpan) -> None:
        self.check_open()
        if not self._aborted.add(span):
            return
        if self._last is not None:
            part = self._last[1]
            # A replay finds spans that are known; any other belongs to the append of this turn.
            if part.is_open and part.base_offset <= span.last_offset < part.run.end_offset:
                part.spans.append(span)
                return
        self._aborted.unstored.append(span)

    def aborted(self, offset: int) -> Iterator[AbortedSpan]:
        self.check_open()
        return self._aborted.since(offset)

    # Reading.

    def read(self, offset: int, max_bytes: int, end_offset: int) -> Buffer:
        try:
            return self.scan(offset, max_bytes, end_offset)
        except DamagedError as error:
            self.lose(error)
            raise

    def scan(self, offset: int, max_bytes: int, end_offset: int) -> Buffer:
        if self.lost is not None or self._is_closed:
            self.check_open()
        return self._scan(max(offset, self._start_offset), max_bytes, end_offset)

    def _scan(self, offset: int, max_bytes: int, end_offset: int) -> Buffer:
        end_offset = min(end_offset, self._end_offset)
        while offset < end_offset:
            if self._tail.begins_at_or_below(offset):
                self._parts.metrics.tail_hits += 1
                return self._tail.read(offset, max_bytes, end_offset)
            block = self._cold.block_at(offset, max_bytes)
            data = block.read(offset, max_bytes, end_offset)
            if data or block.end_offset >= end_offset:
                return data
            # What lies between this batch and the next segment was compacted away.
            if block.next_last_offset(offset) is not None:
                return b""
            offset = block.end_offset
        return b""

    def block_at(self, offset: int) -> Block:
        """The batches around an offset, at least the one that a read would begin with, or a gap."""
        for block in (
            self._tail.blocks_from(offset) if self._tail.begins_at_or_below(offset) else ()
        ):
            return block
        return self._cold.block_at(offset, 0)

    def marks_of(self, base_offset: int) -> Sequence[Mark]:
        return self._cold.marks_of(base_offset)

    def headers(self, offset: int, end_offset: int, max_cost: int) -> Sequence[BatchEntry]:
        self.check_open()
        offset = max(offset, self._start_offset)
        end_offset = min(end_offset, self._end_offset)
        found: list[BatchEntry] = []
        for run in self._runs.from_offset(offset):
            if run.base_offset >= end_offset or len(found) >= max_cost:
                break
            if run.headers is None:
                # A stored segment, whose batches have to be read.
                if not found and offset < end_offset:
                    data = self.read(offset, HEADERS_READ_BYTES, end_offset)
                    found += take_headers(data, offset, max_cost)
                break
            for entry in read_run_headers(run.headers):
                header = entry.header
                if header.last_offset >= end_offset or len(found) >= max_cost:
                    return found
                if header.last_offset >= offset:
                    found.append(entry)
            offset = max(offset, run.end_offset)
        return found

    def batch_at_timestamp(self, timestamp_ms: int, offset: int) -> Buffer | None:
        self.check_open()
        return batch_at_timestamp(self, timestamp_ms, max(offset, self._start_offset))

    def batch_of_max_timestamp(self) -> Buffer | None:
        self.check_open()
        return batch_of_max_timestamp(self)

    def segments(self) -> Sequence[SegmentInfo]:
        return self._runs.segments(self._empty_since_ms)

    # Deleting from the front.

    def trim(self, start_offset: int) -> asyncio.Future[None]:
        self.check_trim(start_offset)
        return self._begin(self._trim(start_offset))

    def check_trim(self, start_offset: int) -> None:
        self.check_open()
        if start_offset > self._end_offset:
            raise ValueError(f"{self._ref} ends at {self._end_offset}, below {start_offset}")

    async def settled_up_to(self, offset: int) -> None:
        """Returns when everything below an offset is durable; raises if that is not possible."""
        unsettled = self._unsettled()
        if unsettled is not None and offset > self.settled_offset:
            await unsettled

    async def _trim(self, start_offset: int) -> None:
        await self.settled_up_to(start_offset)
        start_offset = max(start_offset, self._start_offset)
        (accepted,) = await self.retried(
            lambda: self._parts.sequencer.trim([(self.partition_id, self._epoch, start_offset)])
        )
        self.trimmed(accepted, start_offset)

    def trimmed(self, accepted: bool, start_offset: int) -> None:
        """The sequencer has moved the start, or refused to."""
        self._check_accepted(accepted)
        start_offset = max(start_offset, self._start_offset)
        self._start_offset = start_offset
        self._runs.drop_below(start_offset)
        first = next(iter(self._runs), None)
        self._aborted.drop_below(self._end_offset if first is None else first.base_offset)
        self._parts.tails.forget(self._tail, start_offset)
        self._epochs = cut_start(self._epochs, start_offset)

    # Snapshots, and how far the log is compacted.

    def save_snapshot(
        self, snapshot: Snapshot, when: SaveTime = SaveTime.NOW
    ) -> asyncio.Future[None] | None:
        self.check_open()
        return self._snapshots.begin(snapshot, when)

    async def _save_snapshot(self, snapshot: Snapshot) -> bool:
        """Whether it was stored: one above the end of the log is not, nor one that would hide a span from a replay."""
        await self.settled_up_to(snapshot.offset)
        if snapshot.offset > self.settled_offset or self._aborted.unstored:
            return False
        accepted = await self.retried(
            lambda: self._parts.sequencer.save_snapshot(
                self.partition_id, self._epoch, snapshot.offset, snapshot.data
            )
        )
        self._check_accepted(accepted)
        return True

    def snapshots(self) -> Iterator[Snapshot]:
        return self._snapshots.newest_first(self._end_offset)

    @property
    def cleaned_offset(self) -> int | None:
        return self._cleaned_offset

    def save_cleaned_offset(self, offset: int) -> asyncio.Future[None]:
        self.check_open()
        return self._begin(self._save_cleaned_offset(offset))

    async def _save_cleaned_offset(self, offset: int) -> None:
        accepted = await self.retried(
            lambda: self._parts.sequencer.save_cleaned_offset(
                self.partition_id, self._epoch, offset
            )
        )
        self._check_accepted(accepted)
        self._cleaned_offset = offset

    # Replacing runs.

    def begin_replacement(self, base_offsets: Sequence[int]) -> SharedReplacement:
        self.check_open()
        segments = self.segments()
        bases = [segment.base_offset for segment in segments]
        first = bases.index(base_offsets[0]) if base_offsets[0] in bases else len(bases)
        stop = first + len(base_offsets)
        if bases[first:stop] != list(base_offsets) or stop >= len(bases):
            raise ValueError(f"{base_offsets} are no neighbouring sealed segments")
        self.replacement = SharedReplacement(
            self, self._parts, segments[first].base_offset, segments[stop - 1].end_offset
        )
        return self.replacement

    def stored_batches(self, offset: int, max_bytes: int, end_offset: int) -> Buffer:
        """As `scan`, also of what lies below the start of the log in a run that reaches beyond it."""
        return self._scan(offset, max_bytes, end_offset)

    async def replace(
        self, replacements: Sequence[RunReplacement], objects: Sequence[WrittenObject]
    ) -> Sequence[bool]:
        answers: Sequence[bool] = await self.retried(
            lambda: self._parts.sequencer.replace(replacements, objects)
        )
        return answers

    def aborted_between(self, start_offset: int, end_offset: int) -> list[AbortedSpan]:
        """The spans whose markers are between two offsets."""
        return self._aborted.between(start_offset, end_offset)

    def replaced(self, start_offset: int, end_offset: int, runs: Sequence[Run]) -> None:
        """The sequencer has put runs in the place of others, with the same batches."""
        self._runs.replace(start_offset, end_offset, runs)

    async def reload_runs(self) -> None:
        """Asks which runs there are, after a change of which it is not known whether it was made."""
        opened = await self.retried(
            lambda: self._parts.sequencer.open(self.partition_id, self._epoch)
        )
        stored = runs_of(opened)
        end_offset = stored[-1].end_offset if stored else self._start_offset
        later = [run for run in self._runs if run.base_offset >= end_offset]
        is_rolled = self._runs.is_rolled
        self._runs = Runs([*stored, *later], self._end_offset)
        if is_rolled:
            self._runs.roll()
        self._parts.tails.forget(self._tail, self.settled_offset)
        self._cold.forget()

    def compacted(self, start_offset: int, end_offset: int, runs: Sequence[Run]) -> None:
        """As `replaced`, with other batches."""
        self._runs.replace(start_offset, end_offset, runs)
        self._parts.tails.forget(self._tail, end_offset)
        self._cold.forget()

    # Its end.

    def close(self) -> asyncio.Future[None]:
        if self._closing is None:
            self._closing = self._begin(self._close())
        return self._closing

    async def _close(self) -> None:
        if not self.is_open:
            return
        self._is_closed = True
        await self.settle_all()
        self._parts.tails.forget_all(self._tail)
        self._cold.forget()
        self._parts.ended(self)

    async def settle_all(self) -> None:
        """Takes nothing more; what was appended is settled, and the last snapshot saved."""
        self._is_closed = True
        unsettled = self._unsettled()
        if unsettled is not None:
            await asyncio.wait([unsettled])
        if self.lost is None:
            # Without it the next claim takes longer.
            with suppress(StorageError):
                await self._snapshots.save_at_close()

    async def retried(self, call: Any) -> Any:
        """What the sequencer answers; a change under the check of the epoch can be repeated."""
        try:
            return await until_available(
                call, self._parts.options.write_budget_seconds, self._parts.options
            )
        except FencedError as error:
            self.lose(error)
            raise


def spans_of(opened: OpenedPartition) -> list[AbortedSpan]:
    """The aborted transactions of a partition as a claim finds it."""
    stored = (*opened.segments, *opened.tail)
    return [span for run in stored for span in decode_spans(run.aborted).aborted]


def runs_of(opened: OpenedPartition) -> list[Run]:
    """The runs of a partition as a claim finds it."""
    return [_run_of(run) for run in (*opened.segments, *opened.tail)]


def _run_of(stored: StoredRun) -> Run:
    headers = stored.headers if stored.flush is not None else None
    first_ms = stored.max_timestamp_ms
    if headers:
        first_ms = next(read_run_headers(headers)).header.max_timestamp
    return Run(
        base_offset=stored.base_offset,
        end_offset=stored.end_offset,
        size_bytes=stored.size_bytes,
        max_timestamp_ms=stored.max_timestamp_ms,
        written_ms=stored.written_ms,
        headers=headers,
        begins_segment=stored.base_offset in decode_spans(stored.aborted).segment_starts,
        first_timestamp_ms=first_ms,
    )
