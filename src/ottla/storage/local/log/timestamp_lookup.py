"""Finding batches by their timestamps among the segments of a log."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.ports import Buffer
from ottla.storage.local.log.index import TimePoint
from ottla.storage.local.log.segment import Segment


def first_at(segments: Sequence[Segment], timestamp_ms: int, offset: int) -> Buffer | None:
    """The first batch at or after an offset whose largest timestamp is at least this."""
    for segment in segments:
        if segment.size_bytes and segment.largest_time().timestamp_ms >= timestamp_ms:
            found = segment.first_at_timestamp(timestamp_ms, offset)
            if found is not None:
                return found
    return None


def latest(segments: Sequence[Segment], start_offset: int) -> Buffer | None:
    """The first batch with the largest timestamp among those not below an offset."""
    best: tuple[Segment, TimePoint] | None = None
    for segment in segments:
        if not segment.size_bytes or segment.end_offset <= start_offset:
            continue
        found: TimePoint | None = segment.largest_time()
        if found is None or found.timestamp_ms < 0 or found.offset < start_offset:
            found = segment.largest_time_from(start_offset)
        if found is not None and (best is None or found.timestamp_ms > best[1].timestamp_ms):
            best = segment, found
    return None if best is None else best[0].batch(best[1].offset)
