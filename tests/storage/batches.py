"""Record batches made by hand, so that engines are not tested with the code they use."""

from __future__ import annotations

import asyncio
import struct
import uuid
from collections.abc import Sequence
from typing import NamedTuple

import google_crc32c

from ottla.ports import Buffer, Extent, PartitionLog, PartitionRef

HEADER_BYTES = 61


class Batch(NamedTuple):
    data: bytes
    extent: Extent


class SteppingClock:
    """A clock that stands still until it is moved; `skew_ms` is how far the wall clock was set."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.value_ms = now_ms
        self.skew_ms = 0

    def now_ms(self) -> int:
        return self.value_ms + self.skew_ms

    def monotonic_seconds(self) -> float:
        return self.value_ms / 1000


def make_batch(
    base_offset: int,
    records: int = 1,
    *,
    timestamp_ms: int = 1000,
    body: bytes = b"x" * 39,
    epoch: int = 0,
) -> Batch:
    """A batch of magic 2 whose header is right and whose body is whatever is given."""
    checked = (
        struct.pack(">hiqqqhii", 0, records - 1, timestamp_ms, timestamp_ms, -1, -1, -1, records)
        + body
    )
    crc = google_crc32c.value(checked)
    rest = struct.pack(">ibI", epoch, 2, crc) + checked
    data = struct.pack(">qi", base_offset, len(rest)) + rest
    assert len(data) == HEADER_BYTES + len(body)
    return Batch(data, Extent(base_offset, base_offset + records - 1, timestamp_ms, len(data)))


def offsets_of(data: Buffer) -> list[int]:
    """The base offsets of the batches that lie back to back in `data`; they must fill it exactly."""
    found = []
    position = 0
    while position < len(data):
        base_offset, length = struct.unpack_from(">qi", data, position)
        found.append(base_offset)
        position += length + 12
    assert position == len(data)
    return found


def append(log: PartitionLog, *batches: Batch) -> asyncio.Future[None] | None:
    """Appends batches in one call."""
    data = b"".join(batch.data for batch in batches)
    return log.append(data, [batch.extent for batch in batches], log.end_offset)


def begins_segment(log: PartitionLog, batch: Batch) -> bool:
    """Appends a batch; says whether that began a new segment."""
    before = len(log.segments())
    append(log, batch)
    return len(log.segments()) > before


def fill(
    log: PartitionLog, count: int, *, records: int = 1, step_ms: int = 10, body_bytes: int = 39
) -> list[Batch]:
    """Appends batches one by one, with rising timestamps."""
    made = []
    for _ in range(count):
        batch = make_batch(
            log.end_offset,
            records,
            timestamp_ms=1000 + log.end_offset * step_ms,
            body=b"x" * body_bytes,
            epoch=log.epoch,
        )
        append(log, batch)
        made.append(batch)
    return made


def read_all(log: PartitionLog, offset: int = 0, max_bytes: int = 1 << 20) -> bytes:
    """Everything from an offset on, in as many reads as it takes."""
    pieces = []
    while data := log.read(offset, max_bytes, log.end_offset):
        pieces.append(bytes(data))
        last = offsets_of(data)[-1]
        position = next(at for at, found in positions(data) if found == last)
        offset = last + struct.unpack_from(">i", data, position + 23)[0] + 1
    return b"".join(pieces)


def positions(data: Buffer) -> list[tuple[int, int]]:
    """Position and base offset of each batch."""
    found = []
    position = 0
    while position < len(data):
        base_offset, length = struct.unpack_from(">qi", data, position)
        found.append((position, base_offset))
        position += length + 12
    return found


def joined(batches: Sequence[Batch]) -> bytes:
    return b"".join(batch.data for batch in batches)


def ref_of(topic: str = "orders", partition: int = 0, number: int = 1) -> PartitionRef:
    """A partition; `number` tells topics of one name apart."""
    return PartitionRef(topic, partition, uuid.UUID(int=number))
