"""Finding a record by its timestamp inside a batch."""

from __future__ import annotations

from typing import NamedTuple

from ottla.records import batch as batches
from ottla.records.errors import CorruptRecordsError, TooLargeError
from ottla.records.kernel import find_by_time

Buffer = bytes | bytearray | memoryview

# What is looked through without holding up others.
SEARCHED_AT_ONCE_BYTES = 1 << 20


class FoundOffset(NamedTuple):
    offset: int
    timestamp_ms: int
    leader_epoch: int


NOT_FOUND = FoundOffset(-1, -1, -1)


def first_at(
    batch: Buffer,
    timestamp_ms: int,
    start_offset: int,
    limit_bytes: int = batches.DEFAULT_LIMIT_BYTES,
) -> FoundOffset:
    """The first record not below `start_offset` that is at least as late as the timestamp."""
    header = batches.read_header(batch, 0)
    if not batches.crc_matches(batch, 0, header):
        raise CorruptRecordsError(f"the checksum of the batch at {header.base_offset} is wrong")
    is_append_time = header.timestamp_type is batches.TimestampType.LOG_APPEND_TIME
    found = find_by_time(
        batches.payload(batch, 0, header, limit_bytes),
        header.record_count,
        header.base_offset,
        header.base_timestamp,
        header.max_timestamp if is_append_time else None,
        timestamp_ms,
        start_offset,
    )
    return NOT_FOUND if found is None else FoundOffset(*found, header.partition_leader_epoch)


def first_at_once(batch: Buffer, timestamp_ms: int, start_offset: int) -> FoundOffset | None:
    """As `first_at`; None if that would take long, because there is much to decompress or to look through."""
    if len(batch) > SEARCHED_AT_ONCE_BYTES:
        return None
    try:
        return first_at(batch, timestamp_ms, start_offset, SEARCHED_AT_ONCE_BYTES)
    except TooLargeError:
        return None
