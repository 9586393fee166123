"""Protobuf: serializers for message classes, and for dataclasses and pydantic models."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

from ottla.errors import ConfigError, DeserializationError, SerializationError
from ottla.schemas.client.operations import SERIALIZED, ReferencedSchema
from ottla.schemas.codec import Data
from ottla.schemas.compatibility.formats import parse_schema
from ottla.schemas.compatibility.parsed_schema import ReferencedSchema as TextOfReference
from ottla.schemas.derived.protobuf import protobuf_type, well_known
from ottla.schemas.derived.shapes import is_record_type
from ottla.schemas.extra import require
from ottla.schemas.framing import read_message_indexes, write_message_indexes
from ottla.schemas.model import Schema, SchemaType
from ottla.schemas.serializers.lookups import Registry
from ottla.schemas.serializers.schema_deserializer import Read, SchemaDeserializer
from ottla.schemas.serializers.schema_serializer import (
    ImportedSchema,
    OwnSchema,
    SchemaSerializer,
    imported_schemas,
)

T = TypeVar("T")

# Files that every registry and every client knows: they are not registered.
_KNOWN_IMPORTS = ("google/protobuf/", "google/type/", "confluent/")
_FILE_NAME = "default"


def _is_message_class(type_: object) -> bool:
    return (
        isinstance(type_, type)
        and hasattr(type_, "DESCRIPTOR")
        and hasattr(type_, "SerializeToString")
    )


class ProtobufSerializer(SchemaSerializer[T]):
    """Values as Protobuf: `ProtobufSerializer(Order, registry=…)` for a message class, a dataclass or a pydantic model.

    Imported files are registered first, under their own names. Without a class, the class of each value is its schema.
    """

    schema_type = SchemaType.PROTOBUF

    @overload
    def __init__(
        self: ProtobufSerializer[T],
        message: type[T],
        /,
        *,
        registry: Registry | None = ...,
        config: Mapping[str, object] | None = ...,
        package: str | None = ...,
        **options: object,
    ) -> None: ...
    @overload
    def __init__(
        self: ProtobufSerializer[Any],
        message: None = ...,
        /,
        *,
        registry: Registry | None = ...,
        config: Mapping[str, object] | None = ...,
        package: str | None = ...,
        **options: object,
    ) -> None: ...
    def __init__(
        self,
        message: type | None = None,
        /,
        *,
        registry: Registry | None = None,
        config: Mapping[str, object] | None = None,
        package: str | None = None,
        **options: object,
    ) -> None:
        super().__init__(registry, config, options)
        self._package = package
        self._own = None if message is None else self._own_of(message)

    def _writer_key(self, value: Any) -> object:
        return None if self._own is not None else type(value)

    def _own_schema(self, value: Any) -> OwnSchema:
        return self._own_of(type(value)) if self._own is None else self._own

    def _own_of(self, type_: Any) -> OwnSchema:
        message, encode = _message_and_encoder(type_, self._package)
        file = message.DESCRIPTOR.file
        indexes = write_message_indexes(_path_of(message.DESCRIPTOR))
        return OwnSchema(
            name=message.DESCRIPTOR.full_name,
            schema=Schema(_text_of(file), SchemaType.PROTOBUF),
            encode=lambda value: indexes + encode(value),
            imports=_imports_of(file),
        )

    def _encoder(
        self, schema: Schema, references: tuple[ReferencedSchema, ...], own: OwnSchema
    ) -> Callable[[Any], bytes]:
        """The bytes of the program's message, with its path in the registry's file."""
        assert own.name is not None
        file = _file_of(schema, references)
        path = _path_of_name(file, own.name)
        own_indexes = len(write_message_indexes(self._own_path(own)))
        indexes = write_message_indexes(path)
        return lambda value: indexes + own.encode(value)[own_indexes:]

    def _own_path(self, own: OwnSchema) -> tuple[int, ...]:
        assert own.name is not None
        return _path_of_name(
            _file_of(own.schema, imported_schemas(own.imports, self.schema_type)), own.name
        )


class ProtobufDeserializer(SchemaDeserializer[T]):
    """Values from Protobuf: `ProtobufDeserializer(Order, registry=…)`.

    A message class reads the bytes itself; a dataclass or a pydantic model takes the writer's fields by their names;
    `dict` makes dicts; without a class, values are messages as the writer's schema describes them.
    """

    schema_type = SchemaType.PROTOBUF

    @overload
    def __init__(
        self: ProtobufDeserializer[T],
        message: type[T],
        /,
        *,
        registry: Registry | None = ...,
        config: Mapping[str, object] | None = ...,
        **options: object,
    ) -> None: ...
    @overload
    def __init__(
        self: ProtobufDeserializer[Any],
        message: None = ...,
        /,
        *,
        registry: Registry | None = ...,
        config: Mapping[str, object] | None = ...,
        **options: object,
    ) -> None: ...
    def __init__(
        self,
        message: type | None = None,
        /,
        *,
        registry: Registry | None = None,
        config: Mapping[str, object] | None = None,
        **options: object,
    ) -> None:
        super().__init__(registry, config, options)
        if self._config.use_latest_version:
            raise ConfigError(
                "use.latest.version is Avro's: Protobuf's fields have numbers for that"
            )
        self._type: Any = message
        self._from_message: Callable[[Any], Any] | None = None
        if message is dict:
            to_dict = require("google.protobuf.json_format", "Protobuf").MessageToDict
            self._from_message = lambda found: to_dict(found, preserving_proto_field_name=True)
        elif message is not None and not _is_message_class(message):
            self._from_message = protobuf_type(message, None).from_message

    def _reader(
        self,
        schema: Schema,
        references: tuple[ReferencedSchema, ...],
        latest: tuple[Schema, tuple[ReferencedSchema, ...]] | None,
    ) -> Read:
        file = _file_of(schema, references)
        classes: dict[tuple[int, ...], Any] = {}
        from_message = self._from_message
        own = self._type if _is_message_class(self._type) else None

        def class_for(path: tuple[int, ...]) -> Any:
            written = _message_at(file, path)
            if own is None:
                factory = require("google.protobuf.message_factory", "Protobuf")
                return factory.GetMessageClass(written)
            if written.name != own.DESCRIPTOR.name:
                raise DeserializationError(
                    f"the record is a {written.full_name}, where {own.DESCRIPTOR.full_name} is expected"
                )
            return own

        def read(data: Data, at: int) -> Any:
            path, at = read_message_indexes(data, at)
            kind = classes.get(path)
            if kind is None:
                kind = classes[path] = class_for(path)
            message = kind.FromString(bytes(data[at:]))
            return message if from_message is None else from_message(message)

        return read


def _message_and_encoder(type_: Any, package: str | None) -> tuple[Any, Callable[[Any], bytes]]:
    """The message class of a class, and how its objects are written."""
    if _is_message_class(type_):

        def encode(value: Any) -> bytes:
            if not isinstance(value, type_):
                raise SerializationError(
                    f"{type(value).__name__} where {type_.__name__} is expected"
                )
            data: bytes = value.SerializeToString()
            return data

        return type_, encode
    if not is_record_type(type_):
        raise SerializationError(
            f"{type_.__name__} has no schema of its own: send Protobuf messages, dataclasses or pydantic models"
        )
    derived = protobuf_type(type_, package)

    def encode_object(value: Any) -> bytes:
        message = derived.message()
        derived.to_message(value, message)
        data: bytes = message.SerializeToString()
        return data

    return derived.message, encode_object


def _text_of(file: Any) -> str:
    """A file as Confluent's Python client registers it; registries turn it into the text of a .proto file."""
    return b64encode(file.serialized_pb).decode("ascii")


