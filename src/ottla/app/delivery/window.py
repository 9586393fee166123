"""The records of one assigned partition that a listener has taken and not committed."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from ottla.app.declarations.listener_spec import (
    DEFAULT_MAX_WINDOW_BYTES,
    DEFAULT_MAX_WINDOW_RECORDS,
    Order,
    RawRecord,
)
from ottla.app.delivery.gaps import DEFAULT_MAX_METADATA_BYTES, NO_GAPS, Attempts, Gaps
from ottla.app.delivery.progress import PartitionProgress
from ottla.app.delivery.record_queue import create_queue
from ottla.client.model import OffsetAndMetadata
from ottla.model import TopicPartition

_PAUSE_SHARE: Final = 0.75


@dataclass(frozen=True)
class WindowLimits:
    """How much of a partition may be taken before it is committed."""

    records: int = DEFAULT_MAX_WINDOW_RECORDS
    record_bytes: int = DEFAULT_MAX_WINDOW_BYTES
    metadata_bytes: int = DEFAULT_MAX_METADATA_BYTES

    @cached_property
    def pause_bytes(self) -> int:
        """From this size of the metadata on, only the first unfinished record may start."""
        return int(self.metadata_bytes * _PAUSE_SHARE)


class Failures:
    """How often a record has failed, and since when."""

    __slots__ = ("count", "due_ms", "first_ms", "stall_reason")

    def __init__(
        self, count: int, due_ms: int, first_ms: int | None, stall_reason: str | None = None
    ) -> None:
        self.count = count
        self.due_ms = due_ms
        self.first_ms = first_ms
        self.stall_reason = stall_reason
        """Its last error, if nothing says where to put it: it stays until it succeeds."""


class PartitionWindow:
    """Queue, progress and failures of one partition, from its assignment until it is given up."""

    def __init__(
        self,
        partition: TopicPartition,
        order: Order,
        limits: WindowLimits,
        committed: OffsetAndMetadata | None = None,
        gaps: Gaps = NO_GAPS,
        *,
        start_offset: int | None = None,
        is_retry_topic: bool = False,
    ) -> None:
        self.partition = partition
        self.limits = limits
        self.start_offset = start_offset
        """Where it began, unless at the committed offset; None until the first record, if the consumer chooses."""
        self._is_moved = committed is None or start_offset is not None
        if start_offset is None and committed is not None:
            start_offset = committed.offset
        self.progress = PartitionProgress(start_offset, gaps)
        self.queue = create_queue(order)
        self.is_closed = False
        """Given up: what its handlers still do counts for nothing."""
        self.is_closing = False
        """About to be given up: nothing new starts."""
        self.started_count = 0
        """Records that workers have, or that wait until what they sent is acknowledged."""
        self.waiting_bytes = 0
        # When the first record came that no batch has yet, and until when a batch waits for more.
        self._oldest_ms: int | None = None
        self._batch_due_ms: int | None = None
        self.committed = committed
        self.is_queued = False
        """Whether workers know that it may have work."""
        self.is_fetch_paused = False
        self.is_blocked = False
        """Whether records wait until the metadata has room for what they add."""
        self.is_retry_topic = is_retry_topic
        self.worker_count = 0
        """Workers that are busy with its records."""
        self._batch_ends: deque[int] = deque()
        self._epoch: tuple[int, int | None] = (-1, None)
        self._failures = {
            each.offset: Failures(each.failed, each.due_ms, None) for each in gaps.attempts
        }

    def __len__(self) -> int:
        """How many records are taken, from the first unfinished one on."""
        return len(self.progress)

    # Records that come

    def take(
        self,
        records: Sequence[RawRecord],
        next_offset: OffsetAndMetadata,
        due_ms: Mapping[int, int],
        now_ms: int,
    ) -> int:
        """Records of a poll, with due times where they have some; returns how many were finished earlier."""
        offsets = [record.offset for record in records]
        finished = self.progress.take(offsets, next_offset.offset)
        if self.start_offset is None:
            self.start_offset = offsets[0] if offsets else next_offset.offset
        self._epoch = (next_offset.offset, next_offset.leader_epoch)
        self._batch_ends.append(next_offset.offset)
        if finished:
            records = [record for record in records if record.offset not in finished]
        if self._failures:
            due_ms = {
                **due_ms,
                **{
                    offset: self._failures[offset].due_ms
                    for offset in offsets
                    if offset in self._failures
                },
            }
        if self._oldest_ms is None:
            self._oldest_ms = now_ms
        self.queue.add(records, due_ms)
        self.waiting_bytes += sum(map(size_of, records))
        return len(finished)

    @property
    def is_full(self) -> bool:
        """Whether no more records should be fetched."""
        limits = self.limits
        return (
            len(self.progress) >= limits.records
            or self.waiting_bytes >= limits.record_bytes
            or not self._has_metadata_room()
        )

    @property
    def has_room(self) -> bool:
        """Whether a paused partition should be fetched again."""
        limits = self.limits
        return (
            len(self.progress) <= limits.records // 2
            and self.waiting_bytes <= limits.record_bytes // 2
            and self._has_metadata_room()
        )

    def _has_metadata_room(self, records: int = 1) -> bool:
        """Whether so many more records may start."""
        limits = self.limits
        started = self.started_count + records - 1
        return self.progress.has_room(started, limits.metadata_bytes, limits.pause_bytes)

    # Work

    def start(self, limit: int, now_ms: int) -> list[RawRecord]:
        """The next records for a worker, at most `limit`; none if nothing may start now."""
        if self.is_closing or self.is_closed or not len(self.queue):
            return []
        self.is_blocked = not self._has_metadata_room()
        if not self.is_blocked:
            while limit > 1 and not self._has_metadata_room(limit):
                limit //= 2
            records = self.queue.take(limit, now_ms)
        else:
            first = self.progress.commit_offset
            records = [] if first is None else self.queue.take_only(first, now_ms)
        self.started_count += len(records)
        return records

    def start_batch(self, limit: int, now_ms: int, max_wait_ms: int) -> list[RawRecord]:
        """As `start`, but wait for more than there are until the first of them has waited so long."""
        if (
            len(self.queue) < limit
            and self._oldest_ms is not None
            and now_ms < self._oldest_ms + max_wait_ms
        ):
            self._batch_due_ms = self._oldest_ms + max_wait_ms
            return []
        records = self.start(limit, now_ms)
        self._batch_due_ms = None
        self._oldest_ms = now_ms if len(self.queue) else None
        return records

    @property
    def next_due_ms(self) -> int | None:
        """When something may start that cannot start now; None if nothing waits for a time."""
        if self.is_closing:
            return None
        due_ms = self.queue.next_due_ms
        if self._batch_due_ms is None or due_ms is None:
            return due_ms if self._batch_due_ms is None else self._batch_due_ms
        return min(due_ms, self._batch_due_ms)

    def settle(
        self,
        taken: Sequence[RawRecord],
        again: Sequence[RawRecord] = (),
        due_ms: Mapping[int, int] | None = None,
    ) -> None:
        """A worker is through with what it took; what is neither `again` nor finished waits for its acknowledgement."""
        self.started_count -= len(again)
        self.queue.settle(taken, again, due_ms or {})

    def requeue(self, record: RawRecord, due_ms: int) -> None:
        """What the handler sent was not acknowledged: the record is worked on again."""
        self.started_count -= 1
        self.queue.requeue(record, due_ms)

    def finish(self, record: RawRecord) -> None:
        """A record is done, and what its handler sent is acknowledged or in a committed transaction."""
        self.started_count -= 1
        self.waiting_bytes -= size_of(record)
        self.progress.finish(record.offset)
        if self._failures:
            self._failures.pop(record.offset, None)

    def failures_of(self, record: RawRecord) -> Failures | None:
        """What is known of earlier attempts in this partition."""
        return self._failures.get(record.offset) if self._failures else None

    def note_failure(
        self,
        record: RawRecord,
        count: int,
        due_ms: int,
        now_ms: int,
        stall_reason: str | None = None,
    ) -> None:
        """The record has failed so often, and is tried again at this time."""
        known = self._failures.get(record.offset)
        first_ms = known.first_ms if known is not None and known.first_ms is not None else now_ms
        self._failures[record.offset] = Failures(count, due_ms, first_ms, stall_reason)

    def stalls(self) -> list[tuple[int, Failures]]:
        """The records that nothing says where to put, by offset."""
        return [
            (offset, each)
            for offset, each in sorted(self._failures.items())
            if each.stall_reason is not None
        ]

    @property
    def failing_count(self) -> int:
        """How many records have failed and are to be tried again."""
        return len(self._failures)

    # Commits

    def has_finished_batch(self) -> bool:
        """Whether all records of a poll are finished, since the last time that this was asked."""
        ends, offset = self._batch_ends, self.progress.commit_offset
        if offset is None or not ends or offset < ends[0]:
            return False
        while ends and ends[0] <= offset:
            ends.popleft()
        return True

    def to_commit(self, progress: PartitionProgress | None = None) -> OffsetAndMetadata | None:
        """What to commit, if it differs from the last commit; `progress` shows another state than the present one."""
        progress = self.progress if progress is None else progress
        offset = progress.commit_offset
        if offset is None:
            return None
        attempts = [
            Attempts(at, each.count, each.due_ms)
            for at, each in sorted(self._failures.items())
            if progress.is_unfinished(at)
        ]
        metadata = progress.metadata(attempts, self.limits.metadata_bytes)
        if metadata is None:
            # The limit of the broker has become smaller: wait until the first records are finished.
            return None
        epoch = self._epoch[1] if self._epoch[0] == offset else None
        found = OffsetAndMetadata(offset, metadata, epoch)
        last = self.committed
        if last is not None and (last.offset, last.metadata) == (offset, metadata):
            return None
        return found

    @property
    def has_begun(self) -> bool:
        """Whether it is known where it began."""
        return self.progress.position is not None

    def begin_at(self, offset: int) -> None:
        """The consumer has chosen where to begin; no record has come yet."""
        self.start_offset = self.progress.position = offset

    def passed_by(self, offset: int) -> None:
        """Records from this offset on came after it was closed: without a committed offset, a claim begins there."""
        if self.start_offset is None:
            self.start_offset = offset

    def restart_offset(self, committed: OffsetAndMetadata | None) -> int | None:
        """Where to begin again: where it began, if nothing was committed since; None for the committed offset."""
        if not self._is_moved or _place(committed) != _place(self.committed):
            return None
        return self.start_offset

    def was_committed(self, offset: OffsetAndMetadata) -> int:
        """A commit succeeded; returns by how many offsets it moved."""
        last, self.committed = self.committed, offset
        self._is_moved = False
        # The first commit of a group counts from where the listener began.
        start = self.start_offset if last is None else last.offset
        return 0 if start is None else max(0, offset.offset - start)

    def close(self) -> None:
        """Give the partition up."""
        self.is_closing = self.is_closed = True


def _place(committed: OffsetAndMetadata | None) -> tuple[int, str] | None:
    return None if committed is None else (committed.offset, committed.metadata)


def size_of(record: RawRecord) -> int:
    """The bytes of a record that count towards the limits."""
    return max(0, record.serialized_key_size) + max(0, record.serialized_value_size)
