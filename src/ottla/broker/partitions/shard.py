"""A partition at work: the pure state of `core.partition` over a claimed log.

Decide, append, apply, then release the answer when the engine says that it is durable. When the engine fails, the shard
is thrown away: the next use claims the log anew and replays it, so there is no rollback code.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from ottla.broker.crashpoints import CrashPoint, reach
from ottla.broker.partitions.replay import Replay
from ottla.config.topic import TopicConfig
from ottla.core.aborted import AbortedSpan, overlapping
from ottla.core.append import NO_TIMESTAMP, Prepared
from ottla.core.producer_state import SnapshotDraft, Verification
from ottla.core.retention import even_last_goes, retained_from
from ottla.errors import ErrorCode
from ottla.events import EventLog
from ottla.ports import Buffer, Extent, SaveTime, Snapshot, StorageError, StorageFullError
from ottla.ports.futures import after
from ottla.records import batch as batches
from ottla.records.batch import BatchHeader
from ottla.records.control import MarkerType, build_marker_batch
from ottla.records.errors import CorruptRecordsError

logger = EventLog(__name__)

# After so many batches, or as many bytes as a segment may have, the state of the producers is saved.
SNAPSHOT_BATCHES: Final = 20_000
# The state of more producers is written down in slices of so many: one or two milliseconds.
SNAPSHOT_PRODUCERS: Final = 1_000


class Appended(NamedTuple):
    """Where a batch lies; `settled` is None once it is durable."""

    base_offset: int
    append_time_ms: int
    settled: asyncio.Future[None] | None


class AlreadySo(NamedTuple):
    """What was to be appended had been appended before; `settled` is None once that is durable."""

    settled: asyncio.Future[None] | None


class Draft(NamedTuple):
    """A snapshot of the state at an offset that is being written in slices."""

    snapshot: SnapshotDraft
    offset: int
    when: SaveTime


class Waiter(Protocol):
    """Somebody who waits for more to read."""

    def grown(self, shard: Shard, size_bytes: int) -> None: ...

    def gone(self) -> None: ...


class Shard:
    """One partition that this node leads."""

    def __init__(
        self, replay: Replay, config: TopicConfig, discard: Callable[[Shard], None]
    ) -> None:
        """Goes on from where a replay has come to its end."""
        assert replay.is_over
        self.log = replay.log
        self.config = config
        # A dict for its order: waiters are answered first come, first served.
        self.waiters: dict[Waiter, None] = {}
        self.partition = replay.partition
        # A log that grew since its newest snapshot, or has none, is saved again when the broker stops.
        self._saved_offset = replay.saved_offset
        self._unsaved_batches = replay.batch_count
        self._unsaved_bytes = 0
        self._discard = discard
        self._draft: Draft | None = None
        self._unsettled: deque[tuple[int, int, asyncio.Future[None] | None]] = deque()

    def configure(self, config: TopicConfig) -> None:
        self.config = config
        self.log.configure(config)

    def append(
        self, prepared: Prepared, now_ms: int, verification: Verification | None = None
    ) -> Appended | ErrorCode:
        """Appends a client's batch, or finds that it is there already."""
        partition = self.partition
        data, header, append_time_ms = prepared
        verdict = partition.decide_append(header, verification)
        if isinstance(verdict, ErrorCode):
            if verdict is not ErrorCode.NONE:
                return verdict
        else:
            # The first append may still be on its way to the disk: its repetition waits for it as well.
            settled = self._durable_up_to(verdict.last_offset)
            if isinstance(settled, ErrorCode):
                return settled
            append_time_ms = (
                NO_TIMESTAMP if append_time_ms == NO_TIMESTAMP else verdict.timestamp_ms
            )
            return Appended(verdict.base_offset, append_time_ms, settled)
        if not header.is_transactional:
            return self._append(data, header, append_time_ms, now_ms)
        reach(CrashPoint.BEFORE_TRANSACTIONAL_APPEND)
        appended = self._append(data, header, append_time_ms, now_ms)
        reach(CrashPoint.AFTER_TRANSACTIONAL_APPEND)
        return appended

    def append_marker(
        self,
        marker_type: MarkerType,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        version: int,
        now_ms: int,
    ) -> Appended | AlreadySo | ErrorCode:
        """Ends a producer's transaction here, unless that has happened before."""
        partition = self.partition
        verdict = partition.producers.check_marker(
            producer_id, producer_epoch, coordinator_epoch, version
        )
        if verdict is None:
            settled = self._durable_up_to(partition.end_offset - 1)
            return settled if isinstance(settled, ErrorCode) else AlreadySo(settled)
        if verdict is not ErrorCode.NONE:
            return verdict
        data = build_marker_batch(
            marker_type,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=now_ms,
        )
        reach(CrashPoint.BEFORE_MARKER_APPEND)
        appended = self.append_own(data, now_ms)
        reach(CrashPoint.AFTER_MARKER_APPEND)
        return appended

    def _durable_up_to(self, offset: int) -> asyncio.Future[None] | ErrorCode | None:
        """When what was appended up to an offset is durable; None if it is."""
        if offset < self.partition.high_watermark:
            return None
        try:
            return self.log.flush()
        except StorageError as error:
            self.fail(error)
            return ErrorCode.KAFKA_STORAGE_ERROR

    def append_own(self, data: bytes, now_ms: int) -> Appended | ErrorCode:
        """Appends a batch that the broker made itself: there is nothing in it to be checked."""
        return self._append(data, batches.read_header(data, 0), NO_TIMESTAMP, now_ms)

    def _append(
        self, data: Buffer, header: BatchHeader, append_time_ms: int, now_ms: int
    ) -> Appended | ErrorCode:
        """Writes a batch at the end and takes it into account."""
        partition = self.partition
        base_offset = partition.end_offset
        if isinstance(data, bytes) or (isinstance(data, memoryview) and data.readonly):
            data = bytearray(data)
        batches.stamp(data, 0, base_offset=base_offset, leader_epoch=partition.leader_epoch)
        extent = Extent(
            base_offset, base_offset + header.last_offset_delta, header.max_timestamp, len(data)
        )
        try:
            settled = self.log.append(data, (extent,), base_offset)
            ended = partition.apply(header, base_offset, data, now_ms)
            if ended is not None and ended.is_aborted:
                self.log.note_aborted(partition.aborted_span(ended))
        except StorageFullError as error:
            ref = self.log.ref
            logger.warning(
                "storage_full",
                "partition %(topic)s-%(partition)d: %(reason)s",
                topic=ref.topic,
                partition=ref.partition,
                reason=str(error),
            )
            return ErrorCode.KAFKA_STORAGE_ERROR
        except StorageError as error:
            self.fail(error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        self._settle_later(partition.end_offset, len(data), settled)
        self._unsaved_batches += 1
        self._unsaved_bytes += len(data)
        if (
            self._unsaved_batches >= SNAPSHOT_BATCHES
            or self._unsaved_bytes >= self.config.segment_bytes
        ):
            self._save_grown()
        return Appended(base_offset, append_time_ms, settled)

    # Snapshots: the state of the producers at an offset. None lies above the high watermark: the snapshot of a fenced
    # leader would count once its successor has appended other batches up to there.

    def _save_grown(self) -> None:
        """Bounds the replay after a kill, whatever the size of segments; no client waits for it."""
        with suppress(StorageError):
            self._save_unawaited(SaveTime.SOON)

    def _save_unawaited(self, when: SaveTime) -> None:
        """Saves the state as it is now; in slices if there are very many producers, and a loop is running."""
        self._unsaved_batches = self._unsaved_bytes = 0
        if len(self.partition.producers) > SNAPSHOT_PRODUCERS:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                pass
            else:
                self._begin_draft(loop, when)
                return
        _ignore_failure(self._save_whole(when))

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

    def _begin_draft(self, loop: asyncio.AbstractEventLoop, when: SaveTime) -> None:
        if self._draft is None:
            snapshot = self.partition.producers.begin_snapshot()
            self._draft = Draft(snapshot, self.partition.end_offset, when)
            loop.call_soon(self._write_slice, self._draft)

    def _write_slice(self, draft: Draft) -> None:
        if draft is not self._draft:
            return
        if not self.log.is_open:
            self._end_draft()
            return
        draft.snapshot.advance(SNAPSHOT_PRODUCERS)
        if not draft.snapshot.is_complete:
            asyncio.get_running_loop().call_soon(self._write_slice, draft)
            return
        self._end_draft()
        with suppress(StorageError):
            snapshot = Snapshot(draft.offset, draft.snapshot.finish())
            _ignore_failure(self._save_durable(snapshot, draft.when))

    def _finish_draft(self) -> asyncio.Future[None] | None:
        """Saves the snapshot that is being written in slices, whole and now."""
        draft = self._draft
        if draft is None:
            return None
        self._end_draft()
        return self._save_durable(Snapshot(draft.offset, draft.snapshot.finish()), SaveTime.NOW)

    def _end_draft(self) -> None:
        self._draft = None
        self.partition.producers.end_snapshot()

    def roll(self) -> None:
        """Begins a new segment; the state of the producers is saved with it, as Kafka does."""
        _ignore_failure(self._finish_draft())
        self._save_unawaited(SaveTime.NOW)
        self.log.roll()

    def _settle_later(
        self, end_offset: int, size_bytes: int, settled: asyncio.Future[None] | None
    ) -> None:
        if settled is None and not self._unsettled:
            self._advance(end_offset, size_bytes)
            return
        self._unsettled.append((end_offset, size_bytes, settled))
        if settled is not None:
            settled.add_done_callback(self._settle)

    def _settle(self, future: asyncio.Future[None]) -> None:
        """Shows everything whose predecessors are durable."""
        if not self._unsettled:
            return
        if not is_durable(future):
            self.fail(_failure(future))
            return
        while self._unsettled and is_durable(self._unsettled[0][2]):
            end_offset, size_bytes, _ = self._unsettled.popleft()
            self._advance(end_offset, size_bytes)

    def _advance(self, high_watermark: int, size_bytes: int) -> None:
        self.partition.advance_high_watermark(high_watermark)
        if self.waiters:
            for waiter in list(self.waiters):
                waiter.grown(self, size_bytes)

    def fail(self, error: BaseException) -> None:
        """Gives the partition up until it is claimed again."""
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

    def resign(self) -> None:
        """Shows nothing more: what is not settled is for the next claim to find."""
        self._unsettled.clear()
        self.release_waiters()

    def release_waiters(self) -> None:
        """Answers everybody who waits here: the partition is no longer what it was."""
        for waiter in list(self.waiters):
            waiter.gone()

    def read(self, offset: int, max_bytes: int, end_offset: int) -> Buffer:
        return self.log.read(offset, max_bytes, end_offset)

    def aborted_in(self, records: Buffer, offset: int, end_offset: int) -> Sequence[AbortedSpan]:
        """The aborted transactions that reach into records that were read between two offsets."""
        if not records or next(self.log.aborted(offset), None) is None:
            return ()
        # Damaged records are for the reader to find; it is told too much then, which does no harm.
        with suppress(CorruptRecordsError):
            end_offset = batches.split_batches(records)[-1][1].last_offset + 1
        return overlapping(self.log.aborted(offset), offset, end_offset)

    def trim(self, start_offset: int) -> asyncio.Future[None] | None:
        """Deletes what lies below an offset."""
        return after(self.prepare_trim(start_offset), lambda: self._trim_prepared(start_offset))

    def _trim_prepared(self, start_offset: int) -> asyncio.Future[None] | None:
        return after(self.log.trim(start_offset), lambda: self.partition.trim(start_offset))

    def prepare_trim(self, start_offset: int) -> asyncio.Future[None] | None:
        """Saves what batches below an offset say of their producers; after a kill nothing else would."""
        return after(self._finish_draft(), lambda: self._cover(start_offset))

    def _cover(self, offset: int) -> asyncio.Future[None] | None:
        """Has a snapshot at or above an offset."""
        if self._saved_offset >= offset or not self.partition.producers:
            return None
        return self._save_whole(SaveTime.NOW)

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
            and even_last_goes(last, now_ms, config.retention_ms, config.retention_bytes)
            and last.end_offset <= self.partition.high_watermark
        ):
            # On a full disk the segments before it can go all the same, and make room.
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
        try:
            prepared = self.prepare_trim(start_offset)
        except StorageFullError:
            # What the last snapshot covers can go all the same, and makes room.
            prepared, start_offset = None, min(start_offset, self._saved_offset)
            if start_offset <= self.log.start_offset:
                raise
        trimmed = after(prepared, lambda: self._trim_prepared(start_offset))
        return after(trimmed, lambda: self._log_retention(len(segments), size_bytes))

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
    """Whether an append is done; one that failed is not, although its future is."""
    return settled is None or (
        settled.done() and not settled.cancelled() and settled.exception() is None
    )


def _failure(settled: asyncio.Future[None]) -> BaseException:
    error = None if settled.cancelled() else settled.exception()
    return error or StorageError("the append was given up")
