"""Deserializers for data that anybody may have written, with schemas that anybody may have registered."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from ottla.console.records.avro_bounds import AvroBounds, TooLargeError
from ottla.console.records.json_schema_bounds import is_checked_soon
from ottla.console.records.json_values import json_text
from ottla.errors import DeserializationError
from ottla.schemas.client.operations import ReferencedSchema
from ottla.schemas.codec import Data
from ottla.schemas.model import Schema
from ottla.schemas.serializers.avro import AvroDeserializer, parsed_with_names
from ottla.schemas.serializers.json_schema import JSONSchemaDeserializer
from ottla.schemas.serializers.schema_deserializer import Read

MAX_CHECKED_BYTES: Final = 64 << 10
MAX_MESSAGE_CHARS: Final = 16_000_000
# What a part takes, of time as well.
PART_CHARS: Final = 32


@dataclass(frozen=True)
class UncheckedAvro:
    """Data whose value may be too large: it is read on a thread, after its structure was."""

    data: bytes
    at: int
    bounds: AvroBounds
    read: Read

    def text(self) -> str:
        """The value as JSON; DeserializationError says why there is none."""
        self.bounds.check(self.data, self.at)
        try:
            return json_text(self.read(self.data, self.at))
        except DeserializationError:
            raise
        except Exception as error:
            raise DeserializationError(f"it does not fit its schema: {error!r}") from error


class BoundedAvroDeserializer(AvroDeserializer[Any]):
    """Returns UncheckedAvro for data whose value may be too large."""

    def _reader(
        self,
        schema: Schema,
        references: tuple[ReferencedSchema, ...],
        latest: tuple[Schema, tuple[ReferencedSchema, ...]] | None,
    ) -> Read:
        bounds = AvroBounds(*parsed_with_names(schema, references))
        read = super()._reader(schema, references, latest)

        def read_bounded(data: Data, at: int) -> Any:
            if bounds.is_certainly_small(len(data) - at):
                return read(data, at)
            return UncheckedAvro(bytes(data), at, bounds, read)

        return read_bounded


class BoundedJSONSchemaDeserializer(JSONSchemaDeserializer[Any]):
    """Checks data only by schemas, and of sizes, with which that takes no time worth mentioning."""

    def _reader(
        self,
        schema: Schema,
        references: tuple[ReferencedSchema, ...],
        latest: tuple[Schema, tuple[ReferencedSchema, ...]] | None,
    ) -> Read:
        check: Read | None = None
        if not references and is_checked_soon(schema.text):
            check = super()._reader(schema, references, latest)

        def read(data: Data, at: int) -> Any:
            if check is not None and len(data) <= MAX_CHECKED_BYTES:
                return check(data, at)
            try:
                return json.loads(bytes(data[at:]))
            except (ValueError, RecursionError) as error:
                raise DeserializationError(f"not JSON: {error}", raw=bytes(data)) from error

        return read


def message_text(message: Any) -> str:
    """A message of Protobuf as JSON; DeserializationError says why there is none."""
    from google.protobuf.json_format import MessageToJson

    _check_message(message)
    try:
        text: str = MessageToJson(
            message, preserving_proto_field_name=True, indent=None, ensure_ascii=False
        )
    except Exception as error:
        # Not every message has JSON: an Any of an unknown type, a Timestamp beyond the year 9999.
        raise DeserializationError(f"it has no JSON: {error}") from error
    return text


def _check_message(message: Any) -> None:
    """Names of fields may be long, and messages that hold nothing are two bytes each."""
    chars = 0
    left = [message]
    while left:
        for field, value in left.pop().ListFields():
            values = [*value.items()] if hasattr(value, "items") else value
            if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
                values = [values]
            chars += len(field.name)
            for each in values:
                parts = each if isinstance(each, tuple) else (each,)
                for part in parts:
                    chars += PART_CHARS + (len(part) if isinstance(part, str | bytes) else 0)
                    if hasattr(part, "ListFields"):
                        left.append(part)
                if field.enum_type is not None:
                    chars += max(map(len, field.enum_type.values_by_name))
            if chars > MAX_MESSAGE_CHARS:
                raise TooLargeError(f"its value has more than {MAX_MESSAGE_CHARS:,} characters")
