"""Lists in Java's layout, whose items have a serializer of their own; and all serializers by name."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

from ottla.client.model import Headers
from ottla.client.plugins.object_lookup import BuiltIn, find, look_up, require
from ottla.client.plugins.serializers import (
    BooleanDeserializer,
    BooleanSerializer,
    BytesDeserializer,
    BytesSerializer,
    Data,
    Deserializer,
    DoubleDeserializer,
    DoubleSerializer,
    FloatDeserializer,
    FloatSerializer,
    FunctionDeserializer,
    FunctionSerializer,
    IntegerDeserializer,
    IntegerSerializer,
    JSONDeserializer,
    JSONSerializer,
    LongDeserializer,
    LongSerializer,
    Serializer,
    ShortDeserializer,
    ShortSerializer,
    StringDeserializer,
    StringSerializer,
    UUIDDeserializer,
    UUIDSerializer,
    VoidDeserializer,
    VoidSerializer,
)
from ottla.errors import ConfigError, DeserializationError, SerializationError

CONSTANT_SIZE = 0
"""The flag of items that all have one size, with the places of nulls before them."""

VARIABLE_SIZE = 1
"""The flag of items that each have their size before them, -1 for null."""

_INT = struct.Struct(">i")
_NULL_ITEM = -1
_NUMBERS = (ShortSerializer, IntegerSerializer, LongSerializer, FloatSerializer, DoubleSerializer)
_JAVA_PACKAGE = "org.apache.kafka.common.serialization"


def serializer_of(option: str, named: object) -> Serializer:
    """The serializer that an option names; a function is wrapped."""
    found = _meant(option, named, SERIALIZERS, "serialize")
    return found if hasattr(found, "serialize") else FunctionSerializer(found)


def deserializer_of(option: str, named: object) -> Deserializer:
    """The deserializer that an option names; a function is wrapped."""
    found = _meant(option, named, DESERIALIZERS, "deserialize")
    return found if hasattr(found, "deserialize") else FunctionDeserializer(found)


def _meant(option: str, named: object, built_in: BuiltIn, method: str) -> Any:
    found = find(option, named, built_in)
    if isinstance(found, type) and found in _PYTHON_TYPES:
        found = built_in[_PYTHON_TYPES[found]]
    if isinstance(found, type) or not callable(found):
        require(option, found, method)
    return look_up(option, found, built_in)


class ListSerializer:
    """Lists; the serializer of the items is given here or by default.list.key.serde.inner (or value)."""

    def __init__(self, inner: object = None) -> None:
        self._inner = None if inner is None else serializer_of("the list's inner serializer", inner)

    def configure(self, config: Mapping[str, Any], is_key: bool) -> None:
        """Look up the inner serializer, unless there is one."""
        option = f"default.list.{'key' if is_key else 'value'}.serde.inner"
        if self._inner is None:
            if config.get(option) is None:
                raise ConfigError(f"a list serializer needs one for its items: give {option}")
            self._inner = serializer_of(option, config[option])
            configure(self._inner, config, is_key)

    def serialize(self, topic: str, headers: Headers, value: Iterable[Any] | None) -> bytes | None:
        """The list's bytes."""
        if value is None:
            return None
        assert self._inner is not None, "configure comes first"
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            raise SerializationError(f"{type(value).__name__} where a list is expected")
        values = list(value)
        items = [None if v is None else self._inner.serialize(topic, headers, v) for v in values]
        for given, item in zip(values, items, strict=True):
            if item is None and given is not None:
                raise SerializationError(f"the inner serializer made None of {given!r}")
        if _size_of(self._inner) is None:
            parts = [part for item in items for part in _with_size(item)]
            return b"".join((bytes([VARIABLE_SIZE]), _INT.pack(len(items)), *parts))
        nulls = [_INT.pack(index) for index, item in enumerate(items) if item is None]
        head = (bytes([CONSTANT_SIZE]), _INT.pack(len(nulls)), *nulls, _INT.pack(len(items)))
        return b"".join((*head, *(item for item in items if item is not None)))

    def close(self) -> None:
        """Close the inner serializer."""
        close(self._inner)


