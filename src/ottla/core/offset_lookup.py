"""The offsets that ListOffsets returns: of named positions, and of records by their timestamp."""

from __future__ import annotations

from typing import NamedTuple

from ottla.core.leader_epochs import EpochHistory, epoch_at
from ottla.core.outcomes import TAKES_LONG, Refused, TakesLong
from ottla.core.partition import Partition
from ottla.errors import ErrorCode
from ottla.records import batch as batches
from ottla.records.errors import CorruptRecordsError, TooLargeError
from ottla.records.kernel import find_by_time

Buffer = bytes | bytearray | memoryview

# The largest batch that is searched on the event loop.
SEARCHED_AT_ONCE_BYTES = 1 << 20

# Negative timestamps are names of positions.
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

# The version of ListOffsets that introduced a position.
_FIRST_VERSIONS = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}


class FoundOffset(NamedTuple):
    """An offset, with -1 for a timestamp that was not looked up."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


NOT_FOUND = FoundOffset(-1, -1, -1)


class SearchTimestamp(NamedTuple):
    """The first record with at least this timestamp has to be found, between two offsets."""

    timestamp_ms: int
    start_offset: int
    end_offset: int


class SearchMaxTimestamp(NamedTuple):
    """The first record with the largest timestamp has to be found (KIP-734)."""

    end_offset: int


def check_position(timestamp: int, version: int) -> Refused | None:
    """Whether a request of this version may name the position."""
    if timestamp < 0 and version < _FIRST_VERSIONS.get(timestamp, version + 1):
        return Refused(ErrorCode.UNSUPPORTED_VERSION)
    return None


def needs_search(timestamp: int) -> bool:
    """Whether a record has to be found for it."""
    return timestamp == MAX_TIMESTAMP or timestamp not in _FIRST_VERSIONS


def decide_lookup(
    partition: Partition, log: EpochHistory, timestamp: int, isolation_level: int
) -> FoundOffset | SearchTimestamp | SearchMaxTimestamp:
    """The offset of a position, or the search that a timestamp asks for."""
    bounds = partition.bounds(isolation_level)
    if timestamp == LATEST:
        return FoundOffset(bounds.end_offset, -1, partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        epoch = epoch_at(log.epochs, bounds.start_offset)
        return FoundOffset(bounds.start_offset, -1, epoch if epoch >= 0 else partition.leader_epoch)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOT_FOUND  # there is no tiered storage
    if timestamp == MAX_TIMESTAMP:
        return SearchMaxTimestamp(bounds.end_offset)
    return SearchTimestamp(timestamp, bounds.start_offset, bounds.end_offset)


def below(found: FoundOffset, end_offset: int) -> FoundOffset:
    """A found offset, or NOT_FOUND if the reader may not see the record yet."""
    return found if found.offset < end_offset else NOT_FOUND


def first_at(
    batch: Buffer,
    timestamp_ms: int,
    start_offset: int,
    limit_bytes: int = batches.DEFAULT_LIMIT_BYTES,
) -> FoundOffset:
    """The first record of a batch from `start_offset` on that has at least the timestamp."""
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


def first_at_once(batch: Buffer, timestamp_ms: int, start_offset: int) -> FoundOffset | TakesLong:
    """As `first_at`; TakesLong if more than SEARCHED_AT_ONCE_BYTES would be decompressed or searched."""
    if len(batch) > SEARCHED_AT_ONCE_BYTES:
        return TAKES_LONG
    try:
        return first_at(batch, timestamp_ms, start_offset, SEARCHED_AT_ONCE_BYTES)
    except TooLargeError:
        return TAKES_LONG
