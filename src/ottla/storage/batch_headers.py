"""The headers that a replay needs, taken from stored batches."""

from __future__ import annotations

from typing import Final

from ottla.ports import BatchEntry, Buffer, DamagedError
from ottla.ports.log import CHECKED_BYTES_PER_BATCH
from ottla.records.batch import NO_PRODUCER_ID, crc_matches, read_header
from ottla.records.errors import CorruptRecordsError

# The bytes that an engine reads at once for them.
HEADERS_READ_BYTES: Final = 512 * 1024


def take_headers(batches: Buffer, offset: int, max_cost: int) -> list[BatchEntry]:
    """As Log.headers, of batches that were read from `offset` on."""
    view = memoryview(batches)
    found: list[BatchEntry] = []
    position = 0
    try:
        while position < len(view) and max_cost > 0:
            header = read_header(view, position)
            size_bytes = header.size_bytes
            control: Buffer = b""
            cost = 1
            if header.producer_id != NO_PRODUCER_ID:
                # It changes the state of a producer, and no client checks it.
                if not crc_matches(view, position, header):
                    raise CorruptRecordsError("the checksum is wrong")
                cost += size_bytes // CHECKED_BYTES_PER_BATCH
            if header.is_control:
                control = view[position : position + size_bytes]
            found.append(BatchEntry(header, control, cost))
            max_cost -= cost
            position += size_bytes
    except CorruptRecordsError as error:
        raise DamagedError(f"a batch behind offset {offset} is damaged: {error}") from error
    return found
