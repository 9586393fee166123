"""A partition at work: the pure state of `core.partition` over a claimed log.

Decide, append, apply, and report the append as durable when the engine says so. When the engine fails, the shard is
discarded: the next use claims the log anew and replays it, so there is no rollback code.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from ottla.broker.crashpoints import CrashPoint, reach
from ottla.broker.partitions.replay import Replay
from ottla.broker.partitions.unsettled_bytes import UnsettledBytes
from ottla.config.topic import TopicConfig
from ottla.core.aborted import AbortedSpan
from ottla.core.append import NO_TIMESTAMP, Prepared, plain_limits
from ottla.core.fetch import aborted_in
from ottla.core.outcomes import Refused
from ottla.core.producer_snapshot import SnapshotDraft
from ottla.core.producer_state import (
    APPEND,
    AlreadyAppended,
    LoggedBatch,
    ProducerBatch,
    Verification,
)
from ottla.core.retention import last_is_due, retained_from
from ottla.errors import ErrorCode
from ottla.events import EventLog
from ottla.ports import (
    Buffer,
    Extent,
    SaveTime,
    Snapshot,
    StorageError,
    StorageFullError,
    StorageUnavailableError,
)
from ottla.ports.futures import after
from ottla.records import batch as batches
from ottla.records.batch import BatchHeader
from ottla.records.control import MarkerBatch, MarkerType, marker_batch
from ottla.records.kernel import join_batches

logger = EventLog(__name__)

# After this many batches, and with every new segment, the state of the producers is saved.
SNAPSHOT_BATCHES: Final = 20_000
# A larger batch that is written alone is not copied. The copy is made by the kernel, which stamps it, too.
LARGEST_COPIED_BYTES: Final = 4 << 10
# A snapshot of more producers is written in slices of this many, which take one or two milliseconds.
SNAPSHOT_PRODUCERS: Final = 1_000


class Appended(NamedTuple):
    """A batch is in the log; `settled` is None if it is durable already."""

    base_offset: int
    append_time_ms: int
    settled: asyncio.Future[None] | None


class AlreadyMarked(NamedTuple):
    """The log has the marker of an earlier request; `settled` is None if it is durable already."""

    settled: asyncio.Future[None] | None


class Marker(NamedTuple):
    """What ends a producer's transaction; `version` is that of the transaction."""

    type: MarkerType
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    version: int


MarkerOutcome = Appended | AlreadyMarked | Refused


class Draft(NamedTuple):
    """A snapshot that is being encoded in slices; `encoded` and `saved` are done when it is."""

    snapshot: SnapshotDraft
    encoded: asyncio.Future[None]
    saved: asyncio.Future[None] | None


class Waiter(Protocol):
    """Is told when a partition has more to read, and when it is no longer served here."""

    def grown(self, shard: Shard, size_bytes: int) -> None: ...

    def gone(self) -> None: ...


