"""Every declared message at every version, its counterpart in kio, and strategies that build it.

kio does not know the newest versions of all messages: for these (`UNKNOWN_TO_KIO`) Kafka's Java client is the oracle.

kio gives some fields richer types than the wire has, so values are limited to what kio can hold.
All limits come from kio's field metadata (`KIO_LIMITS`) and none is by name:

- `error_code` becomes an enum: only the numbers that kio knows.
- `datetime_i64` becomes a datetime: milliseconds up to the end of the year 9999, and -1 for none
  where it may be None.
- `timedelta_i64` becomes a timedelta that it writes by way of a float: 49 bits are exact.
- `timedelta_i32` holds every int32, and a zero uuid is None but the same bytes: no limit.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import struct
import typing
import uuid
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map

import ottla.wire.messages
from ottla.wire.declare import Field, MessageInfo, fields_of, info_of
from ottla.wire.encoder import INLINE_RECORDS_BYTES
from ottla.wire.types import ZERO_UUID, BytesType, Fixed, RecordsType, StringType, UuidType

INTEGER_BITS = {"b": 8, "h": 16, "i": 32, "q": 64}
KIO_LIMITS: dict[str | None, st.SearchStrategy[Any]] = {
    "error_code": st.sampled_from(sorted(code.value for code in ErrorCode)),
    "datetime_i64": st.integers(0, 253_402_300_799_000),
    "timedelta_i64": st.just(-1) | st.integers(-(1 << 48), 1 << 48),
}
# Lists and strings are short, or longer than one byte of a compact length can say.
REPEATS = st.sampled_from([1, 1, 1, 1, 1, 130])


class Case(NamedTuple):
    """A message at a version."""

    cls: type
    version: int

    @property
    def info(self) -> MessageInfo:
        return info_of(self.cls)

    @property
    def flexible(self) -> bool:
        return self.version >= self.info.flexible_since

    @property
    def is_request(self) -> bool:
        return self.info.name.endswith("Request")

    @property
    def kio(self) -> type[Any]:
        load = load_request_schema if self.is_request else load_response_schema
        return load(self.info.api_key, self.version)

    def __str__(self) -> str:
        return f"{self.info.name}-v{self.version}"


def _declared() -> Iterator[type[Any]]:
    for module_info in pkgutil.iter_modules(ottla.wire.messages.__path__):
        module = importlib.import_module(f"ottla.wire.messages.{module_info.name}")
        for name, value in vars(module).items():
            if name.endswith(("Request", "Response")) and value.__module__ == module.__name__:
                try:
                    info_of(value)
                except KeyError:  # a struct, such as TopicRequest
                    continue
                yield value


MESSAGES = tuple(_declared())
CASES = tuple(
    Case(cls, version)
    for cls in MESSAGES
    for version in range(info_of(cls).versions.first, info_of(cls).versions.last + 1)
)


def kio_versions(cls: type) -> list[int]:
    """The versions of a message that kio knows."""
    name = api_key_map.get(info_of(cls).api_key)
    return [] if name is None else sorted(schema_name_map[name])


KNOWN_TO_KIO = tuple(case for case in CASES if case.version in kio_versions(case.cls))
UNKNOWN_TO_KIO = tuple(case for case in CASES if case.version not in kio_versions(case.cls))


def present_fields(cls: type, version: int) -> list[Field]:
    return [field for field in fields_of(cls) if field.present_in(version)]


def is_nullable(field: Field, version: int) -> bool:
    return field.type.is_nullable and version >= field.presence.nullable_since


def kio_struct(hint: Any) -> type[Any] | None:
    """The dataclass in a kio annotation such as `tuple[Broker, ...] | None`."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return hint
    return next(filter(None, map(kio_struct, typing.get_args(hint))), None)


