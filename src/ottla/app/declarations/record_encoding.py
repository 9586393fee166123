"""From what programs send to the bytes of a record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from enum import Enum
from typing import Any, Final, Protocol
from uuid import UUID

from ottla.app.declarations.json_conversion import dump_json
from ottla.app.declarations.record_decoding import SchemaNeededError, is_protobuf_message
from ottla.app.delivery.unit import OutgoingRecord
from ottla.client.model import Headers, HeadersToSend
from ottla.client.plugins.serializers import (
    BytesSerializer,
    JSONSerializer,
    LookupPending,
    Serializer,
    StringSerializer,
)
from ottla.errors import KafkaError, OttlaError, SerializationError
from ottla.schemas.codec import NOT_CACHED, Codec

# Serializers that leave the choice to the value: bytes, text, or JSON.
_PLAIN_SERIALIZERS: Final = (BytesSerializer, StringSerializer, JSONSerializer)


class WritingCodecs(Protocol):
    """The codecs of an app with a schema registry."""

    def writes(self, value: Any, *, is_key: bool) -> Codec[Any] | None:
        """The codec for a value; None if its type has no schema."""


def headers_of(headers: HeadersToSend) -> Headers:
    """Headers as pairs; text as values is a TypeError that says so."""
    if headers is None:
        return ()
    pairs = tuple(headers.items() if hasattr(headers, "items") else headers)
    for pair in pairs:
        if (
            not isinstance(pair, tuple)
            or len(pair) != 2
            or not isinstance(pair[0], str)
            or not (pair[1] is None or isinstance(pair[1], bytes))
        ):
            raise TypeError(f'{pair!r} is no header: write ("name", b"value")')
    return pairs


@dataclass(frozen=True)
class Encoding:
    """How an app writes keys and values: the serializers of its options, and its schema registry."""

    key_serializer: Serializer | None = None
    value_serializer: Serializer | None = None
    codecs: WritingCodecs | None = None
    outgoing_headers: Callable[[str, Headers], Headers] | None = None
    """Adds headers to every record, as traces do."""

    def record(
        self,
        topic: str,
        value: Any,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: HeadersToSend = None,
        timestamp_ms: int | None = None,
    ) -> OutgoingRecord:
        """The record as bytes; SchemaNeededError if a codec has to ask the registry first."""
        pairs = headers_of(headers)
        encoded_value = self._encode(topic, value, pairs, is_key=False)
        encoded_key = self._encode(topic, key, pairs, is_key=True)
        if self.outgoing_headers is not None:
            pairs = self.outgoing_headers(topic, pairs)
        return OutgoingRecord(
            topic=topic,
            value=encoded_value,
            key=encoded_key,
            partition=partition,
            headers=pairs,
            timestamp_ms=timestamp_ms,
        )

    async def record_with_schemas(self, topic: str, value: Any, **others: Any) -> OutgoingRecord:
        """The same; asks the registry for schemas that are not cached."""
        while True:
            try:
                return self.record(topic, value, **others)
            except SchemaNeededError as needed:
                await needed.load()

    def _encode(self, topic: str, value: Any, headers: Headers, *, is_key: bool) -> bytes | None:
        if value is None or type(value) is bytes:
            return value
        what = "key" if is_key else "value"
        serializer = self.key_serializer if is_key else self.value_serializer
        try:
            if serializer is not None and not isinstance(serializer, _PLAIN_SERIALIZERS):
                return serializer.serialize(topic, headers, value)
            codec = None if self.codecs is None else self.codecs.writes(value, is_key=is_key)
            if codec is None:
                return plain_bytes(value)
            data = codec.try_encode(topic, is_key, value, headers)
        except KafkaError:
            raise
        except LookupPending as pending:
            raise SchemaNeededError(pending.wait) from None
        except (OttlaError, TypeError, ValueError) as error:
            raise SerializationError(f"{topic}: the {what} cannot be written: {error}") from error
        if data is NOT_CACHED:
            raise SchemaNeededError(lambda: codec.encode(topic, is_key, value, headers))
        return data


def plain_bytes(value: Any) -> bytes:
    """Text as UTF-8, what has one text (a UUID, a date) as that, Protobuf messages, everything else as JSON."""
    if isinstance(value, Enum):
        return plain_bytes(value.value)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, UUID | Decimal):
        return str(value).encode()
    if isinstance(value, date | time):
        return value.isoformat().encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if is_protobuf_message(type(value)):
        encoded: bytes = value.SerializeToString()
        return encoded
    if callable(dump := getattr(value, "model_dump_json", None)):
        text: str = dump()
        return text.encode()
    return dump_json(value)
