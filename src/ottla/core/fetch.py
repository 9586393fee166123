"""The rules of a Fetch: bounds, leader epochs, sizes, aborted transactions, and when it has to wait."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.core.aborted import AbortedSpan, overlapping
from ottla.core.fetch_session import FetchTarget
from ottla.core.leader_epochs import UNDEFINED, EpochEnd, EpochHistory, end_of_epoch
from ottla.core.outcomes import Refused
from ottla.core.partition import READ_COMMITTED, Bounds, Partition
from ottla.errors import ErrorCode
from ottla.records.batch import split_batches
from ottla.records.errors import CorruptRecordsError

Buffer = bytes | bytearray | memoryview

FIRST_VERSION_WITH_ZSTD = 10


class FetchLimits(NamedTuple):
    """The most bytes that a fetch returns, and for how many it waits how long."""

    max_bytes: int
    min_bytes: int
    max_wait_ms: int
    isolation_level: int

    @property
    def is_committed(self) -> bool:
        """Whether the reader sees only committed records."""
        return self.isolation_level == READ_COMMITTED


def fetch_limits(
    max_bytes: int, min_bytes: int, max_wait_ms: int, isolation_level: int, broker_max_bytes: int
) -> FetchLimits:
    """The limits of a request, and of the broker's `fetch.max.bytes`; it never waits for more than it may return."""
    most = min(max_bytes, broker_max_bytes)
    return FetchLimits(most, min(min_bytes, most), max_wait_ms, isolation_level)


def must_wait(limits: FetchLimits, size_bytes: int, is_pending: bool = False) -> bool:
    """Whether a fetch that has read this much, and met no error, waits for more.

    It waits for records that the engine has to fetch as long as it has no others, whatever `min_bytes` is.
    """
    least_bytes = 1 if is_pending and limits.min_bytes < 1 else limits.min_bytes
    return size_bytes < least_bytes and limits.max_wait_ms > 0


class Read(NamedTuple):
    """Records may be read, from the fetch offset up to the end of the bounds."""

    bounds: Bounds
    max_bytes: int
    is_first: bool

    def accepts(self, size_bytes: int) -> bool:
        """Whether records of this size are returned.

        A batch is returned whole, even if it is larger than the limits. Only the first partition may exceed them,
        so that a consumer makes progress whatever its limits are (KIP-74).
        """
        return self.is_first or size_bytes <= self.max_bytes


class NothingToRead(NamedTuple):
    """There are no records behind the fetch offset that the reader may see, or there is no room for them."""

    bounds: Bounds


class Diverged(NamedTuple):
    """The reader has records that this log does not have; `end` is where both are still the same (KIP-320)."""

    bounds: Bounds
    end: EpochEnd


def decide_read(
    partition: Partition,
    log: EpochHistory,
    target: FetchTarget,
    isolation_level: int,
    room_bytes: int,
    is_first: bool,
) -> Read | NothingToRead | Diverged | Refused:
    """Decides about one partition; `is_first` if no partition before it has returned records."""
    refused = partition.check_leader_epoch(target.leader_epoch)
    if refused is not None:
        return refused
    bounds = partition.bounds(isolation_level)
    offset = target.fetch_offset
    if not bounds.start_offset <= offset <= partition.end_offset:
        return Refused(ErrorCode.OFFSET_OUT_OF_RANGE)
    last_epoch = target.last_fetched_epoch
    if last_epoch >= 0:
        end = end_of_epoch(log.epochs, partition.leader_epoch, last_epoch, partition.end_offset)
        if end is UNDEFINED:
            return Refused(ErrorCode.OFFSET_OUT_OF_RANGE)
        if end.epoch < last_epoch or end.end_offset < offset:
            return Diverged(bounds, end)
    max_bytes = min(target.max_bytes, room_bytes)
    if offset >= bounds.end_offset or (max_bytes <= 0 and not is_first):
        return NothingToRead(bounds)
    return Read(bounds, max_bytes, is_first)


def aborted_in(
    spans: Iterable[AbortedSpan], records: Buffer, offset: int, end_offset: int
) -> Sequence[AbortedSpan]:
    """The aborted transactions that a reader of these records, which were read between two offsets, has to know."""
    return overlapping(spans, offset, _end_of(records, end_offset))


def _end_of(records: Buffer, end_offset: int) -> int:
    """The offset behind the last record.

    If the records are damaged, the reader will find out. Until then it knows too many transactions, which does no harm.
    """
    try:
        return split_batches(records)[-1][1].last_offset + 1
    except CorruptRecordsError:
        return end_offset


def check_codec(version: int, compression_type: str) -> Refused | None:
    """Readers of old versions do not know zstd (KIP-110)."""
    if version < FIRST_VERSION_WITH_ZSTD and compression_type == "zstd":
        return Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    return None
