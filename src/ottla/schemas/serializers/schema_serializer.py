"""What the serializers of all formats share: which schema to write with, and its id before the payload."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from ottla.client.model import Headers
from ottla.errors import KafkaError, SerializationError
from ottla.schemas.client.exchange import Exchange
from ottla.schemas.client.operations import ReferencedSchema, format_to_fetch
from ottla.schemas.codec import NOT_CACHED, NotCached
from ottla.schemas.compatibility import parsed_schema as compatibility
from ottla.schemas.compatibility.formats import parse_schema, problems_reading
from ottla.schemas.compatibility.parsed_schema import ParsedSchema
from ottla.schemas.config import SerializerConfig
from ottla.schemas.framing import prefix
from ottla.schemas.model import RegisteredSchema, Schema, SchemaReference, SchemaType
from ottla.schemas.serializers.lookups import Registry
from ottla.schemas.serializers.registry_plugin import RegistryPlugin
from ottla.schemas.subjects import strategy_of

T_contra = TypeVar("T_contra", contravariant=True)

_MAX_WRITERS = 10_000
_SHORTEST_TTL_SECONDS = 1.0


class ImportedSchema(NamedTuple):
    """A schema that the program's one imports, which is registered first, under its own name."""

    name: str
    text: str
    imports: tuple[ImportedSchema, ...]


@dataclass(frozen=True)
class OwnSchema:
    """The program's schema, and how values are written with it."""

    name: str | None
    schema: Schema
    encode: Callable[[Any], bytes]
    imports: tuple[ImportedSchema, ...] = ()


class Writer(NamedTuple):
    """How values are written: the bytes before them, and until when this is known."""

    prefix: bytes
    encode: Callable[[Any], bytes]
    expires_at: float | None


