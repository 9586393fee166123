"""What became of the bytes of a key, a value or a header."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class Format(StrEnum):
    """What the bytes are taken for."""

    NULL = "null"
    EMPTY = "empty"
    TEXT = "text"
    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    JSON_SCHEMA = "json_schema"
    ARROW = "arrow"
    INTERNAL = "internal"
    """A record of `__consumer_offsets` or `__transaction_state`."""
    INTEGER = "integer"
    FLOAT = "float"
    HEX = "hex"
    BASE64 = "base64"


WantedFormat = Literal[
    "auto", "text", "json", "hex", "base64", "integer", "float", "schema", "arrow"
]
"""What users choose: `schema` is Avro, Protobuf or JSON Schema, by the registry."""


@dataclass(frozen=True)
class SchemaUse:
    """The schema that data was written with; subject and version are None where the registry does not tell them."""

    id: int | None
    guid: str | None
    type: str
    subject: str | None
    version: int | None
    message: str | None = None
    """Protobuf: the name of the message's type."""


@dataclass(frozen=True)
class Decoded:
    """Text for people, and how it was made."""

    format: Format
    text: str
    is_json: bool = False
    """Whether the text is JSON."""
    schema: SchemaUse | None = None
    problem: str | None = None
    """Why the data is shown as bytes, or what is wrong with it."""
    tried: tuple[str, ...] = ()
    """How the format was found, step by step."""