def paired(cls: type, version: int, kio: type[Any]) -> list[tuple[Field, Any]]:
    """Our fields and kio's in the order of Kafka's schema; ValueError if one has more."""
    return list(zip(present_fields(cls, version), dataclasses.fields(kio), strict=True))


@cache
def values(case: Case) -> st.SearchStrategy[Any]:
    """Any value of a message that kio can hold too, with the fields of other versions unset."""
    return _structs(case.cls, case.version, case.kio, 0)


def any_values(cls: type[Any], version: int) -> st.SearchStrategy[Any]:
    """Any value of a declared class, with the fields of other versions unset."""
    return _structs(cls, version, None, 0)


def _structs(
    cls: type[Any], version: int, kio: type[Any] | None, depth: int
) -> st.SearchStrategy[Any]:
    pairs = paired(cls, version, kio) if kio else [(f, None) for f in present_fields(cls, version)]
    return st.builds(
        cls, **{ours.name: _field_values(ours, version, theirs, depth) for ours, theirs in pairs}
    )


def _field_values(ours: Field, version: int, theirs: Any, depth: int) -> st.SearchStrategy[Any]:
    element = ours.type.element
    strategy: st.SearchStrategy[Any]
    if isinstance(element, type):
        nested = kio_struct(theirs.type) if theirs else None
        assert nested is not None or theirs is None, ours.name
        strategy = _structs(element, version, nested, depth + 1)
    else:
        kafka_type = theirs.metadata["kafka_type"] if theirs else None
        strategy = KIO_LIMITS.get(kafka_type, _scalars(element))
        if kafka_type == "datetime_i64" and type(None) in typing.get_args(theirs.type):
            strategy = st.just(-1) | strategy
    if ours.type.is_list:
        # One struct list in a message may be long: more would make messages of megabytes.
        repeats = st.just(1) if isinstance(element, type) and depth > 0 else REPEATS
        strategy = st.builds(lambda items, times: items * times, _lists(strategy), repeats)
    if ours.default is not None:
        strategy = st.builds(ours.default) | strategy
    if is_nullable(ours, version):
        strategy = st.none() | strategy
    return strategy