class SchemaSerializer(RegistryPlugin, ABC, Generic[T_contra]):
    """Writes values with a schema of a registry; formats say how."""

    schema_type: ClassVar[SchemaType]

    def __init__(
        self,
        registry: Registry | None,
        config: Mapping[str, object] | None,
        options: Mapping[str, object],
    ) -> None:
        super().__init__(registry, config, options)
        self._config = SerializerConfig.read(self._own_options)
        self._subject_of = strategy_of(self._config.subject_name_strategy)
        self._writers: dict[object, Writer] = {}

    # What a format defines

    def _writer_key(self, value: Any) -> object:
        """What the schema depends on: nothing, or the class of the value."""
        return None

    @abstractmethod
    def _own_schema(self, value: Any) -> OwnSchema:
        """The program's schema for a value."""

    @abstractmethod
    def _encoder(
        self, schema: Schema, references: tuple[ReferencedSchema, ...], own: OwnSchema
    ) -> Callable[[Any], bytes]:
        """How values are written with a schema of the registry instead."""

    # The client's plugin

    def serialize(self, topic: str, headers: Headers, value: T_contra | None) -> bytes | None:
        """The bytes of a value; it waits for the registry if the schema is new."""
        is_key = bool(self._is_key)
        data = self.try_encode(topic, is_key, value, headers)
        if data is not NOT_CACHED:
            return data
        own = self._own_schema(value)
        writer = self._lookups.run(
            (topic, is_key, self._writer_key(value)),
            lambda: self._resolve(topic, is_key, self._writer_key(value), own),
            f"the schema of {topic}'s {'keys' if is_key else 'values'}",
        )
        return writer.prefix + _encoded(writer.encode, value)

    # The codec

    def try_encode(
        self, topic: str, is_key: bool, value: T_contra | None, headers: Headers = ()
    ) -> bytes | NotCached | None:
        """The bytes of a value, or NOT_CACHED; it never waits."""
        if value is None:
            return None
        writer = self._writers.get((topic, is_key, self._writer_key(value)))
        if writer is None or (
            writer.expires_at is not None and time.monotonic() >= writer.expires_at
        ):
            return NOT_CACHED
        return writer.prefix + _encoded(writer.encode, value)

    async def encode(
        self, topic: str, is_key: bool, value: T_contra | None, headers: Headers = ()
    ) -> bytes | None:
        """The bytes of a value; it asks the registry if the schema is not cached."""
        data = self.try_encode(topic, is_key, value, headers)
        if data is not NOT_CACHED:
            return data
        writer = await self._resolve_async(topic, is_key, value)
        return writer.prefix + _encoded(writer.encode, value)

    async def prepare(self, topic: str, is_key: bool | None = None, example: Any = None) -> None:
        """Ask the registry now, so that the first record does not wait.

        A serializer without a class or schema needs an `example` of what will be sent.
        """
        key = bool(self._is_key) if is_key is None else is_key
        await self._resolve_async(topic, key, example)

    async def _resolve_async(self, topic: str, is_key: bool, value: Any) -> Writer:
        own = self._own_schema(value)
        key = self._writer_key(value)
        return await self._lookups.run_async(
            (topic, is_key, key), lambda: self._resolve(topic, is_key, key, own)
        )

    # Which schema

    def _resolve(self, topic: str, is_key: bool, key: object, own: OwnSchema) -> Exchange[Writer]:
        config, operations = self._config, self._lookups.operations
        expires_at = None
        if config.use_schema_id is not None:
            format = format_to_fetch(self.schema_type)
            schema = yield from operations.get_schema(config.use_schema_id, None, format)
            encode = yield from self._encode_with(schema, own)
            writer = Writer(prefix(config.use_schema_id), encode, None)
        elif config.use_latest_version:
            subject = self._subject_of(topic, is_key, own.name)
            format = format_to_fetch(self.schema_type)
            latest = yield from operations.get_latest_version(subject, format)
            self._check_type(latest.schema)
            if config.latest_compatibility_strict:
                yield from self._check_latest(latest, own)
            encode = yield from self._encode_with(latest.schema, own)
            ttl = operations.latest_ttl_seconds
            if ttl >= 0:
                expires_at = time.monotonic() + max(ttl, _SHORTEST_TTL_SECONDS)
            writer = Writer(prefix(latest.id), encode, expires_at)
        else:
            subject = self._subject_of(topic, is_key, own.name)
            imports = yield from self._register_imports(own.imports)
            references = (*own.schema.references, *imports)
            found = yield from self._find(subject, replace(own.schema, references=references))
            encode = own.encode
            if own.schema.references:
                encode = yield from self._encode_with(own.schema, own)
            writer = Writer(prefix(found.id), encode, None)
        if len(self._writers) >= _MAX_WRITERS:
            self._writers.clear()
        self._writers[topic, is_key, key] = writer
        return writer

    def _find(self, subject: str, schema: Schema) -> Exchange[RegisteredSchema]:
        operations, normalize = self._lookups.operations, self._config.normalize_schemas
        if self._config.auto_register_schemas:
            return (yield from operations.register_schema(subject, schema, normalize))
        return (yield from operations.lookup_schema(subject, schema, normalize, deleted=False))

    def _register_imports(
        self, imports: tuple[ImportedSchema, ...]
    ) -> Exchange[tuple[SchemaReference, ...]]:
        """Register what a schema imports, deepest first, and return the references to it."""
        references = []
        for each in imports:
            inner = yield from self._register_imports(each.imports)
            schema = Schema(each.text, self.schema_type, inner)
            if self._config.auto_register_schemas:
                yield from self._find(each.name, schema)
            found = yield from self._lookups.operations.lookup_schema(
                each.name, schema, self._config.normalize_schemas, deleted=False
            )
            if found.version is None:
                raise SerializationError(f"the registry does not tell the version of {each.name}")
            references.append(SchemaReference(each.name, each.name, found.version))
        return tuple(references)

    def _encode_with(self, schema: Schema, own: OwnSchema) -> Exchange[Callable[[Any], bytes]]:
        self._check_type(schema)
        format = format_to_fetch(self.schema_type)
        references = yield from self._lookups.operations.resolve_references(schema, format)
        return self._encoder(schema, references, own)

    def _check_type(self, schema: Schema) -> None:
        if schema.type != self.schema_type:
            raise SerializationError(
                f"the registry has a schema of type {schema.type}, where {type(self).__name__} "
                f"writes {self.schema_type}"
            )

    def _check_latest(self, latest: RegisteredSchema, own: OwnSchema) -> Exchange[None]:
        """The latest version has to be able to read what the program's schema describes."""
        operations, format = self._lookups.operations, format_to_fetch(self.schema_type)
        of_latest = yield from operations.resolve_references(latest.schema, format)
        of_own = yield from operations.resolve_references(own.schema, format)
        problems = problems_reading(
            _parsed(latest.schema, of_latest),
            _parsed(own.schema, (*of_own, *imported_schemas(own.imports, self.schema_type))),
            ("latest", "own"),
        )
        if problems:
            raise SerializationError(
                f"the latest version of {latest.subject} cannot read the program's schema: {problems[0]}. "
                "Register the program's schema, or set latest.compatibility.strict to false"
            )


def _parsed(schema: Schema, references: tuple[ReferencedSchema, ...]) -> ParsedSchema:
    texts = [compatibility.ReferencedSchema(each.name, each.schema.text) for each in references]
    return parse_schema(schema.type, schema.text, texts)


def imported_schemas(
    imports: tuple[ImportedSchema, ...], schema_type: SchemaType
) -> tuple[ReferencedSchema, ...]:
    """All that a schema imports, each behind what it needs itself."""
    found: dict[str, ReferencedSchema] = {}
    for each in imports:
        for inner in (*imported_schemas(each.imports, schema_type), _referenced(each, schema_type)):
            found.setdefault(inner.name, inner)
    return tuple(found.values())


def _referenced(imported: ImportedSchema, schema_type: SchemaType) -> ReferencedSchema:
    return ReferencedSchema(imported.name, Schema(imported.text, schema_type))


def _encoded(encode: Callable[[Any], bytes], value: Any) -> bytes:
    try:
        return encode(value)
    except (SerializationError, KafkaError):
        raise
    except Exception as error:
        raise SerializationError(
            f"{type(value).__name__} does not fit its schema: {error}"
        ) from error
