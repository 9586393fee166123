"""From the bytes of keys, values and headers to the types that parameters ask for.

A reader is made once for each parameter: it takes a record and returns the converted part.
"""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from operator import attrgetter
from typing import Annotated, Any, Final, Protocol, TypeAlias, Union, get_args, get_origin
from uuid import UUID

from ottla.app.declarations.json_conversion import (
    Converters,
    MismatchError,
    is_pydantic_model,
    load_json,
    pydantic_mismatch,
    type_name,
)
from ottla.app.declarations.listener_spec import RawRecord
from ottla.app.errors import UnreadableRecordError
from ottla.client.model import Headers
from ottla.client.plugins.serializers import (
    BytesDeserializer,
    Deserializer,
    JSONDeserializer,
    LookupPending,
    StringDeserializer,
)
from ottla.errors import ConfigError, KafkaError, OttlaError
from ottla.schemas.codec import NOT_CACHED, Codec

Read: TypeAlias = Callable[[RawRecord], Any]
Decode: TypeAlias = Callable[[bytes], Any]

# What has one text: it is read and written without JSON's quotes, as Kafka's UUIDSerializer does.
_ONE_TEXT: Final = (UUID, Decimal, datetime, date, time)
# Deserializers that leave the choice to the annotation: what they make is bytes, text or plain JSON anyway.
_PLAIN_DESERIALIZERS: Final = (BytesDeserializer, StringDeserializer, JSONDeserializer)


class SchemaNeededError(Exception):
    """A codec has to ask the registry first: await `load`, then read the record again."""

    def __init__(self, load: Callable[[], Awaitable[object]]) -> None:
        super().__init__("the schema is not cached")
        self.load = load


class SchemaCodecs(Protocol):
    """The codecs of an app with a schema registry."""

    def reads(self, wanted: Any) -> Codec[Any] | None:
        """The codec for values of a type; None if the type has no schema."""


@dataclass(frozen=True)
class Decoding:
    """How an app reads keys and values: the deserializers of its options, and its schema registry."""

    key_deserializer: Deserializer | None = None
    value_deserializer: Deserializer | None = None
    codecs: SchemaCodecs | None = None
    names: Mapping[str, Any] = field(default_factory=dict)
    """Where names in the annotations of local classes are found."""

    def deserializer(self, is_key: bool) -> Deserializer | None:
        """The deserializer of the options, for keys or for values."""
        return self.key_deserializer if is_key else self.value_deserializer

    def key_reader(self, wanted: Any) -> Read:
        """Reads keys as a type."""
        return self._reader(wanted, is_key=True)

    def value_reader(self, wanted: Any) -> Read:
        """Reads values as a type."""
        return self._reader(wanted, is_key=False)

    def _reader(self, wanted: Any, *, is_key: bool) -> Read:
        what = "key" if is_key else "value"
        wanted, may_be_none = split_optional(wanted)
        deserializer = self.deserializer(is_key)
        if wanted is Any and may_be_none:
            if deserializer is None:
                return attrgetter(what)
            return _by_deserializer(deserializer, is_key, Any)
        if wanted is bytes:
            return _nullable(_bytes_of(what), what, wanted, may_be_none)
        if deserializer is not None and not isinstance(deserializer, _PLAIN_DESERIALIZERS):
            return _nullable(
                _by_deserializer(deserializer, is_key, wanted), what, wanted, may_be_none
            )
        codec = None if self.codecs is None else self.codecs.reads(wanted)
        if codec is not None:
            return _nullable(_by_codec(codec, is_key, wanted), what, wanted, may_be_none)
        decode = decoder_of(wanted, Converters(self.names))
        return _nullable(_decoded(decode, what, wanted), what, wanted, may_be_none)

    def header_reader(self, name: str, wanted: Any) -> Read:
        """Reads the last header of a name as a type; a missing header is None if the type allows it."""
        wanted, may_be_none = split_optional(wanted)
        decode = (
            (lambda data: data) if wanted is Any else decoder_of(wanted, Converters(self.names))
        )

        def read(record: RawRecord) -> Any:
            data = last_header(record.headers, name)
            if data is None:
                if may_be_none:
                    return None
                raise _unreadable(record, f"has no header {name!r}")
            try:
                return decode(data)
            except MismatchError as error:
                raise _unreadable(record, f"header {name!r} {_told(error, wanted)}") from None

        return read


def last_header(headers: Headers, name: str) -> bytes | None:
    """The value of the last header of a name."""
    for found, value in reversed(headers):
        if found == name:
            return value
    return None


def split_optional(wanted: Any) -> tuple[Any, bool]:
    """A type without None, and whether None was part of it."""
    if wanted is Any:
        return Any, True
    if get_origin(wanted) is Annotated:
        return split_optional(get_args(wanted)[0])
    if wanted is None or wanted is types.NoneType:
        return types.NoneType, True
    if get_origin(wanted) not in (Union, types.UnionType):
        return wanted, False
    others = tuple(each for each in get_args(wanted) if each is not types.NoneType)
    if len(others) == len(get_args(wanted)):
        return wanted, False
    return Union[others], True  # noqa: UP007 - made of a tuple


