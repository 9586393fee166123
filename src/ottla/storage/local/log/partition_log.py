"""A claimed partition of the local engine."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from itertools import pairwise
from typing import NamedTuple

from ottla.config.topic import LONG_MAX, TopicConfig
from ottla.core.aborted import AbortedSpan
from ottla.events import EventLog
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
    StorageFullError,
    monotonic_ms,
)
from ottla.storage.batch_headers import HEADERS_READ_BYTES, take_headers
from ottla.storage.local import log_messages
from ottla.storage.local.folder import checkpoint_files, layout
from ottla.storage.local.log import segment_swap
from ottla.storage.local.log.index import SegmentIndex, TimePoint, empty_index
from ottla.storage.local.log.leader_epochs import LeaderEpochs
from ottla.storage.local.log.replacement import LocalReplacement
from ottla.storage.local.log.segment import BrokenSegmentError, IndexLostError, Segment
from ottla.storage.local.log.snapshots import SnapshotFiles, UnsyncedError, write_draft
from ottla.storage.local.log.transaction_index import AbortedSpans
from ottla.storage.local.partition_entry import PartitionEntry
from ottla.storage.local.recovery.clean_load import load_active
from ottla.storage.local.recovery.disk_trouble import refusal
from ottla.storage.local.recovery.partition_folder import PartitionFolder, UntrustworthyError
from ottla.storage.local.recovery.scan import build_index
from ottla.storage.local.recovery.txn_index_checks import check_txn_indexes
from ottla.storage.local.store_context import StoreContext
from ottla.storage.local.sync.durability import Durability

logger = EventLog(__name__)


class EndCause(enum.Enum):
    """Why a claim is over; after the last three the files have to be checked before the next one."""

    CLOSED = "closed"
    FENCED = "fenced"
    FAILED = "failed"
    SYNC_FAILED = "sync failed"
    DAMAGED = "damaged"


class ClaimEnd(NamedTuple):
    """The end of a claim, and the error of every later call."""

    cause: EndCause
    error: StorageError

    def refusal(self) -> StorageError:
        """A new exception: raising one twice would chain their tracebacks."""
        return type(self.error)(*self.error.args)


class LocalLog:
    """Implements PartitionLog over segment files; not thread-safe."""

    __slots__ = (
        "_aborted",
        "_active",
        "_bases",
        "_config",
        "_entry",
        "_epoch",
        "_epoch_is_new",
        "_epochs",
        "_flush_is_timed",
        "_flush_messages",
        "_folder",
        "_interval_bytes",
        "_last_snapshot",
        "_next_draft",
        "_ref",
        "_sealed_bytes",
        "_segments",
        "_shared",
        "_snapshot_is_drafted",
        "_snapshots",
        "_start_offset",
        "durability",
        "end",
    )

    def __init__(
        self,
        ref: PartitionRef,
        epoch: int,
        folder: PartitionFolder,
        config: TopicConfig,
        entry: PartitionEntry,
        shared: StoreContext,
    ) -> None:
        self._entry = entry
        self._ref = ref
        self._epoch = epoch
        self._folder = folder.path
        self._shared = shared
        self.end: ClaimEnd | None = None  # while the claim lasts
        self._last_snapshot: Snapshot | None = None  # of this claim, not written yet
        self._segments: list[Segment] = []
        self._bases: list[int] = []
        self._sealed_bytes = 0
        self._start_offset = 0
        self._snapshots = SnapshotFiles(folder.path, folder.snapshots)
        self._snapshot_is_drafted = False
        self._next_draft: tuple[Snapshot, asyncio.Future[None]] | None = None
        self._aborted = AbortedSpans(folder.path, folder.txn_indexes, folder.txn_checksums)
        self._epochs = LeaderEpochs(folder.path)
        self.durability = Durability(
            folder.path, self._epochs, shared.executor, shared.syncs, self.sync_failed
        )
        self.configure(config)

    @property
    def ref(self) -> PartitionRef:
        return self._ref

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def start_offset(self) -> int:
        return self._start_offset

    @property
    def end_offset(self) -> int:
        return self._active.end_offset

    @property
    def last_base_offset(self) -> int:
        return self._active.base_offset

    @property
    def size_bytes(self) -> int:
        return self._sealed_bytes + self._active.size_bytes

    @property
    def epochs(self) -> Sequence[EpochStart]:
        return tuple(self._epochs.entries)

    @property
    def is_open(self) -> bool:
        """Whether the claim lasts."""
        return self.end is None

    # -- opening

    def load(self, folder: PartitionFolder, start_offset: int, recovery_point: int) -> None:
        """Loads a folder that needs no recovery."""
        bases = list(folder.sizes)
        for base_offset, next_base in pairwise(bases):
            segment = self._segment(base_offset, next_base, folder.sizes[base_offset])
            self._sealed_bytes += segment.size_bytes
            self._segments.append(segment)
        if bases:
            index, end_offset = load_active(folder, bases[-1], self._interval_bytes)
            if end_offset < max(start_offset, recovery_point):
                raise UntrustworthyError(
                    f"{folder.path} ends at {end_offset}, below {max(start_offset, recovery_point)}"
                )
            self._aborted.checksums = check_txn_indexes(folder, end_offset)
            active = self._segment(bases[-1], end_offset, folder.sizes[bases[-1]])
            active.index = index
            active.free_left_space()
        elif start_offset < recovery_point:
            raise UntrustworthyError(f"{folder.path} has no segment")
        else:
            bases = [start_offset]
            active = self._new_segment_file(start_offset)
        self._bases = bases
        self._segments.append(active)
        self._activate(active)
        self._start_offset = max(start_offset, bases[0])
        self._epochs.cut_start(self._start_offset)
        self._epochs.cut_end(active.end_offset, self._start_offset)
        self._epoch_is_new = self._epochs.latest != self._epoch
        self.durability.begin(self._segments, recovery_point)

    def _segment(self, base_offset: int, end_offset: int, size_bytes: int) -> Segment:
        return Segment(
            self._folder, base_offset, end_offset, size_bytes, self._shared.files, self._build_index
        )

    def _build_index(self, path: str, base_offset: int) -> SegmentIndex:
        return build_index(path, base_offset, self._interval_bytes)

    def _new_segment_file(self, base_offset: int) -> Segment:
        segment = self._segment(base_offset, base_offset, 0)
        fd = os.open(segment.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        os.close(fd)
        segment.index = empty_index(base_offset)
        self.durability.also_sync(self._folder)
        return segment

    def _activate(self, segment: Segment) -> None:
        segment.sealed = False
        segment.created_ms = monotonic_ms(self._shared.clock)
        config = self._config
        if config.segment_jitter_ms:
            bound_ms = min(config.segment_jitter_ms, config.segment_ms)
            segment.jitter_ms = self._shared.random.randrange(bound_ms)
        self._active = segment

    def configure(self, config: TopicConfig) -> None:
        self._config = config
        self._interval_bytes = config.index_interval_bytes
        self._flush_messages = config.flush_messages
        self._flush_is_timed = config.flush_ms < LONG_MAX

    # -- writing

    def append(
        self, data: Buffer, extents: Sequence[Extent], expected_end_offset: int
    ) -> asyncio.Future[None] | None:
        segment = self._active
        if self.end is not None:
            raise self.end.refusal()
        if (
            extents[0].base_offset < expected_end_offset
            or expected_end_offset != segment.end_offset
        ):
            raise ValueError(
                f"append at {extents[0].base_offset}, expecting {expected_end_offset}, "
                f"to {self._folder}, which ends at {segment.end_offset}"
            )
        if self._roll_is_due(segment, len(data), extents[-1]):
            self.roll()
            segment = self._active
        if extents[-1].last_offset - segment.base_offset > layout.MAX_RELATIVE_OFFSET:
            raise ValueError(f"{extents[-1]} is too far from the start of {segment.path}")
        try:
            if self._epoch_is_new:
                self._epochs.assign(self._epoch, extents[0].base_offset)
                self._epoch_is_new = False
            segment.append(data, extents, self._interval_bytes)
        except BrokenSegmentError as error:
            self._end(EndCause.FAILED, error)
            raise
        except OSError as error:
            raise refusal(f"cannot append to {segment.path}", error) from error
        if segment.end_offset - self.durability.synced_offset >= self._flush_messages:
            return self.flush()
        if self._flush_is_timed and self not in self._shared.timed_flushes:
            self._shared.timed_flushes[self] = monotonic_ms(self._shared.clock)
        return None

    def _roll_is_due(self, segment: Segment, size_bytes: int, extent: Extent) -> bool:
        """Whether batches belong into a new segment."""
        config = self._config
        if not segment.size_bytes:
            return False
        if segment.size_bytes > config.segment_bytes - size_bytes:
            return True
        assert segment.index is not None
        first_ms = segment.first_time_ms()
        age_ms = (
            extent.max_timestamp_ms - first_ms
            if first_ms >= 0
            else monotonic_ms(self._shared.clock) - segment.created_ms
        )
        return (
            age_ms > config.max_segment_ms - segment.jitter_ms
            or segment.index.is_full(config.segment_index_bytes)
            or extent.last_offset - segment.base_offset > layout.MAX_RELATIVE_OFFSET
        )

    def roll(self) -> None:
        self.check_open()
        old = self._active
        if not old.size_bytes:
            return
        try:
            old.complete_index()
            # A kill may follow: from now on the transaction index of the old segment can be checked.
            self._note_checksums()
            old.give_space_back()
            new = self._new_segment_file(old.end_offset)
        except OSError as error:
            raise refusal(f"cannot begin a new segment in {self._folder}", error) from error
        old.seal()
        self._sealed_bytes += old.size_bytes
        self._bases.append(new.base_offset)
        self._segments.append(new)
        self._activate(new)
        self.durability.rolled(new)
        self.durability.also_sync(old.stem + layout.INDEX_SUFFIX)
        self.durability.also_sync(old.stem + layout.TIME_INDEX_SUFFIX)
        if _running_loop() is not None:  # else the next flush syncs it
            self._shared.background.sync_soon(self)

    # -- reading

    def read(self, offset: int, max_bytes: int, end_offset: int) -> Buffer:
        try:
            return self.scan(offset, max_bytes, end_offset)
        except DamagedError as error:
            if self.end is None:
                self._end(EndCause.DAMAGED, error)
            raise

    def headers(self, offset: int, end_offset: int, max_cost: int) -> Sequence[BatchEntry]:
        data = self.read(offset, HEADERS_READ_BYTES, end_offset)
        return take_headers(data, offset, max_cost)

    def scan(self, offset: int, max_bytes: int, end_offset: int) -> Buffer:
        if self.end is not None:
            raise self.end.refusal()
        if offset < self._start_offset:
            offset = self._start_offset
        if offset >= end_offset or offset >= self._active.end_offset:
            return b""
        bases = self._bases
        number = bisect_right(bases, offset) - 1
        try:
            while True:
                data = self._segments[number].read(offset, max_bytes, end_offset)
                number += 1
                if data or number == len(bases) or bases[number] >= end_offset:
                    return data
        except OSError as error:
            raise StorageError(f"cannot read {self._folder} at {offset}: {error}") from error
        except IndexLostError as error:
            self._end(EndCause.FAILED, error)
            raise

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(f"cannot read {self._folder}: {error}") from error
        except DamagedError as error:
            self._end(EndCause.DAMAGED, error)
            raise
        except IndexLostError as error:
            if self.end is None:
                self._end(EndCause.FAILED, error)
            raise

    def batch_at_timestamp(self, timestamp_ms: int, offset: int) -> Buffer | None:
        self.check_open()
        offset = max(offset, self._start_offset)
        first = max(bisect_right(self._bases, offset) - 1, 0)
        with self._reading():
            for segment in self._segments[first:]:
                if segment.size_bytes and segment.largest_time().timestamp_ms >= timestamp_ms:
                    found = segment.first_at_timestamp(timestamp_ms, offset)
                    if found is not None:
                        return found
        return None

    def batch_of_max_timestamp(self) -> Buffer | None:
        self.check_open()
        start_offset = self._start_offset
        best: tuple[Segment, TimePoint] | None = None
        with self._reading():
            for segment in self._segments:
                if not segment.size_bytes or segment.end_offset <= start_offset:
                    continue
                found: TimePoint | None = segment.largest_time()
                if found is None or found.timestamp_ms < 0 or found.offset < start_offset:
                    found = segment.largest_time_from(start_offset)
                if found is not None and (
                    best is None or found.timestamp_ms > best[1].timestamp_ms
                ):
                    best = segment, found
            return None if best is None else best[0].batch(best[1].offset)

    def segments(self) -> Sequence[SegmentInfo]:
        with self._reading():
            return [
                SegmentInfo(
                    segment.base_offset,
                    segment.end_offset,
                    segment.size_bytes,
                    segment.age_time_ms(),
                )
                for segment in self._segments
            ]

    # -- forgetting

    def trim(self, start_offset: int) -> None:
        start_offset, dropped = self._find_trim(start_offset)
        with self._trimming():
            # The name of the first segment says where the log starts, if it starts there.
            if start_offset > self._start_offset and self._bases[dropped] != start_offset:
                self._shared.entries.save_log_start(self._entry, start_offset)
                self._start_offset = start_offset
            if dropped:
                self._drop_segments(dropped)
                checkpoint_files.sync_path(self._folder)
            self._started_at(start_offset)

    def trim_with_others(self, start_offset: int) -> None:
        """As `trim`; it is durable when the store has saved where its logs start."""
        start_offset, dropped = self._find_trim(start_offset)
        with self._trimming():
            if start_offset > self._start_offset:
                self._shared.entries.note_log_start(self._entry, start_offset)
                self._start_offset = start_offset
            if dropped:
                self._drop_segments(dropped)
                # If a power loss brings them back, the saved start drops them again.
                self.durability.also_sync(self._folder)
            self._started_at(start_offset)

    def _find_trim(self, start_offset: int) -> tuple[int, int]:
        """The new start of the log, and the number of segments to delete."""
        self.check_open()
        if start_offset > self.end_offset:
            raise ValueError(f"{self._folder} ends at {self.end_offset}, below {start_offset}")
        # A segment that stayed because it was the last one may be deleted now.
        start_offset = max(start_offset, self._start_offset)
        return start_offset, bisect_right(self._bases, start_offset) - 1

    @contextlib.contextmanager
    def _trimming(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(f"cannot trim {self._folder}: {error}") from error

    def _started_at(self, start_offset: int) -> None:
        self._start_offset = start_offset
        self._epochs.cut_start(start_offset)
        self._prune_snapshots()

    def _drop_segments(self, count: int) -> None:
        """Deletes segments from the front, oldest first, so that a crash leaves no hole."""
        due_ms = monotonic_ms(self._shared.clock) + self._config.file_delete_delay_ms
        for _ in range(count):
            segment = self._segments[0]
            paths = segment_swap.retire(segment.stem)
            del self._segments[0], self._bases[0]
            self._sealed_bytes -= segment.size_bytes
            self.durability.dropped(segment)
            self._aborted.drop(segment.base_offset)
            self._start_offset = max(self._start_offset, self._bases[0])
            segment.close()
            self._shared.remove_later(paths, due_ms)

    # -- replacing

    @property
    def cleaned_offset(self) -> int | None:
        return self._entry.cleaned_offset

    def save_cleaned_offset(self, offset: int) -> None:
        self.check_open()
        try:
            self._shared.entries.save_cleaned_offset(self._entry, offset)
        except OSError as error:
            text = f"cannot save how far {self._folder} is compacted: {error}"
            raise StorageError(text) from error

    def begin_replacement(self, base_offsets: Sequence[int]) -> LocalReplacement:
        self.check_open()
        first = bisect_right(self._bases, base_offsets[0]) - 1
        stop = first + len(base_offsets)
        if self._bases[first:stop] != list(base_offsets) or stop >= len(self._bases):
            raise ValueError(f"{base_offsets} are no neighbouring sealed segments")
        try:
            return LocalReplacement(
                self, self._segments[first:stop], self._interval_bytes, self._shared.unawaited
            )
        except OSError as error:
            raise StorageFullError(f"cannot write in {self._folder}: {error}") from error

    def holds(self, segments: Sequence[Segment]) -> bool:
        return segments[0] in self._segments  # they go from the front

    def put_in_place(self, segments: Sequence[Segment], size_bytes: int) -> None:
        """Replaces segments by one whose files are complete; a failure ends the claim."""
        first = self._segments.index(segments[0])
        due_ms = monotonic_ms(self._shared.clock) + self._config.file_delete_delay_ms
        new = self._segment(segments[0].base_offset, segments[-1].end_offset, size_bytes)
        try:
            retired = segment_swap.replace(new.stem, [segment.stem for segment in segments])
        except OSError as error:
            failure = StorageError(f"cannot replace {new.stem}: {error}")
            self._end(EndCause.FAILED, failure)
            raise failure from error
        self._shared.remove_later(retired, due_ms)
        self._segments[first : first + len(segments)] = [new]
        self._bases[first : first + len(segments)] = [new.base_offset]
        for segment in segments:
            self._sealed_bytes -= segment.size_bytes
            self.durability.dropped(segment)
            # Compaction removed the records of aborted transactions: readers need no spans of them.
            self._aborted.drop(segment.base_offset)
            segment.close()
        # Otherwise the next claim would consider the index lost, and search for its entries again.
        with contextlib.suppress(OSError):
            self._note_checksums()
        self._sealed_bytes += size_bytes
        self.durability.also_sync(self._folder)
        self._prune_snapshots()

    # -- snapshots

    def save_snapshot(
        self, snapshot: Snapshot, when: SaveTime = SaveTime.NOW
    ) -> asyncio.Future[None] | None:
        self.check_open()
        if when is SaveTime.AT_CLOSE:
            self._last_snapshot = snapshot
            return None
        loop = _running_loop() if when is SaveTime.SOON else None
        if loop is not None:
            return self._draft_snapshot(snapshot, loop)
        self._write_snapshot(snapshot)
        return None

    def _write_snapshot(self, snapshot: Snapshot) -> None:
        try:
            # No replay reads the log below a snapshot: the spans that it would find there have to be on disk first.
            self._aborted.sync()
            self._note_checksums()
            self.durability.also_sync(self._snapshots.save(snapshot))
            self._prune_snapshots()
        except OSError as error:
            raise refusal(f"cannot save a snapshot in {self._folder}", error) from error

    def _draft_snapshot(
        self, snapshot: Snapshot, loop: asyncio.AbstractEventLoop
    ) -> asyncio.Future[None]:
        """Has a thread write a snapshot, after the one that it is writing; of those that wait only the newest is."""
        saved: asyncio.Future[None] = loop.create_future()
        if not self._snapshot_is_drafted:
            self._begin_draft(snapshot, saved)
            return saved
        if self._next_draft is not None:
            _follow(self._next_draft[1], saved)
        self._next_draft = snapshot, saved
        return saved

    def _begin_draft(self, snapshot: Snapshot, saved: asyncio.Future[None]) -> None:
        loop = saved.get_loop()
        self._snapshot_is_drafted = True
        path = self._snapshots.draft_path(snapshot.offset, self._epoch)
        writing = self._shared.unawaited.submit(
            write_draft, path, snapshot.data, self._aborted.begin_sync()
        )

        def hand_back(done: Future[None]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop may be closed
                loop.call_soon_threadsafe(self._end_draft, snapshot.offset, done, saved)

        writing.add_done_callback(hand_back)

    def _end_draft(self, offset: int, written: Future[None], saved: asyncio.Future[None]) -> None:
        try:
            self._take_draft(offset, written)
        except StorageError as error:
            _fail(saved, error)
        else:
            if not saved.done():  # the caller may have cancelled it
                saved.set_result(None)
        if self._next_draft is not None:
            (snapshot, waiting), self._next_draft = self._next_draft, None
            if self.end is None:
                self._begin_draft(snapshot, waiting)
            else:
                _fail(waiting, self.end.refusal())

    def _take_draft(self, offset: int, done: Future[None]) -> None:
        self._snapshot_is_drafted = False
        self._aborted.end_sync()
        if self.end is not None:
            # The next claim may have cut the log: this snapshot may not fit its log.
            self._snapshots.drop_draft(offset, self._epoch)
            raise self.end.refusal()
        try:
            done.result()
            self._note_checksums()
            self.durability.also_sync(self._snapshots.take_draft(offset, self._epoch))
            self._prune_snapshots()
        except UnsyncedError as error:
            raise self.sync_failed(error) from error
        except OSError as error:
            self._snapshots.drop_draft(offset, self._epoch)
            text = "partition %(topic)s-%(partition)d: cannot save a snapshot: %(reason)s"
            topic, partition, reason = self._ref.topic, self._ref.partition, str(error)
            fields = {"topic": topic, "partition": partition, "reason": reason}
            logger.warning("snapshot_not_saved", text, **fields)
            raise refusal(f"cannot save a snapshot in {self._folder}", error) from error

    def _prune_snapshots(self) -> None:
        # A power loss may cut the log at any offset from the synced one on.
        self._snapshots.prune((*self._bases, self.durability.synced_offset))

    def snapshots(self) -> Iterator[Snapshot]:
        return self._snapshots.read(self.end_offset)

    # -- aborted transactions

    def note_aborted(self, span: AbortedSpan) -> None:
        self.check_open()
        try:
            for path in self._aborted.note(span, self._base_of(span.last_offset)):
                self.durability.also_sync(path)
        except OSError as error:
            raise StorageError(f"cannot note {span} in {self._folder}: {error}") from error

    def _note_checksums(self) -> None:
        for path in self._aborted.note_checksums():
            self.durability.also_sync(path)

    def _base_of(self, offset: int) -> int:
        return self._bases[max(bisect_right(self._bases, offset) - 1, 0)]

    def aborted(self, offset: int) -> Iterator[AbortedSpan]:
        self.check_open()
        return iter(()) if self._aborted.is_empty else self._aborted_from(offset)

    def _aborted_from(self, offset: int) -> Iterator[AbortedSpan]:
        with self._reading():
            yield from self._aborted.spans(self._base_of(offset), offset)

    # -- durability

    def flush(self) -> asyncio.Future[None] | None:
        self.check_open()
        return self.durability.flush()

    def sync_failed(self, error: OSError) -> StorageError:
        """Ends the claim: after a failed sync the content of the disk is unknown."""
        failure = StorageError(f"cannot sync {self._folder}: {error}")
        if self.end is None:
            logger.error(
                "sync_failed",
                "%(reason)s; the partition has to be claimed anew",
                topic=self._ref.topic,
                partition=self._ref.partition,
                reason=str(failure),
            )
            self._end(EndCause.SYNC_FAILED, failure)
        else:
            self._shared.sync_failed_late(self._ref, error)
        return failure

    def tick(self, now_ms: int) -> None:
        """Starts a flush if the oldest unflushed append is too old."""
        since_ms = self._shared.timed_flushes.get(self)
        if since_ms is not None and now_ms - since_ms >= self._config.flush_ms:
            # The next append sets a new time.
            del self._shared.timed_flushes[self]
            self._shared.background.sync_soon(self)

    @property
    def wants_checkpoint(self) -> bool:
        """Whether a checkpoint has something to sync or to write."""
        assert self._active.index is not None
        return self.durability.is_dirty() or not self._active.index.is_in_files

    def write_index(self) -> None:
        """Brings the index files of the active segment up to date, which shortens a recovery."""
        self._active.write_index()

    # -- the end of the claim

    def check_open(self) -> None:
        if self.end is not None:
            raise self.end.refusal()

    def _end(self, cause: EndCause, error: StorageError) -> None:
        self.end = ClaimEnd(cause, error)
        self._shared.timed_flushes.pop(self, None)
        for segment in self._segments:
            segment.close()
        self._shared.ended(self)

    def fence(self) -> None:
        """Ends the claim in favour of another one; everything is in the files afterwards."""
        if self.end is None:
            try:
                self._active.complete_index()
            except OSError as error:
                self._log_index_trouble(error)
        self.fence_deleted()

    def fence_deleted(self) -> None:
        """Ends the claim of a log whose files are about to be deleted: nothing more is written to them."""
        if self.end is None:
            fenced = FencedError(f"{self._folder} was claimed anew, epoch {self._epoch} is over")
            self._end(EndCause.FENCED, fenced)
            self.durability.abandon(fenced)
        else:
            self.end = self.end._replace(error=FencedError(f"{self._folder} was claimed anew"))

    def write_last(self) -> None:
        """Writes the files of the end of a claim; in another thread, if the caller waits for it."""
        if self._last_snapshot is not None:
            try:
                self._write_snapshot(self._last_snapshot)
            except StorageError as error:
                log_messages.log_not_saved(self._ref, error)
            self._last_snapshot = None
        try:
            self._active.complete_index()
            self._note_checksums()
        except OSError as error:
            self._log_index_trouble(error)

    def close(self) -> None:
        if self.end is not None:
            self.durability.abandon(self.end.refusal())
            return
        self.write_last()
        self.durability.flush_now()
        self._end(EndCause.CLOSED, StorageError(f"{self._folder} was closed"))

    def _log_index_trouble(self, error: OSError) -> None:
        text = "cannot write the indexes of %(path)s: %(reason)s"
        logger.warning("index_not_written", text, path=self._active.path, reason=str(error))


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _follow(older: asyncio.Future[None], newer: asyncio.Future[None]) -> None:
    """Ends a future as another one ends."""

    def end(done: asyncio.Future[None]) -> None:
        error = None if done.cancelled() else done.exception()
        if isinstance(error, StorageError):
            _fail(older, error)
        elif not older.done():
            older.set_result(None)

    newer.add_done_callback(end)


def _fail(saved: asyncio.Future[None], error: StorageError) -> None:
    if not saved.done():
        saved.set_exception(error)
        saved.exception()  # the caller need not look at it
