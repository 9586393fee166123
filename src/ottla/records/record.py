"""A record, and the result of a scan over records."""

from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
Header: TypeAlias = tuple[str, bytes | None]

INT32_MAX: Final = 2**31 - 1
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1

# A byte each: length, attributes, timestamp and offset delta, key and value length, header count.
MIN_RECORD_BYTES: Final = 7
# The lengths of a header's key and value.
MIN_HEADER_BYTES: Final = 2


class TimestampType(IntEnum):
    """Whether timestamps are the producer's (CreateTime) or the broker's (LogAppendTime)."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class Record(NamedTuple):
    """One record with its absolute offset; timestamps are milliseconds since the epoch."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class Scan(NamedTuple):
    """The result of walking the records of a batch; zeros, and consecutive, for no records."""

    min_timestamp_delta: int
    max_timestamp_delta: int
    # Of the first record with the largest timestamp, for ListOffsets(MAX_TIMESTAMP).
    offset_delta_of_max_timestamp: int
    null_key_count: int
    # Whether offset deltas are 0, 1, 2 …: producers must send them so, compacted logs have gaps.
    offsets_consecutive: bool