class ListDeserializer:
    """Lists; the deserializer of the items is given as in `ListSerializer`, `kind` makes another type of the list."""

    def __init__(
        self, inner: object = None, kind: Callable[[list[Any]], Any] | None = None
    ) -> None:
        named = "the list's inner deserializer"
        self._inner = None if inner is None else deserializer_of(named, inner)
        self._kind = kind

    def configure(self, config: Mapping[str, Any], is_key: bool) -> None:
        """Look up the inner deserializer and the kind of list, unless they are given."""
        prefix = f"default.list.{'key' if is_key else 'value'}.serde"
        if self._inner is None:
            if config.get(f"{prefix}.inner") is None:
                raise ConfigError(
                    f"a list deserializer needs one for its items: give {prefix}.inner"
                )
            self._inner = deserializer_of(f"{prefix}.inner", config[f"{prefix}.inner"])
            configure(self._inner, config, is_key)
        if self._kind is None and config.get(f"{prefix}.type") is not None:
            self._kind = find(f"{prefix}.type", config[f"{prefix}.type"], _KINDS_OF_LISTS)

    def deserialize(self, topic: str, headers: Headers, data: Data | None) -> Any:
        """The list."""
        if data is None:
            return None
        assert self._inner is not None, "configure comes first"
        found = _Items(bytes(data), _size_of(self._inner)).read()
        items = [
            None if item is None else self._inner.deserialize(topic, headers, item)
            for item in found
        ]
        return items if self._kind is None else self._kind(items)

    def close(self) -> None:
        """Close the inner deserializer."""
        close(self._inner)


class _Items:
    """Reads the bytes of the items of a list."""

    def __init__(self, data: bytes, item_size: int | None) -> None:
        self._data = data
        self._item_size = item_size
        self._position = 0

    def read(self) -> list[bytes | None]:
        """The bytes of each item, None for null."""
        flag = self._take(1)[0]
        if flag not in (CONSTANT_SIZE, VARIABLE_SIZE):
            raise self._refused(f"the list begins with {flag}, not with 0 or 1")
        if flag == VARIABLE_SIZE:
            items = [self._sized_item() for _ in range(self._count(_INT.size))]
        else:
            nulls = {self._int() for _ in range(self._count(_INT.size))}
            items = self._equal_items(nulls)
        if self._position != len(self._data):
            raise self._refused(f"{len(self._data) - self._position} bytes follow the list")
        return items

    def _equal_items(self, nulls: set[int]) -> list[bytes | None]:
        size = self._item_size
        if size is None:
            raise self._refused(
                "the items have one size, which the inner deserializer does not know"
            )
        count = self._int()
        if not 0 <= count <= len(nulls) + len(self._data) // size:
            raise self._refused(f"{count} items do not fit into the data")
        return [None if index in nulls else self._take(size) for index in range(count)]

    def _sized_item(self) -> bytes | None:
        size = self._int()
        if size < _NULL_ITEM:
            raise self._refused(f"an item has the size {size}")
        return None if size == _NULL_ITEM else self._take(size)

    def _count(self, least_size: int) -> int:
        """A number of entries that can be there, so that a lie costs no memory."""
        count = self._int()
        if not 0 <= count <= (len(self._data) - self._position) // least_size:
            raise self._refused(f"{count} entries do not fit into the data")
        return count

    def _int(self) -> int:
        number: int = _INT.unpack(self._take(_INT.size))[0]
        return number

    def _take(self, size: int) -> bytes:
        start, self._position = self._position, self._position + size
        if self._position > len(self._data):
            raise self._refused("the list ends in the middle")
        return self._data[start : self._position]

    def _refused(self, reason: str) -> DeserializationError:
        return DeserializationError(reason, raw=self._data)


