"""The kernel of committed offsets in Python: the same results and errors as _offset_kernel.pyx."""

from __future__ import annotations

import struct
from itertools import count, repeat
from typing import Any, Final, cast

from ottla.records.kernel import encode_records
from ottla.records.record import Record

MAX_TEXT_BYTES: Final = 32767
TOPIC_ID_BYTES: Final = 16
VERSION: Final = 3
VERSION_WITH_ID: Final = 4

_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
# Version, offset, leader epoch, and the length of the metadata.
_START = struct.Struct(">hqih")
# The same with a length of its own behind it.
_START_WITH_ID = struct.Struct(">hqi")
_ID_TAG: Final = bytes((1, 0, TOPIC_ID_BYTES))


# As Entry._make, without its checks: a request may commit thousands of offsets.
_new = cast(Any, tuple.__new__)


def put_offsets(
    table: dict[tuple[str, int], Any],
    entry: type[tuple[Any, ...]],
    group_id: str,
    topic: str,
    partitions: list[int],
    offsets: list[int],
    leader_epochs: list[int],
    metadata: list[str],
    committed_at_ms: int,
    expires_at_ms: int,
    topic_id: object,
    position: int,
) -> None:
    """Puts an entry for each offset into a table, by topic and partition; they have the positions behind `position`."""
    if not issubclass(entry, tuple):
        raise TypeError("an entry has to be a tuple")
    if not len(partitions) == len(offsets) == len(leader_epochs) == len(metadata):
        raise ValueError("columns of different lengths")
    rows = zip(
        repeat(group_id),
        repeat(topic),
        partitions,
        offsets,
        leader_epochs,
        metadata,
        repeat(committed_at_ms),
        repeat(expires_at_ms),
        repeat(topic_id),
        count(position + 1),
        strict=False,  # some of them have no end
    )
    keys = zip(repeat(topic), partitions, strict=False)
    table.update(zip(keys, map(_new, repeat(entry), rows), strict=True))


def encode_offsets(
    key_start: bytes,
    partitions: list[int],
    offsets: list[int],
    leader_epochs: list[int],
    metadata: list[str],
    committed_at_ms: int,
    topic_id: bytes | None,
    first: int,
    end: int,
    first_delta: int,
) -> bytes:
    """The records of the offsets from `first` to `end`, of which the first has this offset delta in its batch."""
    row_count = len(partitions)
    if not 0 <= first <= end <= row_count:
        raise ValueError(f"rows {first} to {end} of {row_count}")
    if not row_count == len(offsets) == len(leader_epochs) == len(metadata):
        raise ValueError("columns of different lengths")
    if topic_id is not None and len(topic_id) != TOPIC_ID_BYTES:
        raise ValueError(f"a topic id of {len(topic_id)} bytes")
    tail = _INT64.pack(committed_at_ms)
    if topic_id is not None:
        tail += _ID_TAG + topic_id
    records = []
    for index in range(first, end):
        text = metadata[index].encode()
        if topic_id is None:
            if len(text) > MAX_TEXT_BYTES:
                raise struct.error(f"a text of {len(text)} bytes")
            start = _START.pack(VERSION, offsets[index], leader_epochs[index], len(text))
        else:
            start = _START_WITH_ID.pack(VERSION_WITH_ID, offsets[index], leader_epochs[index])
            start += _compact_length(len(text))
        key = key_start + _INT32.pack(partitions[index])
        records.append(Record(first_delta + index - first, 0, key, start + text + tail))
    return encode_records(records, 0, 0)


def _compact_length(length: int) -> bytes:
    """One more than the length, as a varint of a flexible format."""
    out = bytearray()
    rest = length + 1
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
