"""The last batches of a partition, read backwards: a log can only be read forwards, from an offset on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from ottla.client.aio.consumer.log_batches import LogBatch, LogBatches
from ottla.records.control import MarkerType

MAX_READ_BYTES: Final = 1 << 20
MAX_BYTES: Final = 8 << 20
MAX_READS: Final = 60

Read = Callable[[int, int], Awaitable[LogBatches]]
"""Reads batches from an offset on, up to a number of bytes."""


class BatchOutcome(StrEnum):
    """What became of the transaction of a batch."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"


@dataclass(frozen=True)
class BatchRow:
    """A batch; sequences are None if the producer is not idempotent."""

    base_offset: int
    last_offset: int
    record_count: int
    """How many records it was written with; compaction may have removed some."""
    size_bytes: int
    codec: str
    max_timestamp_ms: int
    leader_epoch: int
    producer_id: int | None
    producer_epoch: int | None
    base_sequence: int | None
    last_sequence: int | None
    is_transactional: bool
    is_control: bool
    outcome: BatchOutcome | None
    """Of a marker: what it says; of other batches of a transaction: how that ended."""


class LastBatches(NamedTuple):
    """The batches in the order of the log, without a gap up to its end."""

    batches: list[LogBatch]
    start_offset: int
    end_offset: int
    last_stable_offset: int
    is_limited: bool
    """Whether there are fewer than asked for because they are large."""


async def read_last_batches(read: Read, end_offset: int, count: int) -> LastBatches:
    """The last `count` batches, or fewer if they are large."""
    newest = await read(max(end_offset - 1, 0), 1)
    found = newest.batches[-1:]
    if not found:
        return LastBatches([], *newest[1:], is_limited=False)
    left_bytes, left_reads = MAX_BYTES, MAX_READS
    stride = _first_stride(found[0], count)
    at = found[0].header.base_offset
    while len(found) < count and at > newest.start_offset and left_bytes > 0 and left_reads > 0:
        begin = max(newest.start_offset, at - stride)
        part, read_bytes, reads = await _read_between(read, begin, at)
        left_bytes -= read_bytes
        left_reads -= reads
        if part is None:
            # The batches there are larger than the last one.
            stride = max(1, stride // 8)
            continue
        found = [*part, *found]
        at = part[0].header.base_offset if part else begin
        stride *= 2 if not part else 1
    return LastBatches(
        found[-count:],
        *newest[1:],
        is_limited=len(found) < count and at > newest.start_offset,
    )


def _first_stride(newest: LogBatch, count: int) -> int:
    """How many offsets to go back, if all batches are like the newest."""
    header = newest.header
    affordable = max(1, MAX_READ_BYTES // header.size_bytes)
    return max(1, (header.last_offset_delta + 1) * min(count, affordable))


async def _read_between(read: Read, begin: int, end: int) -> tuple[list[LogBatch] | None, int, int]:
    """All batches that begin before `end`, from the one with `begin` on; None if they are too large."""
    found: list[LogBatch] = []
    position, read_bytes, reads = begin, 0, 0
    while position < end:
        if read_bytes > 2 * MAX_READ_BYTES:
            return None, read_bytes, reads
        part = (await read(position, MAX_READ_BYTES)).batches
        reads += 1
        if not part:
            break
        read_bytes += sum(each.header.size_bytes for each in part)
        found += [each for each in part if each.header.base_offset < end]
        position = part[-1].header.last_offset + 1
    return found, read_bytes, reads


def batch_rows(batches: Sequence[LogBatch]) -> list[BatchRow]:
    """The rows of batches that go up to the end of the log, the newest first."""
    ends: dict[int, BatchOutcome] = {}
    rows = []
    for each in reversed(batches):
        rows.append(_row(each, ends))
        if each.marker is not None:
            ends[each.header.producer_id] = _outcome_of(each.marker)
    return rows


def _row(batch: LogBatch, ends: dict[int, BatchOutcome]) -> BatchRow:
    header = batch.header
    outcome = None
    if batch.marker is not None:
        outcome = _outcome_of(batch.marker)
    elif header.is_transactional and not header.is_control:
        # The next marker of the producer ends it; without one up to the end of the log it is open.
        outcome = ends.get(header.producer_id, BatchOutcome.OPEN)
    has_producer = header.producer_id >= 0
    has_sequence = header.base_sequence >= 0
    return BatchRow(
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        record_count=header.record_count,
        size_bytes=header.size_bytes,
        codec=header.codec.name.lower(),
        max_timestamp_ms=header.max_timestamp,
        leader_epoch=header.partition_leader_epoch,
        producer_id=header.producer_id if has_producer else None,
        producer_epoch=header.producer_epoch if has_producer else None,
        base_sequence=header.base_sequence if has_sequence else None,
        last_sequence=header.last_sequence if has_sequence else None,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        outcome=outcome,
    )


def _outcome_of(marker: MarkerType) -> BatchOutcome:
    return BatchOutcome.COMMITTED if marker is MarkerType.COMMIT else BatchOutcome.ABORTED
