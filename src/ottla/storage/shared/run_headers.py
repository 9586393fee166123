"""The headers of a run of batches, as a row of the tail has them.

Each comes after its size (4 bytes, big-endian): the 61 bytes of a producers' batch, a control batch whole. So a replay,
the positions of batches and their times need none of the data.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

from ottla.ports import BatchEntry, Buffer, DamagedError, Extent
from ottla.records.batch import HEADER_BYTES, NO_PRODUCER_ID, crc_matches, read_header
from ottla.records.errors import CorruptRecordsError

_SIZE: Final = struct.Struct(">I")
_HEADER_SIZE: Final = _SIZE.pack(HEADER_BYTES)
# The low byte of the attributes, and its bit of control batches.
_ATTRIBUTES_AT: Final = 22
_CONTROL_BIT: Final = 0x20


def add_run_headers(headers: bytearray, data: Buffer, extents: Sequence[Extent]) -> None:
    """Adds the headers of batches that lie back to back in `data`."""
    position = 0
    for _, _, _, size_bytes in extents:
        if data[position + _ATTRIBUTES_AT] & _CONTROL_BIT:
            headers += _SIZE.pack(size_bytes)
            headers += data[position : position + size_bytes]
        else:
            headers += _HEADER_SIZE
            headers += data[position : position + HEADER_BYTES]
        position += size_bytes


def read_run_headers(headers: Buffer) -> Iterator[BatchEntry]:
    """The headers of a run. DamagedError if they are malformed, or a control batch has a wrong checksum."""
    view = memoryview(headers)
    position = 0
    try:
        while position < len(view):
            (size_bytes,) = _SIZE.unpack_from(view, position)
            position += _SIZE.size
            header = read_header(view, position)
            control: Buffer = b""
            if header.is_control:
                if header.producer_id != NO_PRODUCER_ID and not crc_matches(view, position, header):
                    raise CorruptRecordsError("the checksum is wrong")
                control = view[position : position + size_bytes]
            position += size_bytes
            yield BatchEntry(header, control, 1)
    except (CorruptRecordsError, struct.error) as error:
        raise DamagedError(f"the stored headers of a run are damaged: {error}") from error
