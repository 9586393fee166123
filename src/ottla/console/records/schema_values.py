"""Data in Confluent's wire format, read by the schemas of the registry that the console was given."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from ottla.client.model import Headers
from ottla.console.records.decoded import Decoded, Format, SchemaUse
from ottla.console.records.json_values import json_text, whole_characters
from ottla.console.records.schema_readers import (
    BoundedAvroDeserializer,
    BoundedJSONSchemaDeserializer,
    UncheckedAvro,
    message_text,
)
from ottla.errors import KafkaError, OttlaError
from ottla.schemas.client.aio import AsyncSchemaRegistryClient
from ottla.schemas.client.exchange import Requests
from ottla.schemas.errors import RegistryUnavailableError, SchemaNotFoundError
from ottla.schemas.framing import KEY_HEADER, MAGIC_ID, VALUE_HEADER, Framed, SchemaKey, read_frame
from ottla.schemas.model import SchemaType, SubjectVersion
from ottla.schemas.serializers.protobuf import ProtobufDeserializer

# What the registry did not know, or that it did not answer, is remembered for a while.
FORGET_SECONDS: Final = 15.0
MAX_KNOWN: Final = 10_000
# Binary data that begins with a zero is no reason to ask the registry about each record.
MAX_UNKNOWN_IDS: Final = 30
MAX_PLACES: Final = 1_000
# Texts of larger data are made on a thread.
LARGE_BYTES: Final = 64 << 10
_FORMATS: Final = {
    SchemaType.AVRO: Format.AVRO,
    SchemaType.PROTOBUF: Format.PROTOBUF,
    SchemaType.JSON: Format.JSON_SCHEMA,
}


class NoSchemaError(Exception):
    """Data cannot be read by a schema, with the reason."""


SeesSubject = Callable[[str], bool]


@dataclass(frozen=True)
class _KnownSchema:
    """A schema, and the subjects that have it; None if the registry does not tell."""

    use: SchemaUse
    places: tuple[SubjectVersion, ...] | None

    def use_for(self, sees_subject: SeesSubject | None) -> SchemaUse | None:
        """The schema with a subject that the user sees; None if the user sees none of its subjects."""
        if self.places is None or (sees_subject is None and not self.places):
            return self.use
        for each in self.places:
            if sees_subject is None or sees_subject(each.subject):
                return replace(self.use, subject=each.subject, version=each.version)
        return None


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

    def __init__(self, registry: AsyncSchemaRegistryClient, requests: Requests) -> None:
        self.registry: Final = registry
        self._requests = requests
        self._readers: dict[str, Any] = {
            SchemaType.AVRO: BoundedAvroDeserializer(registry=registry),
            SchemaType.PROTOBUF: ProtobufDeserializer(registry=registry),
            SchemaType.JSON: BoundedJSONSchemaDeserializer(registry=registry),
        }
        self._known: dict[SchemaKey, _KnownSchema] = {}
        self._unknown: dict[SchemaKey, str] = {}
        self._unknown_of: Counter[_Place] = Counter()
        self._forget_at = 0.0
        self._silent: tuple[float, str] = (0.0, "")

    async def decode(
        self,
        topic: str,
        is_key: bool,
        data: bytes,
        headers: Headers,
        sees_subject: SeesSubject | None = None,
    ) -> Decoded:
        """The data as JSON; NoSchemaError says why not.

        Anybody may write the id of any schema before any data, and would be shown the names of its fields. So a user
        is shown data by a schema that has a subject which the user sees; None sees all.
        """
        try:
            frame = read_frame(data, headers, is_key)
        except KafkaError as error:
            raise NoSchemaError(str(error)) from error
        except OttlaError as error:
            raise NoSchemaError(str(error)) from error
        known = await self._known_of(frame.schema, _Place(topic, is_key))
        use = known.use_for(sees_subject)
        if use is None:
            raise NoSchemaError(_unknown_text(frame.schema))
        reader = self._readers.get(use.type)
        if reader is None:
            raise NoSchemaError(
                f"schema {frame.schema} has the type {use.type}, which is not known"
            )
        try:
            value = await reader.decode(topic, is_key, data, headers)
        except OttlaError as error:
            return _unfitting(frame, use, error)
        if use.type == SchemaType.JSON:
            text = _payload_text(frame)
        else:
            text, use = await _text_of(value, use, frame)
        return Decoded(_FORMATS[SchemaType(use.type)], text, is_json=True, schema=use)

    async def _known_of(self, schema: SchemaKey, place: _Place) -> _KnownSchema:
        """Type and subjects of a schema."""
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
            reason = _unknown_text(schema) if isinstance(error, SchemaNotFoundError) else str(error)
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

    async def _ask(self, schema: SchemaKey) -> _KnownSchema:
        registry = self.registry
        if isinstance(schema, UUID):
            by_guid = await registry.get_schema_by_guid(schema)
            return _KnownSchema(SchemaUse(None, str(schema), by_guid.type, None, None), None)
        found = await registry.get_schema(schema)
        places: tuple[SubjectVersion, ...] | None = None
        # Some registries do not tell.
        with suppress(OttlaError):
            places = await self._places_of(schema)
        return _KnownSchema(SchemaUse(schema, None, found.type, None, None), places)

    async def _places_of(self, schema: int) -> tuple[SubjectVersion, ...]:
        """The subjects and versions with this schema; if there are no others, those that are deleted softly."""
        places = await self.registry.get_schema_versions(schema)
        if not places:
            path = f"/schemas/ids/{schema}/versions"
            answer = await self.registry.run(
                self._requests.request("GET", path, query={"deleted": True}, body=None)
            )
            places = [SubjectVersion(str(each["subject"]), int(each["version"])) for each in answer]
        return tuple(places[:MAX_PLACES])


async def _text_of(value: Any, use: SchemaUse, frame: Framed) -> tuple[str, SchemaUse]:
    """What was decoded as JSON; what takes long is done on a thread."""
    make: Callable[[], str]
    if isinstance(value, UncheckedAvro):
        make = value.text
    elif use.type == SchemaType.PROTOBUF:
        use = replace(use, message=value.DESCRIPTOR.full_name)
        make = partial(message_text, value)
    else:
        make = partial(json_text, value)
    try:
        if isinstance(value, UncheckedAvro) or len(frame.data) > LARGE_BYTES:
            text = await asyncio.to_thread(make)
        else:
            text = make()
    except (OttlaError, RecursionError) as error:
        raise NoSchemaError(f"schema {frame.schema} ({use.type}): {error}") from error
    return whole_characters(text), use


def _unknown_text(schema: SchemaKey) -> str:
    return f"the registry does not know schema {schema}"


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
