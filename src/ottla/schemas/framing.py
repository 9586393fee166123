"""Confluent's wire format: how a record says which schema it was written with.

A zero byte and the schema's id in four bytes come before the payload; Protobuf has the path of the message's type
behind them. Newer clients write the schema's GUID into a header instead, and nothing before the payload; that is read
here, not written.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, TypeAlias
from uuid import UUID

from ottla.client.model import Headers
from ottla.errors import DeserializationError

MAGIC_ID = 0
MAGIC_GUID = 1
KEY_HEADER = "__key_schema_id"
VALUE_HEADER = "__value_schema_id"

_PREFIX = struct.Struct(">bI")
_GUID_BYTES = 16
_MAX_INDEXES = 100
_MAX_VARINT_BYTES = 5

SchemaKey: TypeAlias = int | UUID
"""How a record names its schema: by id or by GUID."""

Data: TypeAlias = bytes | memoryview


class Framed(NamedTuple):
    """A record's schema, and where the payload begins in `data`."""

    schema: SchemaKey
    data: Data
    payload_at: int


def prefix(schema_id: int) -> bytes:
    """The bytes before a payload."""
    return _PREFIX.pack(MAGIC_ID, schema_id)


def read_frame(data: Data, headers: Headers, is_key: bool) -> Framed:
    """Which schema a record was written with; DeserializationError if it does not say so."""
    if headers:
        name = KEY_HEADER if is_key else VALUE_HEADER
        for header, value in headers:
            if header == name and value is not None:
                schema, end = _read_schema(value, f"the header {name}")
                # Protobuf's indexes are in the header, behind the GUID.
                return (
                    Framed(schema, data, 0)
                    if end == len(value)
                    else _with_indexes(schema, value[end:], data)
                )
    schema, end = _read_schema(data, "the record")
    return Framed(schema, data, end)


def _with_indexes(schema: SchemaKey, indexes: Data, data: Data) -> Framed:
    return Framed(schema, bytes(indexes) + bytes(data), 0)


def _read_schema(data: Data, where: str) -> tuple[SchemaKey, int]:
    if len(data) < _PREFIX.size:
        raise DeserializationError(
            f"{where} has {len(data)} bytes, where Confluent's format has at least {_PREFIX.size}: "
            "it was not written by a schema serializer",
            raw=bytes(data),
        )
    magic = data[0]
    if magic == MAGIC_ID:
        return int.from_bytes(data[1:5], "big"), 5
    if magic == MAGIC_GUID and len(data) > _GUID_BYTES:
        return UUID(bytes=bytes(data[1 : 1 + _GUID_BYTES])), 1 + _GUID_BYTES
    raise DeserializationError(
        f"{where} begins with byte {magic}, where Confluent's format has 0: "
        "it was not written by a schema serializer",
        raw=bytes(data),
    )


def write_message_indexes(path: tuple[int, ...]) -> bytes:
    """The path of a message's type in its file, as zigzag varints; the first type is a single zero."""
    if path == (0,):
        return b"\x00"
    return b"".join(_zigzag(number) for number in (len(path), *path))


def read_message_indexes(data: Data, at: int) -> tuple[tuple[int, ...], int]:
    """The path of a message's type, and where the payload begins."""
    count, at = _read_zigzag(data, at)
    if count == 0:
        return (0,), at
    if not 0 < count <= _MAX_INDEXES:
        raise DeserializationError(f"{count} message indexes cannot be right", raw=bytes(data))
    path = []
    for _ in range(count):
        number, at = _read_zigzag(data, at)
        if number < 0:
            raise DeserializationError(f"message index {number} is negative", raw=bytes(data))
        path.append(number)
    return tuple(path), at


def _zigzag(number: int) -> bytes:
    rest = number << 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _read_zigzag(data: Data, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 7 * _MAX_VARINT_BYTES, 7):
        if at >= len(data):
            raise DeserializationError(
                "the record ends within its message indexes", raw=bytes(data)
            )
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise DeserializationError("a message index has too many bytes", raw=bytes(data))