def decoder_of(wanted: Any, converters: Converters) -> Decode:
    """Turns bytes into a type: text as UTF-8, Protobuf by its class, everything else as JSON."""
    if wanted is bytes:
        return bytes
    if wanted is str:
        return _text
    if is_protobuf_message(wanted):
        return _protobuf(wanted)
    if is_pydantic_model(wanted):
        return _pydantic(wanted)
    convert = converters.of(wanted)
    if wanted in _ONE_TEXT or _has_text_values(wanted):
        return lambda data: convert(_bare_text(data))
    return lambda data: convert(load_json(data))


def _has_text_values(wanted: object) -> bool:
    return (
        isinstance(wanted, type)
        and issubclass(wanted, Enum)
        and all(isinstance(each.value, str) for each in wanted)
    )


def _bare_text(data: bytes) -> str:
    """Text as it is, as keys and headers have it, or as JSON has it, in quotes."""
    text = _text(data)
    if not text.startswith('"'):
        return text
    found = load_json(data)
    return found if isinstance(found, str) else text


def is_protobuf_message(wanted: object) -> bool:
    """Whether it is a class that Protobuf's compiler has made, without importing protobuf."""
    return (
        isinstance(wanted, type) and hasattr(wanted, "DESCRIPTOR") and hasattr(wanted, "FromString")
    )


def _text(data: bytes) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise MismatchError(f"not UTF-8 text: {error}") from None


def _pydantic(wanted: Any) -> Decode:
    def decode(data: bytes) -> Any:
        try:
            return wanted.model_validate_json(data)
        except ValueError as error:
            raise pydantic_mismatch(error) from error

    return decode


def _protobuf(wanted: Any) -> Decode:
    def decode(data: bytes) -> Any:
        try:
            return wanted.FromString(data)
        except Exception as error:  # DecodeError is not an importable name without protobuf
            raise MismatchError(f"not Protobuf: {error}") from None

    return decode


def _bytes_of(what: str) -> Read:
    get = attrgetter(what)

    def read(record: RawRecord) -> Any:
        data = get(record)
        return bytes(data) if isinstance(data, memoryview) else data

    return read


def _decoded(decode: Decode, what: str, wanted: Any) -> Read:
    get = attrgetter(what)

    def read(record: RawRecord) -> Any:
        data = get(record)
        if data is None:
            return None
        try:
            return decode(data)
        except MismatchError as error:
            raise _unreadable(record, f"the {what} {_told(error, wanted)}") from None
        except RecursionError as error:
            raise _unreadable(record, f"the {what} is nested too deeply") from error

    return read


def _by_deserializer(deserializer: Deserializer, is_key: bool, wanted: Any) -> Read:
    what = "key" if is_key else "value"
    get = attrgetter(what)
    # Any is a class from Python 3.11 on, but not one for isinstance.
    checked = wanted if isinstance(wanted, type) and wanted not in (Any, object) else None

    def read(record: RawRecord) -> Any:
        try:
            found = deserializer.deserialize(record.topic, record.headers, get(record))
        except KafkaError:
            raise  # a registry that does not answer is no fault of the record
        except LookupPending as pending:
            raise SchemaNeededError(pending.wait) from None
        except Exception as error:
            raise _unreadable(record, f"the {what} cannot be read: {error}") from error
        if checked is not None and found is not None and not isinstance(found, checked):
            raise _unreadable(
                record,
                f"the {what}.deserializer made {type(found).__name__}, and the parameter wants {type_name(wanted)}",
            )
        return found

    return read


def _by_codec(codec: Codec[Any], is_key: bool, wanted: Any) -> Read:
    what = "key" if is_key else "value"
    get = attrgetter(what)

    def read(record: RawRecord) -> Any:
        topic, headers, data = record.topic, record.headers, get(record)
        try:
            found = codec.try_decode(topic, is_key, data, headers)
        except KafkaError:
            raise
        except OttlaError as error:
            raise _unreadable(record, f"the {what} is no {type_name(wanted)}: {error}") from error
        if found is NOT_CACHED:
            raise SchemaNeededError(lambda: codec.decode(topic, is_key, data, headers))
        return found

    return read


def _nullable(read: Read, what: str, wanted: Any, may_be_none: bool) -> Read:
    if may_be_none:
        return read

    def read_something(record: RawRecord) -> Any:
        found = read(record)
        if found is None:
            raise _unreadable(
                record, f"has no {what}: write {type_name(wanted)} | None to take such records too"
            )
        return found

    return read_something


def _told(error: MismatchError, wanted: Any) -> str:
    return f"is no {type_name(wanted)}: {error}"


def _unreadable(record: RawRecord, reason: str) -> UnreadableRecordError:
    return UnreadableRecordError(
        f"{record.topic}-{record.partition} at offset {record.offset}: {reason}"
    )


def check_readable(decoding: Decoding, wanted: Any) -> None:
    """Raise ConfigError if no reader can be made of the type."""
    try:
        decoding.value_reader(wanted)
    except TypeError as error:
        raise ConfigError(f"{type_name(wanted)} is no type: {error}") from error