class Shard:
    """One partition that this node leads."""

    def __init__(
        self,
        replay: Replay,
        config: TopicConfig,
        discard: Callable[[Shard], None],
        unsettled_bytes: UnsettledBytes,
    ) -> None:
        """Takes over from a complete replay; `unsettled_bytes` counts those of all partitions of the node."""
        assert replay.is_over
        self.log = replay.log
        self.config = config
        # A dict, so that waiters are served in the order in which they came.
        self.waiters: dict[Waiter, None] = {}
        self.partition = replay.partition
        # When the broker stops, a snapshot is written if the log has grown since the last one.
        self._saved_offset = replay.saved_offset
        self._unsaved_batches = replay.batch_count
        self._last_base_offset = replay.log.last_base_offset
        self._discard = discard
        self._unsettled_bytes = unsettled_bytes
        self._draft: Draft | None = None
        self._unsettled: deque[tuple[int, int, asyncio.Future[None] | None]] = deque()
        self.plain_limits = plain_limits(config)

    def configure(self, config: TopicConfig) -> None:
        self.config = config
        self.plain_limits = plain_limits(config)
        self.log.configure(config)

    def append(
        self, prepared: Prepared, now_ms: int, verification: Verification | None = None
    ) -> Appended | Refused:
        """Appends a client's batch, unless an earlier request has."""
        data, header, append_time_ms = prepared
        decision = self.partition.decide_append(header, verification)
        if isinstance(decision, Refused):
            return decision
        if isinstance(decision, AlreadyAppended):
            return self._repeated(decision.batch, append_time_ms)
        if not header.is_transactional:
            return self._append(data, header, append_time_ms, now_ms)
        reach(CrashPoint.BEFORE_TRANSACTIONAL_APPEND)
        appended = self._append(data, header, append_time_ms, now_ms)
        reach(CrashPoint.AFTER_TRANSACTIONAL_APPEND)
        return appended

    def _repeated(self, batch: LoggedBatch, append_time_ms: int) -> Appended | Refused:
        """The earlier append that a batch repeats; if it is not durable yet, the repetition waits for it too."""
        settled = self._durable_up_to(batch.last_offset)
        if isinstance(settled, Refused):
            return settled
        has_append_time = append_time_ms != NO_TIMESTAMP
        return Appended(
            batch.base_offset, batch.timestamp_ms if has_append_time else NO_TIMESTAMP, settled
        )

    def append_marker(
        self,
        marker_type: MarkerType,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        version: int,
        now_ms: int,
    ) -> Appended | AlreadyMarked | Refused:
        """Ends a producer's transaction on this partition, unless an earlier marker has."""
        marker = Marker(marker_type, producer_id, producer_epoch, coordinator_epoch, version)
        (outcome,) = self.append_markers([marker], now_ms)
        return outcome

    def append_markers(self, markers: Sequence[Marker], now_ms: int) -> list[MarkerOutcome]:
        """As `append_marker`, for many, which are written together where they are of different producers."""
        if len(markers) == 1:
            return [self._append_single_marker(markers[0], now_ms)]
        outcomes: dict[int, MarkerOutcome] = {}
        # Those that are to be written, by their places in `markers`; and their producers.
        written: dict[int, tuple[Marker, MarkerBatch]] = {}
        producer_ids: dict[int, None] = {}
        for place, marker in enumerate(markers):
            if marker.producer_id in producer_ids:
                # What is decided about it depends on its marker before.
                outcomes |= self._write_markers(written, now_ms)
                written, producer_ids = {}, {}
            decided = self._decide_marker(marker, now_ms)
            if isinstance(decided, MarkerBatch):
                producer_ids[marker.producer_id] = None
                written[place] = marker, decided
            else:
                outcomes[place] = decided
        outcomes |= self._write_markers(written, now_ms)
        return [outcomes[place] for place in range(len(markers))]

    def _append_single_marker(self, marker: Marker, now_ms: int) -> MarkerOutcome:
        decided = self._decide_marker(marker, now_ms)
        if not isinstance(decided, MarkerBatch):
            return decided
        (outcome,) = self._write_markers({0: (marker, decided)}, now_ms).values()
        return outcome

    def _decide_marker(self, marker: Marker, now_ms: int) -> AlreadyMarked | Refused | MarkerBatch:
        """The batch of a marker that is to be written."""
        marker_type, producer_id, producer_epoch, coordinator_epoch, version = marker
        decision = self.partition.producers.decide_marker(
            producer_id, producer_epoch, coordinator_epoch, version
        )
        if decision is APPEND:
            return marker_batch(
                marker_type is MarkerType.ABORT,
                producer_id,
                producer_epoch,
                coordinator_epoch,
                now_ms,
            )
        if isinstance(decision, Refused):
            return decision
        settled = self._durable_up_to(self.partition.end_offset - 1)
        return settled if isinstance(settled, Refused) else AlreadyMarked(settled)

    def _write_markers(
        self, markers: dict[int, tuple[Marker, MarkerBatch]], now_ms: int
    ) -> dict[int, MarkerOutcome]:
        """Writes markers of different producers at once, all or none of them."""
        if not markers:
            return {}
        for _ in markers:
            reach(CrashPoint.BEFORE_MARKER_APPEND)
        outcomes = self._append_marker_batches(markers, now_ms)
        for marker, _ in markers.values():
            self.partition.producers.end_verifications(
                marker.producer_id, marker.producer_epoch, marker.version
            )
            reach(CrashPoint.AFTER_MARKER_APPEND)
        return outcomes

    def _append_marker_batches(
        self, markers: dict[int, tuple[Marker, MarkerBatch]], now_ms: int
    ) -> dict[int, MarkerOutcome]:
        partition = self.partition
        data, extents = join_batches(
            Extent,
            [batch.data for _, batch in markers.values()],
            [batch.header for _, batch in markers.values()],
            partition.end_offset,
            partition.leader_epoch,
        )
        outcomes: dict[int, MarkerOutcome] = {}
        try:
            settled = self._append_to_log(data, extents)
            for (place, (_, batch)), extent in zip(markers.items(), extents, strict=True):
                base_offset = extent.base_offset
                ended = partition.apply_marker(batch.header, batch.marker, base_offset, now_ms)
                if ended is not None and ended.is_aborted:
                    self.log.note_aborted(partition.aborted_span(ended))
                outcomes[place] = Appended(base_offset, NO_TIMESTAMP, settled)
        except StorageError as error:
            return dict.fromkeys(markers, self._not_written(error))
        self._note_written(len(data), len(extents), settled)
        return outcomes

    def _durable_up_to(self, offset: int) -> asyncio.Future[None] | Refused | None:
        """A future for when the log is durable up to an offset; None if it is."""
        if offset < self.partition.high_watermark:
            return None
        try:
            return self.log.flush()
        except StorageError as error:
            self.fail(error)
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR)

    def append_own(self, data: bytes, now_ms: int) -> Appended | Refused:
        """Appends a batch of the broker's own, which needs no checks."""
        return self._append(data, batches.read_header(data, 0), NO_TIMESTAMP, now_ms)

    def append_together(
        self,
        decided: list[Buffer],
        headers: list[BatchHeader],
        producers: list[ProducerBatch | None],
        now_ms: int,
    ) -> Appended | Refused:
        """Appends clients' batches that were decided about, all or none of them, in one write.

        `producers` is what each of them says of its producer, if it has one.
        """
        transactional_count = 0
        for producer in producers:
            if producer is not None and producer.is_transactional:
                transactional_count += 1
        if transactional_count:
            reach(CrashPoint.BEFORE_TRANSACTIONAL_APPEND)
        appended = self._append_decided(decided, headers, producers, now_ms)
        if transactional_count:
            reach(CrashPoint.AFTER_TRANSACTIONAL_APPEND)
        return appended

    def _append_decided(
        self,
        decided: list[Buffer],
        headers: list[BatchHeader],
        producers: list[ProducerBatch | None],
        now_ms: int,
    ) -> Appended | Refused:
        partition = self.partition
        if len(decided) == 1 and len(decided[0]) > LARGEST_COPIED_BYTES:
            # Its offset is written in place: a large batch is not copied.
            return self._append(decided[0], headers[0], NO_TIMESTAMP, now_ms)
        base_offset = partition.end_offset
        data, extents = join_batches(Extent, decided, headers, base_offset, partition.leader_epoch)
        try:
            settled = self._append_to_log(data, extents)
        except StorageError as error:
            return self._not_written(error)
        for producer, extent in zip(producers, extents, strict=True):
            partition.apply_decided(producer, extent.base_offset, extent.last_offset, now_ms)
        self._note_written(len(data), len(extents), settled)
        return Appended(base_offset, NO_TIMESTAMP, settled)

    def _append(
        self, data: Buffer, header: BatchHeader, append_time_ms: int, now_ms: int
    ) -> Appended | Refused:
        """Writes a batch at the end of the log and applies it to the state."""
        partition = self.partition
        base_offset = partition.end_offset
        if isinstance(data, bytes) or (isinstance(data, memoryview) and data.readonly):
            data = bytearray(data)
        batches.stamp(data, 0, base_offset=base_offset, leader_epoch=partition.leader_epoch)
        extent = Extent(
            base_offset, base_offset + header.last_offset_delta, header.max_timestamp, len(data)
        )
        try:
            settled = self._append_to_log(data, (extent,))
            ended = partition.apply(header, base_offset, data, now_ms)
            if ended is not None and ended.is_aborted:
                self.log.note_aborted(partition.aborted_span(ended))
        except StorageError as error:
            return self._not_written(error)
        self._note_written(len(data), 1, settled)
        return Appended(base_offset, append_time_ms, settled)

    def _append_to_log(
        self, data: Buffer, extents: Sequence[Extent]
    ) -> asyncio.Future[None] | None:
        """Writes batches, joined in `data`, at the end of the log; the caller applies them."""
        settled = self.log.append(data, extents, self.partition.end_offset)
        if self.log.last_base_offset != self._last_base_offset:
            self._save_rolled()
        return settled

    def _not_written(self, error: StorageError) -> Refused:
        if isinstance(error, StorageFullError):
            self.log_full(error)
        else:
            self.fail(error)
        return Refused(ErrorCode.KAFKA_STORAGE_ERROR)

    def _note_written(
        self, size_bytes: int, batch_count: int, settled: asyncio.Future[None] | None
    ) -> None:
        self._settle_later(self.partition.end_offset, size_bytes, settled)
        self._unsaved_batches += batch_count
        if self._unsaved_batches >= SNAPSHOT_BATCHES:
            self._save_grown()

    # Snapshots: the state of the producers at an offset. None lies above the high watermark: the snapshot of a fenced
    # leader would count once its successor has appended other batches up to there.

    def _save_rolled(self) -> None:
        """Saves the state at the base offset of a segment that an append has begun, before the batch is applied.

        Kafka keeps only such snapshots when it opens the folder, and a log that is cut needs an old one.
        """
        self._last_base_offset = self.log.last_base_offset
        self._save_grown()

    def _save_grown(self) -> None:
        """Bounds the replay after a kill, whatever the size of segments; no client waits for it."""
        with suppress(StorageError):
            self._save_unawaited(SaveTime.SOON)

    def _save_unawaited(self, when: SaveTime) -> None:
        _ignore_failure(self._save(when))

    def _save(self, when: SaveTime) -> asyncio.Future[None] | None:
        """Saves the state as it is now; in slices if there are very many producers, and a loop is running."""
        self._unsaved_batches = 0
        if len(self.partition.producers) > SNAPSHOT_PRODUCERS:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                pass
            else:
                return self._begin_draft(loop, when)
        return self._save_whole(when)

    def _save_whole(self, when: SaveTime) -> asyncio.Future[None] | None:
        offset = self.partition.end_offset
        return self._save_durable(Snapshot(offset, self.partition.producers.to_snapshot()), when)

    def _save_durable(self, snapshot: Snapshot, when: SaveTime) -> asyncio.Future[None] | None:
        """Saves a snapshot when everything that it covers is durable."""
        durable = None if snapshot.offset <= self.partition.high_watermark else self.log.flush()
        saved = after(durable, lambda: self.log.save_snapshot(snapshot, when))
        return after(saved, lambda: self._note_saved(snapshot.offset))

    def _note_saved(self, offset: int) -> None:
        self._saved_offset = max(self._saved_offset, offset)

    def _begin_draft(
        self, loop: asyncio.AbstractEventLoop, when: SaveTime
    ) -> asyncio.Future[None] | None:
        """Begins to encode a snapshot, unless one is being encoded; returns when that one is saved."""
        if self._draft is None:
            offset = self.partition.end_offset
            snapshot = self.partition.producers.begin_snapshot()
            encoded: asyncio.Future[None] = loop.create_future()
            saved = after(
                encoded, lambda: self._save_durable(Snapshot(offset, snapshot.finish()), when)
            )
            self._draft = Draft(snapshot, encoded, saved)
            loop.call_soon(self._write_slice, self._draft)
        return self._draft.saved

    def _write_slice(self, draft: Draft) -> None:
        if not self.log.is_open:
            self._end_draft()
            draft.encoded.set_exception(StorageError("the claim is over"))
            return
        draft.snapshot.advance(SNAPSHOT_PRODUCERS)
        if not draft.snapshot.is_complete:
            asyncio.get_running_loop().call_soon(self._write_slice, draft)
            return
        self._end_draft()
        draft.encoded.set_result(None)

    def _end_draft(self) -> None:
        self._draft = None
        self.partition.producers.end_snapshot()

    def roll(self) -> None:
        """Begins a new segment although the last one is not full; `_save_rolled` is for those that appends begin."""
        self._save_unawaited(SaveTime.NOW)
        self.log.roll()
        self._last_base_offset = self.log.last_base_offset

    def _settle_later(
        self, end_offset: int, size_bytes: int, settled: asyncio.Future[None] | None
    ) -> None:
        if settled is None and not self._unsettled:
            self._advance(end_offset, size_bytes)
            return
        self._unsettled.append((end_offset, size_bytes, settled))
        self._unsettled_bytes.add(size_bytes)
        if settled is not None:
            settled.add_done_callback(self._settle)

    def _settle(self, future: asyncio.Future[None]) -> None:
        """Makes everything visible that is durable together with all before it."""
        if not self._unsettled:
            return
        if not is_durable(future):
            self.fail(_failure(future))
            return
        while self._unsettled and is_durable(self._unsettled[0][2]):
            end_offset, size_bytes, _ = self._unsettled.popleft()
            self._unsettled_bytes.remove(size_bytes)
            self._advance(end_offset, size_bytes)

    def _advance(self, high_watermark: int, size_bytes: int) -> None:
        self.partition.advance_high_watermark(high_watermark)
        if self.waiters:
            for waiter in list(self.waiters):
                waiter.grown(self, size_bytes)

    def log_full(self, error: StorageFullError) -> None:
        """Logs that the engine has no room; the shard goes on."""
        ref = self.log.ref
        logger.warning(
            "storage_full",
            "partition %(topic)s-%(partition)d: %(reason)s",
            topic=ref.topic,
            partition=ref.partition,
            reason=str(error),
        )

    def fail(self, error: BaseException) -> None:
        """Discards the shard; the next use claims the partition again."""
        ref = self.log.ref
        logger.error(
            "storage_failed",
            "partition %(topic)s-%(partition)d: storage failed: %(reason)s",
            topic=ref.topic,
            partition=ref.partition,
            reason=str(error),
        )
        self._discard(self)
        self.resign()

    def read_failed(self, error: StorageError) -> None:
        """Discards the shard, unless the claim lasts: a store that cannot be reached now has lost nothing."""
        if not isinstance(error, StorageUnavailableError):
            self.fail(error)

    def resign(self) -> None:
        """Makes nothing more visible: the next claim finds what was written."""
        given_up, self._unsettled = self._unsettled, deque()
        for _, size_bytes, _ in given_up:
            self._unsettled_bytes.remove(size_bytes)
        self.release_waiters()

    def release_waiters(self) -> None:
        """Tells every waiter that the partition is no longer served by this shard."""
        for waiter in list(self.waiters):
            waiter.gone()

    def read(self, offset: int, max_bytes: int, end_offset: int) -> Buffer:
        return self.log.read(offset, max_bytes, end_offset)

    def aborted_in(self, records: Buffer, offset: int, end_offset: int) -> Sequence[AbortedSpan]:
        """The aborted transactions that reach into records that were read between two offsets."""
        if not records or next(self.log.aborted(offset), None) is None:
            return ()
        return aborted_in(self.log.aborted(offset), records, offset, end_offset)

    def trim(self, start_offset: int) -> asyncio.Future[None] | None:
        """Deletes what lies below an offset."""
        return after(self.prepare_trim(start_offset), lambda: self._trim_prepared(start_offset))

    def _trim_prepared(self, start_offset: int) -> asyncio.Future[None] | None:
        return after(self.log.trim(start_offset), lambda: self.partition.trim(start_offset))

    def prepare_trim(self, start_offset: int) -> asyncio.Future[None] | None:
        """Durably saves what batches below an offset say of their producers; after a kill nothing else would.

        Without room for a snapshot the batches are deleted all the same: that makes room.
        """
        try:
            covered = self._cover(start_offset)
        except StorageFullError as error:
            self._note_uncovered(error)
            return None
        return None if covered is None else asyncio.ensure_future(self._covered(covered))

    async def _covered(self, covered: asyncio.Future[None]) -> None:
        try:
            await covered
        except StorageFullError as error:
            self._note_uncovered(error)

    def _note_uncovered(self, error: StorageFullError) -> None:
        self._unsaved_batches = SNAPSHOT_BATCHES  # the next append tries again
        logger.warning(
            "snapshot_not_saved",
            "partition %(topic)s-%(partition)d: cannot save a snapshot: %(reason)s",
            topic=self.log.ref.topic,
            partition=self.log.ref.partition,
            reason=str(error),
        )

    def _cover(self, offset: int) -> asyncio.Future[None] | None:
        """Has a snapshot at or above an offset, and both it and the log up to there on disk."""
        if not self.partition.producers:
            return None
        if self._saved_offset >= offset:
            return self.log.flush()
        saved = self._save(SaveTime.SOON) if self._draft is None else self._draft.saved
        return after(saved, lambda: self._cover(offset))

    def apply_retention(self, now_ms: int) -> asyncio.Future[None] | None:
        """Deletes what `retention.ms` and `retention.bytes` no longer keep."""
        config = self.config
        if "delete" not in config.cleanup_policy:
            return None
        segments = self.log.segments()
        last = segments[-1] if segments else None
        if (
            last is not None
            and last.size_bytes > 0
            and last_is_due(last, now_ms, config.retention_ms, config.retention_bytes)
            and last.end_offset <= self.partition.high_watermark
        ):
            # On a full disk the segments before it can still be deleted.
            with suppress(StorageFullError):
                self.roll()
            segments = self.log.segments()
        start_offset = retained_from(
            segments, self.log.start_offset, now_ms, config.retention_ms, config.retention_bytes
        )
        start_offset = min(start_offset, self.partition.high_watermark)
        if start_offset <= self.log.start_offset:
            return None
        size_bytes = self.log.size_bytes
        return after(
            self.trim(start_offset), lambda: self._log_retention(len(segments), size_bytes)
        )

    def _log_retention(self, segments_before: int, bytes_before: int) -> None:
        logger.info(
            "retention_applied",
            "partition %(topic)s-%(partition)d: retention deleted %(segments)d segment(s), "
            "%(bytes)d bytes, and the log starts at offset %(start_offset)d now",
            topic=self.log.ref.topic,
            partition=self.log.ref.partition,
            segments=segments_before - len(self.log.segments()),
            bytes=bytes_before - self.log.size_bytes,
            start_offset=self.log.start_offset,
        )

    def save(self) -> asyncio.Future[None] | None:
        """Spares the next claim a replay, if everything is durable; the next claim may follow at once."""
        end_offset = self.partition.end_offset
        if self._saved_offset < end_offset <= self.partition.high_watermark:
            return self._save_whole(SaveTime.NOW)
        return None

    def save_at_close(self) -> None:
        """Spares the next start a replay: the engine makes everything durable when it closes."""
        end_offset = self.partition.end_offset
        if end_offset > self._saved_offset:
            snapshot = Snapshot(end_offset, self.partition.producers.to_snapshot())
            self.log.save_snapshot(snapshot, SaveTime.AT_CLOSE)


def _ignore_failure(saved: asyncio.Future[None] | None) -> None:
    """A snapshot that was not saved makes a replay longer, and nothing else."""
    if saved is not None:
        saved.add_done_callback(lambda done: done.cancelled() or done.exception())


def is_durable(settled: asyncio.Future[None] | None) -> bool:
    """Whether an append is durable; a failed one is not, although its future is done."""
    return settled is None or (
        settled.done() and not settled.cancelled() and settled.exception() is None
    )


def _failure(settled: asyncio.Future[None]) -> BaseException:
    error = None if settled.cancelled() else settled.exception()
    return error or StorageError("the append was given up")
