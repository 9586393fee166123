"""Avro: serializers over fastavro, for dicts, dataclasses and pydantic models."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any, TypeVar, overload

from ottla.errors import ConfigError, DeserializationError
from ottla.schemas.client.operations import ReferencedSchema
from ottla.schemas.codec import Data
from ottla.schemas.derived.avro import avro_type
from ottla.schemas.extra import require
from ottla.schemas.model import Schema, SchemaType
from ottla.schemas.serializers.lookups import Registry
from ottla.schemas.serializers.schema_deserializer import Read, SchemaDeserializer
from ottla.schemas.serializers.schema_serializer import OwnSchema
from ottla.schemas.serializers.text_schema_serializer import (
    TextSchemaSerializer,
    references_are_missing,
)

T = TypeVar("T")


class AvroSerializer(TextSchemaSerializer[T]):
    """Values as Avro: `AvroSerializer(Order, registry=…)` for a dataclass or a pydantic model.

    With the text of a schema instead of a class, values are dicts; with neither, the class of each value is its schema.
    Options have Confluent's names: `AvroSerializer(Order, registry="http://…", use_latest_version=True)`.
    """

    schema_type = SchemaType.AVRO

    @overload
    def __init__(
        self: AvroSerializer[T],
        schema: type[T],
        /,
        *,
        registry: Registry | None = ...,
        config: Mapping[str, object] | None = ...,
        to_dict: None = ...,
        namespace: str | None = ...,
        **options: object,
    ) -> None: ...
    @overload
    def __init__(
        self: AvroSerializer[Any],
        schema: str | Schema | None = ...,
        /,
        *,
        registry: Registry | None = ...,
        config: Mapping[str, object] | None = ...,
        to_dict: Callable[[Any], Any] | None = ...,
        namespace: str | None = ...,
        **options: object,
    ) -> None: ...
    def __init__(
        self,
        schema: type | str | Schema | None = None,
        /,
        *,
        registry: Registry | None = None,
        config: Mapping[str, object] | None = None,
        to_dict: Callable[[Any], Any] | None = None,
        namespace: str | None = None,
        **options: object,
    ) -> None:
        self._namespace = namespace
        super().__init__(schema, to_dict, registry, config, options)

    def _own_of_type(self, type_: Any) -> OwnSchema:
        derived = avro_type(type_, self._namespace)
        schema = Schema(derived.text)
        return OwnSchema(derived.name, schema, _encoder(parsed(schema, ()), derived.to_plain))

    def _own_of_text(self, schema: Schema) -> OwnSchema:
        # A schema with references is read when they are known; its name is in its own text.
        definition = _loaded(schema.text)
        encode: Callable[[Any], bytes] = references_are_missing
        if not schema.references:
            encode = _encoder(parsed(schema, ()), self._to_dict)
        return OwnSchema(_name_of(definition), schema, encode)

    def _encoder(
        self, schema: Schema, references: tuple[ReferencedSchema, ...], own: OwnSchema
    ) -> Callable[[Any], bytes]:
        return _encoder(parsed(schema, references), self._plain_of)

    def _to_plain_of(self, type_: Any) -> Callable[[Any], Any] | None:
        return avro_type(type_, self._namespace).to_plain


class AvroDeserializer(SchemaDeserializer[T]):
    """Values from Avro: `AvroDeserializer(Order, registry=…)` makes dataclasses or pydantic models.

    The class, or the text of a schema, is the reader's schema: Avro's rules turn what was written with another version
    into it. Without either, values are dicts as they were written.
    """

    schema_type = SchemaType.AVRO

    @overload
    def __init__(
        self: AvroDeserializer[T],
        schema: type[T],
        /,
        *,
        registry: Registry | None = ...,
        config: Mapping[str, object] | None = ...,
        from_dict: None = ...,
        namespace: str | None = ...,
        **options: object,
    ) -> None: ...
    @overload
    def __init__(
        self: AvroDeserializer[T],
        schema: str | Schema | None = ...,
        /,
        *,
        registry: Registry | None = ...,
        config: Mapping[str, object] | None = ...,
        from_dict: Callable[[Any], T],
        namespace: str | None = ...,
        **options: object,
    ) -> None: ...
    @overload
    def __init__(
        self: AvroDeserializer[Any],
        schema: str | Schema | None = ...,
        /,
        *,
        registry: Registry | None = ...,
        config: Mapping[str, object] | None = ...,
        from_dict: None = ...,
        namespace: str | None = ...,
        **options: object,
    ) -> None: ...
    def __init__(
        self,
        schema: type | str | Schema | None = None,
        /,
        *,
        registry: Registry | None = None,
        config: Mapping[str, object] | None = None,
        from_dict: Callable[[Any], Any] | None = None,
        namespace: str | None = None,
        **options: object,
    ) -> None:
        super().__init__(registry, config, options)
        self._from_plain = from_dict
        self._own: Any = None
        self._is_class = isinstance(schema, type) and schema is not dict
        if isinstance(schema, type) and schema is not dict:
            derived = avro_type(schema, namespace)
            self._own, self._from_plain = parsed(Schema(derived.text), ()), derived.from_plain
        elif schema is not None and schema is not dict:
            own = Schema(schema) if isinstance(schema, str) else schema
            assert isinstance(own, Schema)
            if own.references:
                raise ConfigError("a reader's schema with references: give it as one text")
            self._own = parsed(own, ())

    def _reader(
        self,
        schema: Schema,
        references: tuple[ReferencedSchema, ...],
        latest: tuple[Schema, tuple[ReferencedSchema, ...]] | None,
    ) -> Read:
        written = parsed(schema, references)
        own = self._own if latest is None else parsed(*latest)
        if own == written:
            own = None  # nothing to resolve: fastavro would compare the two for each record
        read_datum = require("fastavro", "Avro").schemaless_reader
        from_plain, is_class = self._from_plain, self._is_class

        def read(data: Data, at: int) -> Any:
            buffer = BytesIO(data)
            buffer.seek(at)
            # For a class, records of unions with several come with their names.
            plain = read_datum(buffer, written, own, is_class, is_class)
            if buffer.tell() != len(data):
                raise DeserializationError(
                    f"{len(data) - buffer.tell()} bytes follow the value", raw=bytes(data)
                )
            return plain if from_plain is None else from_plain(plain)

        return read

    def _record_name(self, schema: Schema) -> str | None:
        return _name_of(_loaded(schema.text))


def parsed(schema: Schema, references: tuple[ReferencedSchema, ...]) -> Any:
    """A schema as fastavro reads it, with those that it refers to."""
    return parsed_with_names(schema, references)[0]


def parsed_with_names(
    schema: Schema, references: tuple[ReferencedSchema, ...]
) -> tuple[Any, dict[str, Any]]:
    """A schema as fastavro reads it, and the definitions of all names in it."""
    fastavro = require("fastavro", "Avro")
    named: dict[str, Any] = {}
    try:
        for reference in references:
            fastavro.parse_schema(_loaded(reference.schema.text), named)
        return fastavro.parse_schema(_loaded(schema.text), named), named
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"the Avro schema cannot be used: {error!r}") from error


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        bare = text.strip()
        # The name of a simple type may stand without quotes, as Confluent's clients accept it.
        if bare.isidentifier():
            return bare
        raise ConfigError(f"the Avro schema is no JSON: {error}") from error


def _name_of(definition: Any) -> str | None:
    if isinstance(definition, str):
        return definition
    if not isinstance(definition, dict):
        return None
    name, namespace = definition.get("name", definition.get("type")), definition.get("namespace")
    return f"{namespace}.{name}" if namespace and "." not in str(name) else name


def _encoder(schema: Any, to_plain: Callable[[Any], Any] | None) -> Callable[[Any], bytes]:
    write_datum = require("fastavro", "Avro").schemaless_writer

    def encode(value: Any) -> bytes:
        buffer = BytesIO()
        write_datum(buffer, schema, value if to_plain is None else to_plain(value))
        return buffer.getvalue()

    return encode
