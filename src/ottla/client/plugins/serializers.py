"""Serializers of keys and values, with the layouts of Kafka's Java serializers, and the protocol for one's own.

A serializer is an object with `serialize(topic, headers, value)`, a deserializer one with
`deserialize(topic, headers, data)`. They may have `configure(config, is_key)`, called once with the
client's options, and `close()`. A plain function of one argument can be given instead; it is not called for
None, which is a record without a value.

A pair for a dataclass:

>>> import dataclasses, json
>>> @dataclasses.dataclass
... class Order:
...     id: int
...     items: list[str]
>>> class OrderSerializer:
...     def serialize(self, topic, headers, order):
...         return None if order is None else json.dumps(dataclasses.asdict(order)).encode()
>>> class OrderDeserializer:
...     def deserialize(self, topic, headers, data):
...         return None if data is None else Order(**json.loads(data))
>>> data = OrderSerializer().serialize("orders", (), Order(7, ["tea"]))
>>> data
b'{"id": 7, "items": ["tea"]}'
>>> OrderDeserializer().deserialize("orders", (), data)
Order(id=7, items=['tea'])

It is used as `ottla.Producer(value_serializer=OrderSerializer, …)` and
`ottla.Consumer(value_deserializer=OrderDeserializer, …)`.
"""

from __future__ import annotations

import codecs
import json
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Protocol, TypeAlias
from uuid import UUID

from ottla.client.model import Headers
from ottla.errors import ConfigError, DeserializationError, SerializationError

Data: TypeAlias = bytes | memoryview


class Serializer(Protocol):
    """Turns keys or values into bytes."""

    def serialize(self, topic: str, headers: Headers, value: Any) -> bytes | None:
        """The bytes of a value; those of None are None."""


class Deserializer(Protocol):
    """Turns bytes into keys or values."""

    def deserialize(self, topic: str, headers: Headers, data: Any) -> Any:
        """The value of bytes; None for None."""


class LookupPending(Exception):  # noqa: N818 - it is no failure
    """A serializer or deserializer on an event loop needs an answer first, such as a schema from a registry.

    A client awaits `wait()` and calls it again; what the wait raises is the outcome.
    """

    def __init__(self, message: str, wait: Callable[[], Awaitable[None]]) -> None:
        super().__init__(message)
        self.wait = wait


class BytesSerializer:
    """Bytes, bytearrays and memoryviews as they are."""

    def serialize(self, topic: str, headers: Headers, value: Any) -> bytes | None:
        """The same bytes."""
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise _refused(value, "bytes", "; set key.serializer or value.serializer for other types")


class BytesDeserializer:
    """Bytes as they are."""

    def deserialize(self, topic: str, headers: Headers, data: Data | None) -> bytes | None:
        """The same bytes."""
        return bytes(data) if isinstance(data, memoryview) else data


class _Encoding:
    """An encoding that is given to the constructor or by options, utf-8 otherwise."""

    option_suffix: ClassVar[str]

    def __init__(self, encoding: str | None = None) -> None:
        self._fixed = encoding is not None
        self.encoding = _known_encoding("encoding", encoding or "utf-8")

    def configure(self, config: Mapping[str, Any], is_key: bool) -> None:
        """Use key.serializer.encoding, value.serializer.encoding or serializer.encoding, as Kafka does."""
        own = f"{'key' if is_key else 'value'}.{self.option_suffix}"
        for name in (own, self.option_suffix):
            encoding = config.get(name)
            if encoding is not None and not self._fixed:
                self.encoding = _known_encoding(name, encoding)
                return

    def _encode(self, text: str) -> bytes:
        try:
            # Java's UTF-16 and UTF-32 are big-endian, UTF-16 with a mark; Python's are the machine's.
            if self.encoding == "utf-16":
                mark = codecs.BOM_UTF16_BE if text else b""
                return mark + text.encode("utf-16-be")
            return text.encode("utf-32-be" if self.encoding == "utf-32" else self.encoding)
        except UnicodeError as error:
            raise SerializationError(
                f"text cannot be written in {self.encoding}: {error}"
            ) from error

    def _decode(self, data: Data) -> str:
        encoding, marks = self.encoding, _MARKS.get(self.encoding)
        if marks is not None and not bytes(data[:4]).startswith(marks):
            encoding = f"{encoding}-be"
        try:
            return str(data, encoding)
        except UnicodeError as error:
            raise DeserializationError(
                f"not text in {encoding}: {error}", raw=bytes(data)
            ) from error


_MARKS = {
    "utf-16": (codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE),
    "utf-32": (codecs.BOM_UTF32_BE, codecs.BOM_UTF32_LE),
}


class StringSerializer(_Encoding):
    """Text, in UTF-8 unless key.serializer.encoding, value.serializer.encoding or serializer.encoding is given."""

    option_suffix = "serializer.encoding"

    def serialize(self, topic: str, headers: Headers, value: Any) -> bytes | None:
        """The text's bytes."""
        if value is None:
            return None
        if not isinstance(value, str):
            raise _refused(value, "str")
        return self._encode(value)


class StringDeserializer(_Encoding):
    """Text; invalid bytes are an error, where Java's client puts replacement characters."""

    option_suffix = "deserializer.encoding"

    def deserialize(self, topic: str, headers: Headers, data: Data | None) -> str | None:
        """The text."""
        return None if data is None else self._decode(data)


class UUIDSerializer(_Encoding):
    """UUIDs as text, as Java's client writes them."""

    option_suffix = "serializer.encoding"

    def serialize(self, topic: str, headers: Headers, value: Any) -> bytes | None:
        """The bytes of the UUID's text."""
        if value is None:
            return None
        if not isinstance(value, UUID):
            raise _refused(value, "uuid.UUID")
        return self._encode(str(value))


