"""Messages of magic 0 and 1, from before Kafka 0.11, which old logs hold and brokers before 4.0 send unchanged.

They are only read, and converted to batches of magic 2.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple
from zlib import crc32

from ottla.records.batch import (
    DEFAULT_LIMIT_BYTES,
    MAGIC,
    MAGIC_AT,
    NO_TIMESTAMP,
    OVERHEAD_BYTES,
    TimestampType,
    build_batch,
    read_header,
)
from ottla.records.compression import Codec, decompress
from ottla.records.errors import CorruptRecordsError
from ottla.records.record import Buffer, Record

_ENTRY: Final = struct.Struct(">qi")  # offset, and how many bytes follow
_HEAD: Final = struct.Struct(">IbB")  # checksum, magic, attributes
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_CODEC_MASK: Final = 0x07
_APPEND_TIME_BIT: Final = 0x08
_CODECS: Final = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"


class Message(NamedTuple):
    """A message in a log; the value of a compressed one contains more messages."""

    offset: int
    magic: int
    codec: Codec
    timestamp_type: TimestampType
    timestamp: int
    key: bytes | None
    value: bytes | None


def upgrade_legacy(buf: Buffer) -> bytes:
    """The records in batches of magic 2; an incomplete message at the end is left out.

    A corrupt message ends the conversion; if it is the first one, CorruptRecordsError is raised.
    """
    batches: list[bytes] = []
    view = memoryview(buf)
    position, end = 0, len(view)
    try:
        while end - position > MAGIC_AT:
            size_bytes = OVERHEAD_BYTES + _INT32.unpack_from(view, position + 8)[0]
            if size_bytes > end - position:
                break
            if size_bytes <= MAGIC_AT:
                raise CorruptRecordsError(f"a message cannot have {size_bytes} bytes")
            entry = view[position : position + size_bytes]
            if entry[MAGIC_AT] < MAGIC:
                batches.append(_upgraded(read_message(entry)))
            else:
                batches.append(bytes(entry[: read_header(entry, 0).size_bytes]))
            position += size_bytes
    except CorruptRecordsError:
        if not batches:
            raise
    return b"".join(batches)


def read_message(entry: Buffer) -> Message:
    """The message that fills the buffer."""
    if len(entry) < _ENTRY.size + _HEAD.size:
        raise CorruptRecordsError(f"a message cannot have {len(entry)} bytes")
    offset, _ = _ENTRY.unpack_from(entry)
    crc, magic, attributes = _HEAD.unpack_from(entry, _ENTRY.size)
    if crc32(memoryview(entry)[MAGIC_AT:]) != crc:
        raise CorruptRecordsError(f"the checksum of the message at offset {offset} is wrong")
    number = attributes & _CODEC_MASK
    if magic not in (0, 1) or number >= len(_CODECS):
        raise CorruptRecordsError(f"no message has magic {magic} and codec {number}")
    position = _ENTRY.size + _HEAD.size
    timestamp, timestamp_type = NO_TIMESTAMP, TimestampType.CREATE_TIME
    try:
        if magic == 1:
            (timestamp,) = _INT64.unpack_from(entry, position)
            position += _INT64.size
            if attributes & _APPEND_TIME_BIT:
                timestamp_type = TimestampType.LOG_APPEND_TIME
        key, position = _read_bytes(entry, position)
        value, position = _read_bytes(entry, position)
    except struct.error as error:
        raise CorruptRecordsError(f"the message at offset {offset} is cut off") from error
    return Message(offset, magic, _CODECS[number], timestamp_type, timestamp, key, value)


def _read_bytes(entry: Buffer, position: int) -> tuple[bytes | None, int]:
    (size_bytes,) = _INT32.unpack_from(entry, position)
    start = position + _INT32.size
    if size_bytes == -1:
        return None, start
    if not 0 <= size_bytes <= len(entry) - start:
        raise CorruptRecordsError(f"a message has a field of {size_bytes} bytes")
    return bytes(entry[start : start + size_bytes]), start + size_bytes


def _upgraded(message: Message) -> bytes:
    records = [_record(message)] if message.codec is Codec.NONE else _unwrapped(message)
    try:
        return build_batch(
            records,
            base_offset=records[0].offset,
            # Compaction keeps the offset of a compressed message even if it removes the last message inside.
            last_offset=max(message.offset, records[-1].offset),
            timestamp_type=message.timestamp_type,
            append_time_ms=message.timestamp,
        )
    except ValueError as error:
        raise CorruptRecordsError(f"the message at offset {message.offset}: {error}") from error


def _record(message: Message) -> Record:
    return Record(message.offset, message.timestamp, message.key, message.value)


def _unwrapped(wrapper: Message) -> list[Record]:
    """The records of a compressed message."""
    if wrapper.value is None:
        raise CorruptRecordsError(f"the compressed message at {wrapper.offset} has no value")
    data = wrapper.value
    if wrapper.codec is Codec.LZ4 and wrapper.magic == 0:
        data = _with_checksum(data)
    inner = list(_messages(memoryview(decompress(wrapper.codec, data, DEFAULT_LIMIT_BYTES))))
    if not inner:
        raise CorruptRecordsError(f"the compressed message at {wrapper.offset} is empty")
    # In magic 1 the inner offsets start at 0, and the outer one is that of the last message (KIP-31).
    shift = wrapper.offset - inner[-1].offset if wrapper.magic == 1 else 0
    records = [Record(one.offset + shift, one.timestamp, one.key, one.value) for one in inner]
    offsets = [record.offset for record in records]
    if offsets[0] < 0 or any(one >= two for one, two in pairwise(offsets)):
        raise CorruptRecordsError(f"the offsets in the message at {wrapper.offset} do not increase")
    return records


def _messages(view: memoryview) -> Iterator[Message]:
    position, end = 0, len(view)
    while position < end:
        if end - position < _ENTRY.size:
            raise CorruptRecordsError("a compressed message is cut off")
        size_bytes = OVERHEAD_BYTES + _INT32.unpack_from(view, position + 8)[0]
        if not _ENTRY.size < size_bytes <= end - position:
            raise CorruptRecordsError("a compressed message is cut off")
        message = read_message(view[position : position + size_bytes])
        if message.codec is not Codec.NONE:
            raise CorruptRecordsError("a compressed message holds another")
        yield message
        position += size_bytes


# Frames of magic 0 have a wrong checksum of their header (KAFKA-3160), which decompressors refuse.


def _with_checksum(frame: bytes) -> bytes:
    """The LZ4 frame with the right checksum in its header."""
    if len(frame) < 7 or not frame.startswith(_LZ4_MAGIC):
        return frame
    end = 6 + (8 if frame[4] & 0x08 else 0)
    checksum = _short_xxh32(frame[4:end]) >> 8 & 0xFF
    return b"".join((frame[:end], bytes([checksum]), frame[end + 1 :]))


def _short_xxh32(data: bytes) -> int:
    """XXH32 with seed 0 of less than 16 bytes."""
    mask, prime1, prime2 = 0xFFFFFFFF, 2654435761, 2246822519
    prime3, prime4, prime5 = 3266489917, 668265263, 374761393
    value = prime5 + len(data)
    words = len(data) // 4 * 4
    for (word,) in struct.iter_unpack("<I", data[:words]):
        value = (value + word * prime3) & mask
        value = _rotated(value, 17) * prime4 & mask
    for byte in data[words:]:
        value = (value + byte * prime5) & mask
        value = _rotated(value, 11) * prime1 & mask
    value = (value ^ value >> 15) * prime2 & mask
    value = (value ^ value >> 13) * prime3 & mask
    return value ^ value >> 16


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & 0xFFFFFFFF
