"""Which segments of a log are old or surplus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class AgedSegment(Protocol):
    @property
    def end_offset(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def max_timestamp_ms(self) -> int: ...


def is_expired(segment: AgedSegment, now_ms: int, retention_ms: int) -> bool:
    """Whether all of a segment is older than the limit; -1 for its time would be no age at all."""
    return 0 <= retention_ms < now_ms - segment.max_timestamp_ms and segment.max_timestamp_ms >= 0


def even_last_goes(last: AgedSegment, now_ms: int, retention_ms: int, retention_bytes: int) -> bool:
    """Whether the last segment is to be rolled so that it can go: all of it is old, or nothing is to be kept."""
    return retention_bytes == 0 or is_expired(last, now_ms, retention_ms)


def retained_from(
    segments: Sequence[AgedSegment],
    start_offset: int,
    now_ms: int,
    retention_ms: int,
    retention_bytes: int,
) -> int:
    """The offset that the log should start at; -1 switches a limit off.

    Segments go from the front, as in Kafka: the first one that must stay protects all behind it. The last segment
    stays: the caller rolls it first if `even_last_goes` says so.
    """
    keep_from = start_offset
    surplus_bytes = sum(segment.size_bytes for segment in segments) - retention_bytes
    for segment in segments[:-1]:
        expired = is_expired(segment, now_ms, retention_ms)
        surplus = retention_bytes >= 0 and surplus_bytes >= segment.size_bytes
        if not expired and not surplus:
            if not segment.size_bytes:
                continue  # emptied by compaction: it has no age, and goes with the next one that goes
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
    """Whether a log of this size and age can have anything that `retained_from` drops.

    The first segment protects all behind it, so that it alone decides; without a timestamp it has to be looked at.
    """
    if not size_bytes:
        return False
    if 0 <= retention_bytes < size_bytes:
        return True
    return retention_ms >= 0 and (
        first_segment_max_timestamp_ms < 0 or now_ms - first_segment_max_timestamp_ms > retention_ms
    )