class UUIDDeserializer(_Encoding):
    """UUIDs from text."""

    option_suffix = "deserializer.encoding"
    size_bytes = 36

    def deserialize(self, topic: str, headers: Headers, data: Data | None) -> UUID | None:
        """The UUID."""
        if data is None:
            return None
        text = self._decode(data)
        try:
            return UUID(text)
        except ValueError as error:
            raise DeserializationError(f"{text!r} is not a UUID", raw=bytes(data)) from error


class _Number:
    """A number in a fixed number of bytes, big-endian."""

    layout: ClassVar[struct.Struct]
    takes: ClassVar[tuple[type, ...]]

    def serialize(self, topic: str, headers: Headers, value: Any) -> bytes | None:
        """The number's bytes."""
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, self.takes):
            raise _refused(value, " or ".join(kind.__name__ for kind in self.takes))
        try:
            return self.layout.pack(value)
        except (struct.error, OverflowError) as error:
            bits = self.layout.size * 8
            raise SerializationError(f"{value} does not fit into {bits} bits") from error

    def deserialize(self, topic: str, headers: Headers, data: Data | None) -> Any:
        """The number."""
        if data is None:
            return None
        if len(data) != self.layout.size:
            reason = f"{len(data)} bytes where a number has {self.layout.size}"
            raise DeserializationError(reason, raw=bytes(data))
        return self.layout.unpack(data)[0]


class ShortSerializer(_Number):
    """Whole numbers of 16 bits."""

    layout, takes = struct.Struct(">h"), (int,)


class IntegerSerializer(_Number):
    """Whole numbers of 32 bits."""

    layout, takes = struct.Struct(">i"), (int,)


class LongSerializer(_Number):
    """Whole numbers of 64 bits."""

    layout, takes = struct.Struct(">q"), (int,)


class FloatSerializer(_Number):
    """Floating-point numbers of 32 bits: most lose digits, for Python's have 64."""

    layout, takes = struct.Struct(">f"), (float, int)


class DoubleSerializer(_Number):
    """Floating-point numbers of 64 bits, as Python's are."""

    layout, takes = struct.Struct(">d"), (float, int)


# One class serves both directions.
ShortDeserializer = ShortSerializer
IntegerDeserializer = IntegerSerializer
LongDeserializer = LongSerializer
FloatDeserializer = FloatSerializer
DoubleDeserializer = DoubleSerializer


class BooleanSerializer:
    """True and False in one byte."""

    def serialize(self, topic: str, headers: Headers, value: Any) -> bytes | None:
        """One byte, 1 or 0."""
        if value is None:
            return None
        if not isinstance(value, bool):
            raise _refused(value, "bool")
        return b"\x01" if value else b"\x00"


class BooleanDeserializer:
    """True and False from one byte."""

    def deserialize(self, topic: str, headers: Headers, data: Data | None) -> bool | None:
        """Whether the byte is 1."""
        if data is None:
            return None
        if bytes(data) not in (b"\x00", b"\x01"):
            raise DeserializationError("not one byte that is 0 or 1", raw=bytes(data))
        return bytes(data) == b"\x01"


class VoidSerializer:
    """None, and nothing else."""

    def serialize(self, topic: str, headers: Headers, value: Any) -> bytes | None:
        """Always None."""
        if value is not None:
            raise _refused(value, "None")
        return None


class VoidDeserializer:
    """None, and nothing else."""

    def deserialize(self, topic: str, headers: Headers, data: Data | None) -> None:
        """Always None."""
        if data is not None:
            raise DeserializationError("there are bytes where none are expected", raw=bytes(data))


class JSONSerializer:
    """JSON values, as UTF-8 without whitespace."""

    def serialize(self, topic: str, headers: Headers, value: Any) -> bytes | None:
        """The value's JSON; None stays None, so that the record is a tombstone."""
        if value is None:
            return None
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            return text.encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise SerializationError(f"the value has no JSON: {error}") from error


class JSONDeserializer:
    """The value of JSON."""

    def deserialize(self, topic: str, headers: Headers, data: Data | None) -> Any:
        """The value; None for None."""
        if data is None:
            return None
        try:
            return json.loads(bytes(data))
        except (ValueError, RecursionError) as error:
            raise DeserializationError(f"not JSON: {error}", raw=bytes(data)) from error


class FunctionSerializer:
    """A function of one argument that returns bytes; None is not shown to it."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def serialize(self, topic: str, headers: Headers, value: Any) -> bytes | None:
        """What the function returns."""
        if value is None:
            return None
        data = self.function(value)
        if data is not None and not isinstance(data, bytes):
            raise SerializationError(f"the serializer returned {type(data).__name__}, not bytes")
        return data


class FunctionDeserializer:
    """A function of one argument that takes bytes; None is not shown to it."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def deserialize(self, topic: str, headers: Headers, data: Data | None) -> Any:
        """What the function returns."""
        return None if data is None else self.function(bytes(data))


def _refused(value: object, wanted: str, advice: str = "") -> SerializationError:
    return SerializationError(f"{type(value).__name__} where {wanted} is expected{advice}")


def _known_encoding(option: str, encoding: str) -> str:
    try:
        codec = codecs.lookup(encoding)
    except LookupError as error:
        raise ConfigError(f"{option}={encoding!r} is no encoding that Python knows") from error
    # rot13, base64 and the like are codecs too, but not of text to bytes.
    if not getattr(codec, "_is_text_encoding", True):
        raise ConfigError(f"{option}={encoding!r} is no encoding of text")
    return codec.name
