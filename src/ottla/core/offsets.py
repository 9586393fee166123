"""Finding a record by its timestamp inside a batch."""

from __future__ import annotations

from typing import NamedTuple

from ottla.records import batch as batches

Buffer = bytes | bytearray | memoryview


class FoundOffset(NamedTuple):
    offset: int
    timestamp_ms: int
    leader_epoch: int


NOT_FOUND = FoundOffset(-1, -1, -1)


def first_at(batch: Buffer, timestamp_ms: int, start_offset: int) -> FoundOffset:
    """The first record not below `start_offset` that is at least as late as the timestamp."""
    epoch = batches.read_header(batch, 0).partition_leader_epoch
    for record in batches.read_batch(batch, 0):
        if record.timestamp >= timestamp_ms and record.offset >= start_offset:
            return FoundOffset(record.offset, record.timestamp, epoch)
    return NOT_FOUND


def first_of_max_timestamp(batch: Buffer) -> FoundOffset:
    """The first record with the batch's largest timestamp (KIP-734)."""
    header = batches.read_header(batch, 0)
    return first_at(batch, header.max_timestamp, 0)
