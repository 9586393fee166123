"""Data in Confluent's wire format, read by the schemas of the registry that the console was given."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any, Final, NamedTuple
from uuid import UUID

from ottla.client.model import Headers
from ottla.console.records.decoded import Decoded, Format, SchemaUse
from ottla.console.records.json_values import json_text, whole_characters
from ottla.errors import KafkaError, OttlaError
from ottla.schemas.client.aio import AsyncSchemaRegistryClient
from ottla.schemas.errors import RegistryUnavailableError, SchemaNotFoundError
from ottla.schemas.framing import KEY_HEADER, MAGIC_ID, VALUE_HEADER, Framed, SchemaKey, read_frame
from ottla.schemas.model import SchemaType
from ottla.schemas.serializers.avro import AvroDeserializer
from ottla.schemas.serializers.json_schema import JSONSchemaDeserializer
from ottla.schemas.serializers.protobuf import ProtobufDeserializer

# What the registry did not know, or that it did not answer, is remembered for a while.
FORGET_SECONDS: Final = 15.0
MAX_KNOWN: Final = 10_000
# Binary data that begins with a zero is no reason to ask the registry about each record.
MAX_UNKNOWN_IDS: Final = 30
_FORMATS: Final = {
    SchemaType.AVRO: Format.AVRO,
    SchemaType.PROTOBUF: Format.PROTOBUF,
    SchemaType.JSON: Format.JSON_SCHEMA,
}


class NoSchemaError(Exception):
    """Data cannot be read by a schema, with the reason."""


class _Place(NamedTuple):
    topic: str
    is_key: bool


def is_framed(data: bytes, headers: Headers, is_key: bool) -> bool:
    """Whether data says, as Confluent's serializers write it, which schema it has."""
    if len(data) > 5 and data[0] == MAGIC_ID:
        return True
    name = KEY_HEADER if is_key else VALUE_HEADER
    return any(header == name for header, _ in headers)


class SchemaValues:
    """Decodes by one registry, with a memory of what it knows and of what it does not."""

    def __init__(self, registry: AsyncSchemaRegistryClient) -> None:
        self.registry: Final = registry
        self._readers: dict[str, Any] = {
            SchemaType.AVRO: AvroDeserializer(registry=registry),
            SchemaType.PROTOBUF: ProtobufDeserializer(registry=registry),
            SchemaType.JSON: JSONSchemaDeserializer(registry=registry),
        }
        self._known: dict[SchemaKey, SchemaUse] = {}
        self._unknown: dict[SchemaKey, str] = {}
        self._unknown_of: Counter[_Place] = Counter()
        self._forget_at = 0.0
        self._silent: tuple[float, str] = (0.0, "")

    async def decode(self, topic: str, is_key: bool, data: bytes, headers: Headers) -> Decoded:
        """The data as JSON; NoSchemaError says why not."""
        try:
            frame = read_frame(data, headers, is_key)
        except KafkaError as error:
            raise NoSchemaError(str(error)) from error
        except OttlaError as error:
            raise NoSchemaError(str(error)) from error
        use = await self._use_of(frame.schema, _Place(topic, is_key))
        reader = self._readers.get(use.type)
        if reader is None:
            raise NoSchemaError(
                f"schema {frame.schema} has the type {use.type}, which is not known"
            )
        try:
            value = await reader.decode(topic, is_key, data, headers)
        except OttlaError as error:
            return _unfitting(frame, use, error)
        if use.type == SchemaType.PROTOBUF:
            return _message(value, use)
        text = _payload_text(frame) if use.type == SchemaType.JSON else json_text(value)
        return Decoded(_FORMATS[SchemaType(use.type)], text, is_json=True, schema=use)

    async def _use_of(self, schema: SchemaKey, place: _Place) -> SchemaUse:
        """Type and subject of a schema."""
        found = self._known.get(schema)
        if found is not None:
            return found
        self._check_memory(schema, place)
        try:
            found = await self._ask(schema)
        except RegistryUnavailableError as error:
            reason = f"the schema registry does not answer: {error}"
            self._silent = (time.monotonic() + FORGET_SECONDS, reason)
            raise NoSchemaError(reason) from error
        except OttlaError as error:
            reason = (
                f"the registry does not know schema {schema}"
                if isinstance(error, SchemaNotFoundError)
                else str(error)
            )
            self._unknown[schema] = reason
            self._unknown_of[place] += 1
            raise NoSchemaError(reason) from error
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        self._known[schema] = found
        return found

    def _check_memory(self, schema: SchemaKey, place: _Place) -> None:
        now = time.monotonic()
        until, reason = self._silent
        if now < until:
            raise NoSchemaError(reason)
        if now >= self._forget_at:
            self._unknown.clear()
            self._unknown_of.clear()
            self._forget_at = now + FORGET_SECONDS
        if schema in self._unknown:
            raise NoSchemaError(self._unknown[schema])
        if self._unknown_of[place] >= MAX_UNKNOWN_IDS:
            raise NoSchemaError(
                f"the registry did not know {MAX_UNKNOWN_IDS} other ids of this topic: it is not asked about "
                f"schema {schema} now"
            )

    async def _ask(self, schema: SchemaKey) -> SchemaUse:
        registry = self.registry
        if isinstance(schema, UUID):
            by_guid = await registry.get_schema_by_guid(schema)
            return SchemaUse(None, str(schema), by_guid.type, None, None)
        found = await registry.get_schema(schema)
        try:
            places = await registry.get_schema_versions(schema)
        except OttlaError:
            places = []
        first = places[0] if places else None
        return SchemaUse(
            schema,
            None,
            found.type,
            None if first is None else first.subject,
            None if first is None else first.version,
        )


def _message(value: Any, use: SchemaUse) -> Decoded:
    from google.protobuf.json_format import MessageToJson

    text = MessageToJson(value, preserving_proto_field_name=True, indent=None, ensure_ascii=False)
    named = SchemaUse(
        use.id, use.guid, use.type, use.subject, use.version, value.DESCRIPTOR.full_name
    )
    return Decoded(Format.PROTOBUF, whole_characters(text), is_json=True, schema=named)


def _payload_text(frame: Framed) -> str:
    # As it was written: numbers keep all their digits.
    return bytes(frame.data[frame.payload_at :]).decode("utf-8", "backslashreplace")


def _unfitting(frame: Framed, use: SchemaUse, error: OttlaError) -> Decoded:
    """Of JSON, what does not fit its schema can be shown all the same."""
    reason = getattr(error, "reason", None) or str(error)
    if use.type != SchemaType.JSON:
        raise NoSchemaError(f"schema {frame.schema} ({use.type}): {reason}") from error
    return Decoded(
        Format.JSON_SCHEMA, _payload_text(frame), is_json=True, schema=use, problem=reason
    )