def _lists(elements: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(elements, max_size=2)


def _scalars(kind: Any) -> st.SearchStrategy[Any]:
    match kind:
        case Fixed("?"):
            return st.booleans()
        case Fixed("d"):
            return st.floats(allow_nan=False, allow_infinity=False)
        case Fixed(letter) if letter in INTEGER_BITS:
            limit = 1 << (INTEGER_BITS[letter] - 1)
            return st.sampled_from([-limit, -1, limit - 1]) | st.integers(-limit, limit - 1)
        case Fixed("H"):
            return st.integers(0, 0xFFFF)
        case UuidType():
            return st.just(ZERO_UUID) | st.uuids()
        case StringType():
            return st.builds(lambda text, times: text * times, st.text(max_size=4), REPEATS)
        case BytesType() | RecordsType():
            large = st.binary(min_size=1, max_size=3).map(lambda data: data * INLINE_RECORDS_BYTES)
            return st.binary(max_size=8) | large
    raise AssertionError(f"no strategy for {kind}")


def full_value(case: Case) -> Any:
    """A message with every field set, nothing null and two items in every list, except in the innermost."""
    return full_struct(case.cls, case.version)


def full_struct(cls: type[Any], version: int, depth: int = 0) -> Any:
    """A value with every field set, nothing null and two items in every list, except in the innermost."""
    return cls(**{f.name: _full_field(f, version, depth) for f in present_fields(cls, version)})


def _full_field(field: Field, version: int, depth: int) -> Any:
    element = field.type.element
    # Two at every depth would make messages of a hundred kilobytes.
    count = 2 if field.type.is_list and depth < 2 else 1
    items = [
        full_struct(element, version, depth + 1)
        if isinstance(element, type)
        else _full_scalar(element)
        for _ in range(count)
    ]
    return items if field.type.is_list else items[0]


def bare_struct(cls: type[Any], version: int) -> Any:
    """A value whose fields are null, empty or zero, or else have their default."""
    return cls(**{f.name: _bare_field(f, version) for f in present_fields(cls, version)})


def _bare_field(field: Field, version: int) -> Any:
    element = field.type.element
    if field.default is not None:
        return field.default()
    if is_nullable(field, version):
        return None
    if field.type.is_list:
        return []
    if isinstance(element, type):
        return bare_struct(element, version)
    match element:
        case Fixed("?"):
            return False
        case Fixed():
            return 0
        case UuidType():
            return ZERO_UUID
        case StringType():
            return ""
        case _:
            return b""


def _full_scalar(kind: Any) -> Any:
    match kind:
        case Fixed("?"):
            return True
        case Fixed("d"):
            return 0.5
        case Fixed():
            return 7
        case UuidType():
            return uuid.UUID(int=0x1234567890ABCDEF << 64 | 0x42)
        case StringType():
            return "añb"
        case _:
            return b"records"


def varint(value: int) -> bytes:
    """An unsigned varint, written without the code under test."""
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def plain_encode(case: Case, message: Any, unknown_tags: dict[int, bytes]) -> bytes:
    """A slow, direct encoder; each struct gets `unknown_tags` too, after those it knows."""
    return plain_struct(message, case.version, case.flexible, unknown_tags)


def plain_struct(value: Any, version: int, flexible: bool, unknown: dict[int, bytes]) -> bytes:
    """A slow, direct encoder of a struct; it gets the tagged fields `unknown` too."""
    out = b""
    tags: dict[int, bytes] = {}
    for field in present_fields(type(value), version):
        item = getattr(value, field.name)
        if not (flexible and field.tagged_in(version)):
            out += _plain_field(field, item, version, flexible, unknown)
        elif field.default is None or item != field.default():
            assert field.presence.tag is not None
            tags[field.presence.tag] = _plain_field(field, item, version, flexible, unknown)
    if flexible:
        tags = dict(sorted(tags.items())) | unknown
        out += varint(len(tags))
        out += b"".join(varint(tag) + varint(len(data)) + data for tag, data in tags.items())
    return out


def _plain_field(
    field: Field, item: Any, version: int, flexible: bool, unknown: dict[int, bytes]
) -> bytes:
    element = field.type.element
    if field.type.is_list:
        if item is None:
            return _plain_length(-1, 4, flexible)
        parts = (_plain_element(element, each, version, flexible, unknown) for each in item)
        return _plain_length(len(item), 4, flexible) + b"".join(parts)
    if isinstance(element, type) and is_nullable(field, version):
        if item is None:
            return b"\0" if flexible and field.tagged_in(version) else b"\xff"
        return b"\x01" + plain_struct(item, version, flexible, unknown)
    return _plain_element(element, item, version, flexible, unknown)


def _plain_element(
    element: Any, item: Any, version: int, flexible: bool, unknown: dict[int, bytes]
) -> bytes:
    match element:
        case Fixed("?"):
            return b"\x01" if item else b"\x00"
        case Fixed(letter) if letter in INTEGER_BITS:
            return bytes(item.to_bytes(INTEGER_BITS[letter] // 8, "big", signed=True))
        case Fixed("H"):
            return bytes(item.to_bytes(2, "big"))
        case Fixed("d"):
            return struct.pack(">d", item)
        case UuidType():
            return bytes(item.bytes)
        case StringType():
            data = None if item is None else item.encode()
            return _plain_length(-1 if data is None else len(data), 2, flexible) + (data or b"")
        case BytesType() | RecordsType():
            return _plain_length(-1 if item is None else len(item), 4, flexible) + (item or b"")
    return plain_struct(item, version, flexible, unknown)


def _plain_length(length: int, width: int, flexible: bool) -> bytes:
    return varint(length + 1) if flexible else length.to_bytes(width, "big", signed=True)
