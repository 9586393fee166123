"""The schemas of Python classes, to look at or to keep in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.schemas.derived.avro import avro_type
from ottla.schemas.derived.json_schema import json_type
from ottla.schemas.derived.protobuf import protobuf_type

if TYPE_CHECKING:
    from google.protobuf.message import Message


def avro_schema(type_: type, namespace: str | None = None) -> str:
    """The Avro schema of a dataclass or a pydantic model, always the same text for the same class."""
    return avro_type(type_, namespace).text


def json_schema(type_: type) -> str:
    """The JSON Schema of a dataclass or a pydantic model, always the same text for the same class."""
    return json_type(type_).text


def protobuf_schema(type_: type, package: str | None = None) -> type[Message]:
    """The message class of a dataclass or a pydantic model; its DESCRIPTOR is the schema."""
    message: type[Message] = protobuf_type(type_, package).message
    return message