def _imports_of(file: Any) -> tuple[ImportedSchema, ...]:
    return tuple(
        ImportedSchema(each.name, _text_of(each), _imports_of(each))
        for each in file.dependencies
        if not each.name.startswith(_KNOWN_IMPORTS)
    )


def _file_of(schema: Schema, references: tuple[ReferencedSchema, ...]) -> Any:
    """The descriptor of a registered file, with those that it imports, in a pool of its own."""
    pool = require("google.protobuf.descriptor_pool", "Protobuf").DescriptorPool()
    added: set[str] = set()
    for place, reference in enumerate(references):
        # Each stands behind those that it needs itself.
        proto = _proto_of(reference.schema, reference.name, references[:place])
        _add(pool, proto, added)
    _add(pool, _proto_of(schema, _FILE_NAME, references), added)
    return pool.FindFileByName(_FILE_NAME)


def _add(pool: Any, proto: Any, added: set[str]) -> None:
    for name in proto.dependency:
        if name not in added and name.startswith(_KNOWN_IMPORTS):
            _add(pool, well_known(name), added)
    if proto.name not in added:
        added.add(proto.name)
        pool.Add(proto)


def _proto_of(schema: Schema, name: str, references: tuple[ReferencedSchema, ...]) -> Any:
    """A file's descriptor; a registry that does not know format=serialized gives the text of a .proto file."""
    proto = require("google.protobuf.descriptor_pb2", "Protobuf").FileDescriptorProto()
    try:
        data = b64decode(schema.text, validate=True)
    except (Base64Error, ValueError):
        others = [TextOfReference(each.name, each.schema.text) for each in references]
        read = parse_schema(SchemaType.PROTOBUF, schema.text, others)
        data = b64decode(read.formatted(SERIALIZED))
    try:
        proto.ParseFromString(data)
    except Exception as error:
        raise ConfigError(f"the descriptor cannot be read: {error}") from error
    proto.name = name
    return proto


def _path_of(descriptor: Any) -> tuple[int, ...]:
    """Where a message's type is in its file."""
    parent = descriptor.containing_type
    if parent is None:
        return (list(descriptor.file.message_types_by_name).index(descriptor.name),)
    return (*_path_of(parent), [each.name for each in parent.nested_types].index(descriptor.name))


def _path_of_name(file: Any, full_name: str) -> tuple[int, ...]:
    try:
        return _path_of(file.pool.FindMessageTypeByName(full_name))
    except KeyError as error:
        raise SerializationError(f"the registry's schema has no message {full_name}") from error


def _message_at(file: Any, path: tuple[int, ...]) -> Any:
    """The type at a path; DeserializationError if there is none."""
    types = list(file.message_types_by_name.values())
    found: Any = None
    for number in path:
        types = types if found is None else list(found.nested_types)
        if number >= len(types):
            raise DeserializationError(f"the schema has no message at {list(path)}")
        found = types[number]
    return found