def configure(named: object, config: Mapping[str, Any], is_key: bool) -> None:
    """Call `configure` of a serializer or deserializer that has it."""
    if callable(getattr(named, "configure", None)):
        named.configure(config, is_key)  # type: ignore[attr-defined]


def close(named: object) -> None:
    """Call `close` of an object that has it."""
    if callable(getattr(named, "close", None)):
        named.close()  # type: ignore[attr-defined]


def _size_of(inner: object) -> int | None:
    """How many bytes each item has, where Java's client leaves their sizes out."""
    if type(inner) in _NUMBERS:
        return inner.layout.size  # type: ignore[attr-defined, no-any-return]
    return (
        UUIDDeserializer.size_bytes if type(inner) in (UUIDSerializer, UUIDDeserializer) else None
    )


def _with_size(item: bytes | None) -> tuple[bytes, ...]:
    return (_INT.pack(_NULL_ITEM),) if item is None else (_INT.pack(len(item)), item)


def _java_names(end: str, *names: str) -> list[str]:
    """Kafka's names of a class, and of the Serde for it, which default.list.key.serde.inner takes."""
    serdes = [f"{_JAVA_PACKAGE}.Serdes${name}Serde" for name in names]
    return [*(f"{_JAVA_PACKAGE}.{name}{end}" for name in names), *serdes]


def _by_name(end: str, classes: Mapping[str, tuple[type, tuple[str, ...]]]) -> dict[str, type]:
    named = {short: made for short, (made, _) in classes.items()}
    for made, java in classes.values():
        named |= dict.fromkeys(_java_names(end, *java), made)
    return named


SERIALIZERS: BuiltIn = {
    **_by_name(
        "Serializer",
        {
            "bytes": (BytesSerializer, ("ByteArray", "Bytes", "ByteBuffer")),
            "str": (StringSerializer, ("String",)),
            "short": (ShortSerializer, ("Short",)),
            "int": (IntegerSerializer, ("Integer",)),
            "long": (LongSerializer, ("Long",)),
            "float": (FloatSerializer, ("Float",)),
            "double": (DoubleSerializer, ("Double",)),
            "boolean": (BooleanSerializer, ("Boolean",)),
            "uuid": (UUIDSerializer, ("UUID",)),
            "void": (VoidSerializer, ("Void",)),
            "list": (ListSerializer, ("List",)),
        },
    ),
    "string": StringSerializer,
    "integer": IntegerSerializer,
    "json": JSONSerializer,
    "org.apache.kafka.connect.json.JsonSerializer": JSONSerializer,
}

DESERIALIZERS: BuiltIn = {
    **_by_name(
        "Deserializer",
        {
            "bytes": (BytesDeserializer, ("ByteArray", "Bytes", "ByteBuffer")),
            "str": (StringDeserializer, ("String",)),
            "short": (ShortDeserializer, ("Short",)),
            "int": (IntegerDeserializer, ("Integer",)),
            "long": (LongDeserializer, ("Long",)),
            "float": (FloatDeserializer, ("Float",)),
            "double": (DoubleDeserializer, ("Double",)),
            "boolean": (BooleanDeserializer, ("Boolean",)),
            "uuid": (UUIDDeserializer, ("UUID",)),
            "void": (VoidDeserializer, ("Void",)),
            "list": (ListDeserializer, ("List",)),
        },
    ),
    "string": StringDeserializer,
    "integer": IntegerDeserializer,
    "json": JSONDeserializer,
    "org.apache.kafka.connect.json.JsonDeserializer": JSONDeserializer,
}

_PYTHON_TYPES = {bytes: "bytes", str: "str", UUID: "uuid", list: "list"}
"""Classes of Python that stand for the serializer of their objects."""

_KINDS_OF_LISTS: BuiltIn = {
    "list": list,
    "tuple": tuple,
    "java.util.ArrayList": list,
    "java.util.LinkedList": list,
}
