"""Marks of a stored segment: where its batches are, so that a lookup need not read all of it.

There is a mark at the first batch and then about every 64 KiB: offset and position of a batch, and the largest
timestamp from there to the next mark. Numbers are big-endian, 8 bytes each.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.ports import DamagedError, Extent

INTERVAL_BYTES: Final = 64 * 1024
_MARK: Final = struct.Struct(">qqq")


class Mark(NamedTuple):
    base_offset: int
    position: int
    max_timestamp_ms: int


def encode_marks(extents: Iterable[Extent]) -> bytes:
    """The marks of batches that lie back to back."""
    marks: list[Mark] = []
    position = 0
    for base_offset, _, timestamp_ms, size_bytes in extents:
        if not marks or position - marks[-1].position >= INTERVAL_BYTES:
            marks.append(Mark(base_offset, position, timestamp_ms))
        elif timestamp_ms > marks[-1].max_timestamp_ms:
            marks[-1] = marks[-1]._replace(max_timestamp_ms=timestamp_ms)
        position += size_bytes
    return b"".join(_MARK.pack(*mark) for mark in marks)


def decode_marks(data: bytes) -> list[Mark]:
    try:
        return [Mark(*each) for each in _MARK.iter_unpack(data)]
    except struct.error as error:
        raise DamagedError(f"the marks of a segment are damaged: {error}") from error
