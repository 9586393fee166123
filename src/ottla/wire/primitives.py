"""Functions that compiled codecs call: varints, lengths, UUIDs."""

from __future__ import annotations

import uuid
from functools import lru_cache

from ottla.wire.types import MalformedMessageError

# No message has a tenth of it; each field, however small, takes time to skip.
MAX_TAGGED_FIELDS = 1024


def write_uvarint(value: int) -> bytes:
    """An unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(buffer: memoryview, position: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits, and the position after it."""
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise MalformedMessageError("a varint of more than 32 bits")
    if value > 0xFFFFFFFF:
        raise MalformedMessageError("a varint of more than 32 bits")
    return value, position


def check_length(length: int, room: int) -> None:
    """Refuse a length that is negative or larger than the rest of the frame."""
    if length < 0 or length > room:
        raise MalformedMessageError(f"a length of {length} where {room} bytes are left")


def reject_null(name: str) -> None:
    """Refuse a null in a version without one."""
    raise MalformedMessageError(f"{name} is null")


class TooManyElementsError(MalformedMessageError):
    """The lists of a message have more elements than the reader accepts."""


def reject_count() -> None:
    """Refuse a message whose lists have too many elements."""
    raise TooManyElementsError


def check_tagged(count: int) -> None:
    """Refuse a number of tagged fields that no message has."""
    if count > MAX_TAGGED_FIELDS:
        raise MalformedMessageError(f"{count} tagged fields in one place")


def skip_tagged(buffer: memoryview, position: int, count: int) -> int:
    """The position after `count` unknown tagged fields."""
    check_tagged(count)
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        check_length(size, len(buffer) - position)
        position += size
    return position


@lru_cache(maxsize=8192)
def uuid_of(data: bytes) -> uuid.UUID:
    """The UUID of sixteen bytes; cached, since topic ids recur and creating one is slow."""
    return uuid.UUID(bytes=data)


@lru_cache(maxsize=8192)
def uuid_bytes(value: uuid.UUID) -> bytes:
    return value.bytes


def length_prefix(length: int) -> bytes:
    """A compact length: one more than the length, so that 0 is null."""
    return _PREFIXES[length] if length < 127 else write_uvarint(length + 1)


_PREFIXES = [bytes([length + 1]) for length in range(127)]
