"""What the deserializers of all formats share: finding the schema that a record was written with."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from ottla.client.model import Headers
from ottla.errors import DeserializationError, KafkaError
from ottla.schemas.client.exchange import Exchange
from ottla.schemas.client.operations import ReferencedSchema, format_to_fetch
from ottla.schemas.codec import NOT_CACHED, Data, NotCached
from ottla.schemas.config import DeserializerConfig
from ottla.schemas.errors import SchemaNotFoundError
from ottla.schemas.framing import MAGIC_ID, Framed, SchemaKey, read_frame
from ottla.schemas.model import Schema, SchemaType
from ottla.schemas.serializers.lookups import Registry
from ottla.schemas.serializers.registry_plugin import RegistryPlugin
from ottla.schemas.subjects import strategy_of

T_co = TypeVar("T_co", covariant=True)

Read: TypeAlias = Callable[[Data, int], Any]
"""Reads a value from bytes, beginning at a place."""

_MAX_READERS = 10_000
_REFUSED_SECONDS = 5.0


class Refused(NamedTuple):
    """A schema that cannot be used; the registry is asked again after a while."""

    reason: str
    expires_at: float


class SchemaDeserializer(RegistryPlugin, ABC, Generic[T_co]):
    """Reads values that say which schema of a registry they were written with; formats say how."""

    schema_type: ClassVar[SchemaType]
    runs_user_code = True
    """Classes of the program are made here: where other code of the program runs."""

    def __init__(
        self,
        registry: Registry | None,
        config: Mapping[str, object] | None,
        options: Mapping[str, object],
    ) -> None:
        super().__init__(registry, config, options)
        self._config = DeserializerConfig.read(self._own_options)
        self._subject_of = strategy_of(self._config.subject_name_strategy)
        self._readers: dict[object, Read | Refused] = {}

    # What a format defines

    @abstractmethod
    def _reader(
        self,
        schema: Schema,
        references: tuple[ReferencedSchema, ...],
        latest: tuple[Schema, tuple[ReferencedSchema, ...]] | None,
    ) -> Read:
        """How records with this schema are read; as the `latest` one has them, if it is given."""

    # The client's plugin

    def deserialize(self, topic: str, headers: Headers, data: Data | None) -> T_co | None:
        """The value of bytes; it waits for the registry if the schema is new."""
        is_key = bool(self._is_key)
        value = self.try_decode(topic, is_key, data, headers)
        if value is not NOT_CACHED:
            return value
        assert data is not None
        frame = read_frame(data, headers, is_key)
        key = self._reader_key(topic, is_key, frame.schema)
        self._lookups.run(
            key, lambda: self._resolve(topic, is_key, frame.schema), f"schema {frame.schema}"
        )
        return self._read(self._readers[key], frame)

    # The codec

    def try_decode(
        self, topic: str, is_key: bool, data: Data | None, headers: Headers = ()
    ) -> T_co | NotCached | None:
        """The value of bytes, or NOT_CACHED; it never waits."""
        if data is None:
            return None
        if not headers and len(data) >= 5 and data[0] == MAGIC_ID:
            frame = Framed(int.from_bytes(data[1:5], "big"), data, 5)
        else:
            frame = read_frame(data, headers, is_key)
        reader = self._readers.get(self._reader_key(topic, is_key, frame.schema))
        if reader is None or (type(reader) is Refused and time.monotonic() >= reader.expires_at):
            return NOT_CACHED
        return self._read(reader, frame)

    async def decode(
        self, topic: str, is_key: bool, data: Data | None, headers: Headers = ()
    ) -> T_co | None:
        """The value of bytes; it asks the registry if the schema is not cached."""
        value = self.try_decode(topic, is_key, data, headers)
        if value is not NOT_CACHED:
            return value
        assert data is not None
        frame = read_frame(data, headers, is_key)
        key = self._reader_key(topic, is_key, frame.schema)
        await self._lookups.run_async(key, lambda: self._resolve(topic, is_key, frame.schema))
        return self._read(self._readers[key], frame)

    def _reader_key(self, topic: str, is_key: bool, schema: SchemaKey) -> object:
        return (topic, is_key, schema) if self._config.use_latest_version else schema

    def _read(self, reader: Read | Refused, frame: Framed) -> T_co:
        if isinstance(reader, Refused):
            raise DeserializationError(reader.reason, raw=bytes(frame.data))
        try:
            value: T_co = reader(frame.data, frame.payload_at)
        except (DeserializationError, KafkaError):
            raise
        except Exception as error:
            raise DeserializationError(
                f"the record does not fit schema {frame.schema}: {error!r}", raw=bytes(frame.data)
            ) from error
        return value

    # Which schema

    def _resolve(self, topic: str, is_key: bool, written: SchemaKey) -> Exchange[None]:
        """Find out how records with a schema are read; what cannot be read at all is remembered for a while."""
        try:
            reader: Read | Refused = yield from self._find_reader(topic, is_key, written)
        except SchemaNotFoundError as error:
            reader = Refused(
                f"the registry does not know schema {written} ({error}): is it another registry's, "
                "or was the record not written by a schema serializer?",
                time.monotonic() + _REFUSED_SECONDS,
            )
        except KafkaError:
            raise
        except Exception as error:
            reader = Refused(
                f"schema {written} cannot be used: {error}", time.monotonic() + _REFUSED_SECONDS
            )
        if len(self._readers) >= _MAX_READERS:
            self._readers.clear()
        self._readers[self._reader_key(topic, is_key, written)] = reader

    def _find_reader(self, topic: str, is_key: bool, written: SchemaKey) -> Exchange[Read]:
        operations, format = self._lookups.operations, format_to_fetch(self.schema_type)
        if isinstance(written, UUID):
            schema = yield from operations.get_schema_by_guid(written, format)
        else:
            schema = yield from operations.get_schema(written, None, format)
        if schema.type != self.schema_type:
            raise DeserializationError(
                f"it is of type {schema.type}, where {type(self).__name__} reads {self.schema_type}"
            )
        references = yield from operations.resolve_references(schema, format)
        latest = None
        if self._config.use_latest_version:
            subject = self._subject_of(topic, is_key, self._record_name(schema))
            found = (yield from operations.get_latest_version(subject, format)).schema
            latest = found, (yield from operations.resolve_references(found, format))
        return self._reader(schema, references, latest)

    def _record_name(self, schema: Schema) -> str | None:
        """The name of a schema's record, for subject names."""
        return None
