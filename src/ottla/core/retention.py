"""Deletions at the front of a log: retention by time and by size, and DeleteRecords."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ottla.core.catalog import INTERNAL_TOPICS
from ottla.core.outcomes import Refused
from ottla.core.partition import Partition
from ottla.errors import ErrorCode

UP_TO_HIGH_WATERMARK = -1


class AgedSegment(Protocol):
    @property
    def end_offset(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def max_timestamp_ms(self) -> int: ...


def is_expired(segment: AgedSegment, now_ms: int, retention_ms: int) -> bool:
    """Whether all of a segment is older than the limit; a segment with the time -1 has no age."""
    return 0 <= retention_ms < now_ms - segment.max_timestamp_ms and segment.max_timestamp_ms >= 0


def last_is_due(last: AgedSegment, now_ms: int, retention_ms: int, retention_bytes: int) -> bool:
    """Whether the last segment is to be rolled and deleted: all of it is old, or nothing is to be kept."""
    return retention_bytes == 0 or is_expired(last, now_ms, retention_ms)


def retained_from(
    segments: Sequence[AgedSegment],
    start_offset: int,
    now_ms: int,
    retention_ms: int,
    retention_bytes: int,
) -> int:
    """The offset that the log should start at; -1 switches a limit off.

    As in Kafka, segments are deleted from the front: the first one that stays protects all behind it. The last segment
    stays: the caller rolls it before, if `last_is_due`.
    """
    keep_from = start_offset
    surplus_bytes = sum(segment.size_bytes for segment in segments) - retention_bytes
    for segment in segments[:-1]:
        expired = is_expired(segment, now_ms, retention_ms)
        surplus = retention_bytes >= 0 and surplus_bytes >= segment.size_bytes
        if not expired and not surplus:
            if not segment.size_bytes:
                continue  # emptied by compaction: it has no age, and is deleted with the next one
            break
        surplus_bytes -= segment.size_bytes
        keep_from = max(keep_from, segment.end_offset)
    return keep_from


def may_be_due(
    size_bytes: int,
    first_segment_max_timestamp_ms: int,
    now_ms: int,
    retention_ms: int,
    retention_bytes: int,
) -> bool:
    """Whether `retained_from` may delete anything of a log of this size and age.

    The first segment protects all behind it, so it alone decides; without a timestamp the log has to be looked at.
    """
    if not size_bytes:
        return False
    if 0 <= retention_bytes < size_bytes:
        return True
    return retention_ms >= 0 and (
        first_segment_max_timestamp_ms < 0 or now_ms - first_segment_max_timestamp_ms > retention_ms
    )


class DeleteUpTo(NamedTuple):
    """Records below the offset are deleted."""

    offset: int


def decide_delete_records(
    partition: Partition, topic: str, cleanup_policy: Sequence[str], offset: int
) -> DeleteUpTo | Refused:
    """Decides about a DeleteRecords request; -1 is the high watermark."""
    if topic in INTERNAL_TOPICS:
        return Refused(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if "delete" not in cleanup_policy:
        return Refused(ErrorCode.POLICY_VIOLATION)
    high_watermark = partition.high_watermark
    if offset == UP_TO_HIGH_WATERMARK:
        return DeleteUpTo(high_watermark)
    if not 0 <= offset <= high_watermark:
        return Refused(ErrorCode.OFFSET_OUT_OF_RANGE)
    return DeleteUpTo(offset)
