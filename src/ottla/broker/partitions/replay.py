"""Rebuilds the state of a partition from its newest usable snapshot and the batches behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from ottla.core.partition import Partition
from ottla.core.producer_snapshot import CorruptSnapshotError, SnapshotEntry, snapshot_entries
from ottla.core.producer_state import ProducerStates
from ottla.events import EventLog
from ottla.ports import (
    BatchEntry,
    DamagedError,
    PartitionLog,
    PartitionRef,
    ReadPendingError,
    StorageError,
    StorageUnavailableError,
)
from ottla.records.batch import TimestampType
from ottla.records.errors import CorruptRecordsError

logger = EventLog(__name__)

# The batches that are replayed before the loop serves other requests: one or two milliseconds. The first slice is part
# of the request that caused it, and most partitions need no other.
SLICE_BATCHES: Final = 500
# The pause of a replay whose batches cannot be read now.
UNAVAILABLE_SECONDS: Final = 0.5


class Replay:
    """A replay in slices; its state is not used before it is over."""

    def __init__(self, log: PartitionLog, now_ms: int) -> None:
        self.log = log
        self.is_over = False
        self.batch_count = 0
        # What the replay waits for, if the engine has to fetch the next batches.
        self.pending: asyncio.Future[None] | None = None
        self._now_ms = now_ms
        self._producers = ProducerStates()
        self._snapshot, self.saved_offset = _newest_snapshot(
            log
        )  # its entries that are not loaded yet
        self._offset = max(log.start_offset, self.saved_offset)
        self.partition = Partition(log.epoch, log.start_offset, self._offset, self._producers)
        self._cleaned_offset = _valid_cleaned_offset(log)

    def advance(self, batch_count: int) -> int:
        """Replays batches at a cost of `batch_count`; returns the unused rest, 0 unless it is over or pending."""
        self.pending = None
        if self._snapshot is not None:
            batch_count = self._load_snapshot(self._snapshot, batch_count)
        while not self.is_over and self._snapshot is None:
            end_offset = self._next_end()
            if self._offset >= end_offset:
                self._finish()
            elif batch_count <= 0:
                break
            else:
                try:
                    batch_count -= self._replay_next(end_offset, batch_count)
                except ReadPendingError as pending:
                    self.pending = pending.done
                    break
        return max(batch_count, 0)

    def _next_end(self) -> int:
        """The end of the part that is replayed next: the compacted one, then the rest of the log."""
        if self._cleaned_offset is not None and self._offset >= self._cleaned_offset:
            self._close_cleaned()
        return self.log.end_offset if self._cleaned_offset is None else self._cleaned_offset

    def _replay_next(self, end_offset: int, max_cost: int) -> int:
        """Applies the next batches below an offset; returns their cost."""
        offset = self._offset
        entries = self.log.headers(offset, end_offset, max_cost)
        if not entries:
            # The last batch below the end may have been compacted away, or reach beyond it.
            self._offset = end_offset
            return 0
        try:
            for entry in entries:
                self._apply(entry)
        except CorruptRecordsError as error:
            raise DamagedError(f"a batch behind offset {offset} is damaged: {error}") from error
        if self._offset <= offset:
            raise DamagedError(f"the batches at offset {offset} are out of order")
        return sum([entry.cost for entry in entries])

    def _load_snapshot(self, entries: Iterator[SnapshotEntry], batch_count: int) -> int:
        """Loads up to `batch_count` entries; returns the unused rest when all are loaded."""
        load = self._producers.load
        loaded = 0
        for entry in islice(entries, batch_count):
            load(entry)
            loaded += 1
        if loaded < batch_count:
            self._snapshot = None
        return batch_count - loaded

    def _close_cleaned(self) -> None:
        """Ends transactions whose marker the cleaner has removed.

        A log is cleaned below its last stable offset only, so every transaction that began there has ended. An old
        snapshot may have it as open, and the cleaner has removed its marker with its last records.
        """
        assert self._cleaned_offset is not None
        for found in self.partition.producers.close_below(self._cleaned_offset):
            logger.info(
                "transaction_closed",
                "partition %(topic)s-%(partition)d: the transaction of producer %(producer_id)d from offset "
                "%(offset)d on has ended, although its marker was compacted away",
                topic=self.log.ref.topic,
                partition=self.log.ref.partition,
                producer_id=found.producer_id,
                offset=found.first_offset,
            )
        self._cleaned_offset = None

    def _apply(self, entry: BatchEntry) -> None:
        header = entry.header
        partition = self.partition
        # A log may start inside a batch (DeleteRecords); its producer is remembered even then.
        if header.last_offset >= partition.end_offset:
            # A client's timestamp may lie in the past, so the producer counts as active now.
            written_ms = (
                header.max_timestamp
                if header.timestamp_type is TimestampType.LOG_APPEND_TIME
                else self._now_ms
            )
            ended = partition.apply(header, header.base_offset, entry.control, written_ms)
            if ended is not None and ended.is_aborted:
                self.log.note_aborted(partition.aborted_span(ended))
        self._offset = header.last_offset + 1
        self.batch_count += 1

    def _finish(self) -> None:
        self.partition.end_offset = self.log.end_offset
        self.partition.advance_high_watermark(self.log.end_offset)
        self.is_over = True


def replay(log: PartitionLog, now_ms: int) -> Replay:
    """A whole replay, at once."""
    made = Replay(log, now_ms)
    while not made.is_over:
        made.advance(SLICE_BATCHES)
        assert made.pending is None, "there is nothing to wait with"
    return made


def _newest_snapshot(log: PartitionLog) -> tuple[Iterator[SnapshotEntry] | None, int]:
    """The entries of the newest snapshot that can be read, and its offset; 0 if there is none."""
    for snapshot in log.snapshots():
        try:
            return snapshot_entries(snapshot.data), snapshot.offset
        except CorruptSnapshotError as error:
            logger.warning(
                "snapshot_damaged",
                "partition %(topic)s-%(partition)d: the snapshot at offset %(offset)d is of no use: %(reason)s",
                topic=log.ref.topic,
                partition=log.ref.partition,
                offset=snapshot.offset,
                reason=str(error),
            )
    return None, 0


def _valid_cleaned_offset(log: PartitionLog) -> int | None:
    """The offset up to which the log was cleaned; a saved one that does not fit the log is ignored."""
    cleaned = log.cleaned_offset
    fits = cleaned is not None and log.start_offset <= cleaned <= log.end_offset
    return cleaned if fits else None


class ReplayQueue:
    """Replays that take longer than a request may: they run one after the other, between requests.

    However many partitions a request opens, all their replays together take one slice of its time. One whose batches
    have to be fetched lets the others go on.
    """

    def __init__(
        self,
        ended: Callable[[Replay], None],
        failed: Callable[[Replay, StorageError | CorruptRecordsError], None],
        is_wanted: Callable[[PartitionRef], bool],
    ) -> None:
        self._ended = ended
        self._failed = failed
        self._is_wanted = is_wanted
        self._waiting: dict[PartitionRef, Replay] = {}  # first come, first served
        self._pending: dict[PartitionRef, Replay] = {}
        self._left_in_turn = SLICE_BATCHES
        self._is_scheduled = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def __contains__(self, ref: PartitionRef) -> bool:
        return ref in self._waiting or ref in self._pending

    def begin(self, replay: Replay) -> None:
        """Replays for the rest of this turn's slice; the remaining batches follow in later turns."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            # There are no requests to be served in between.
            while not replay.is_over:
                replay.advance(SLICE_BATCHES)
                assert replay.pending is None, "there is nothing to wait with"
            return
        if loop is not self._loop:
            self._loop, self._is_scheduled, self._left_in_turn = loop, False, SLICE_BATCHES
        if self._advance(replay):
            self._waiting[replay.log.ref] = replay
        self._schedule(loop)

    def drop(self, ref: PartitionRef) -> None:
        """Gives up the replay of a partition that another node leads, or whose topic was deleted."""
        self._waiting.pop(ref, None)
        self._pending.pop(ref, None)

    def clear(self) -> None:
        self._waiting.clear()
        self._pending.clear()

    def _advance(self, replay: Replay) -> bool:
        """Uses what is left of this turn's slice; whether the replay could use more."""
        try:
            self._left_in_turn = replay.advance(self._left_in_turn)
        except StorageUnavailableError:
            self._pending[replay.log.ref] = replay
            asyncio.get_running_loop().call_later(UNAVAILABLE_SECONDS, self._go_on, replay)
            return False
        if replay.pending is not None:
            self._pending[replay.log.ref] = replay
            replay.pending.add_done_callback(lambda _: self._go_on(replay))
            return False
        return not replay.is_over

    def _go_on(self, replay: Replay) -> None:
        """Queues a replay whose batches have been fetched, unless it was dropped."""
        ref = replay.log.ref
        if self._pending.get(ref) is replay:
            del self._pending[ref]
            self._waiting[ref] = replay
            self._schedule(asyncio.get_running_loop())

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        """Takes another turn, unless nothing was replayed in this one and nothing waits."""
        is_idle = not self._waiting and self._left_in_turn == SLICE_BATCHES
        if not is_idle and not self._is_scheduled:
            self._is_scheduled = True
            loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._is_scheduled = False
        self._left_in_turn = SLICE_BATCHES
        while self._waiting and self._left_in_turn > 0:
            ref, replay = next(iter(self._waiting.items()))
            if not self._is_wanted(ref):
                del self._waiting[ref]
                continue
            try:
                has_more = self._advance(replay)
            except (StorageError, CorruptRecordsError) as error:
                del self._waiting[ref]
                self._failed(replay, error)
                continue
            if not has_more:
                del self._waiting[ref]
                if replay.is_over:
                    self._ended(replay)
        self._schedule(asyncio.get_running_loop())
