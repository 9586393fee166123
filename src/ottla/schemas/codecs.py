"""A codec for a class: a serializer and a deserializer of one format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from ottla.config.options import dotted_names, options_of
from ottla.errors import ConfigError
from ottla.schemas.codec import Codec, Format
from ottla.schemas.config import DeserializerConfig
from ottla.schemas.serializers.avro import AvroDeserializer, AvroSerializer
from ottla.schemas.serializers.json_schema import JSONSchemaDeserializer, JSONSchemaSerializer
from ottla.schemas.serializers.lookups import Registry
from ottla.schemas.serializers.protobuf import ProtobufDeserializer, ProtobufSerializer
from ottla.schemas.serializers.schema_deserializer import SchemaDeserializer
from ottla.schemas.serializers.schema_serializer import SchemaSerializer
from ottla.schemas.subjects import SubjectStrategy

T = TypeVar("T")

_FORMATS: Mapping[str, tuple[Any, Any]] = {
    "avro": (AvroSerializer, AvroDeserializer),
    "json": (JSONSchemaSerializer, JSONSchemaDeserializer),
    "protobuf": (ProtobufSerializer, ProtobufDeserializer),
}


def codec_for(
    type_: type[T],
    format: Format = "avro",
    *,
    registry: Registry,
    subject_strategy: str | SubjectStrategy = "topic",
    namespace: str | None = None,
    options: Mapping[str, object] | None = None,
) -> Codec[T]:
    """The codec of a dataclass, a pydantic model or a Protobuf message class, for keys and values of any topic.

    `registry` is a client (blocking or for asyncio), an address or a client's options; `subject_strategy` is topic,
    record, topic_record or a function; `namespace` is that of Avro's names, Protobuf's package; `options` are those of
    the serializer, such as auto.register.schemas.
    """
    if format not in _FORMATS:
        raise ConfigError(f"{format!r} is no format of schemas: it must be avro, json or protobuf")
    serializer, deserializer = _FORMATS[format]
    given = {**dotted_names(options or {}), "subject.name.strategy": subject_strategy}
    reading = {
        name: value
        for name, value in given.items()
        # The latest version is for writing: a class reads everything as its own schema has it.
        if name in options_of(DeserializerConfig) and name != "use.latest.version"
    }
    named = {} if namespace is None or format == "json" else {_NAMESPACE[format]: namespace}
    reader_named = named if format == "avro" else {}
    writer: SchemaSerializer[T] = serializer(type_, registry=registry, config=given, **named)
    return SchemaCodec(
        writer,
        deserializer(type_, registry=writer.registry, config=reading, **reader_named),
    )


_NAMESPACE = {"avro": "namespace", "protobuf": "package"}


class SchemaCodec(Generic[T]):
    """A serializer and a deserializer as one."""

    def __init__(
        self, serializer: SchemaSerializer[T], deserializer: SchemaDeserializer[T]
    ) -> None:
        self._serializer = serializer
        self._deserializer = deserializer
        self.encode = serializer.encode
        self.try_encode = serializer.try_encode
        self.decode = deserializer.decode
        self.try_decode = deserializer.try_decode

    def close(self) -> None:
        """Close the registry's client, if it was made for this codec."""
        self._serializer.close()
