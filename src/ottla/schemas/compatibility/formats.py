"""The kinds of schemas that the registry knows, by the names of Confluent's API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.schemas.compatibility.avro_schema import parse_avro
from ottla.schemas.compatibility.json_schema import parse_json_schema
from ottla.schemas.compatibility.parsed_schema import (
    Budget,
    ParsedSchema,
    ReferencedSchema,
    SchemaError,
    SchemaParser,
    SchemaTooComplexError,
)


def _parse_protobuf(text: str, references: Sequence[ReferencedSchema]) -> ParsedSchema:
    # The package protobuf comes with the extra, and is not needed for the other kinds.
    from ottla.schemas.compatibility.protobuf_schema import parse_protobuf

    return parse_protobuf(text, references)


_PARSERS: Final[dict[str, SchemaParser]] = {
    "JSON": parse_json_schema,
    "PROTOBUF": _parse_protobuf,
    "AVRO": parse_avro,
}
SCHEMA_TYPES: Final = tuple(_PARSERS)


def parse_schema(
    schema_type: str, text: str, references: Sequence[ReferencedSchema] = ()
) -> ParsedSchema:
    """Understand a schema, or raise SchemaError."""
    parser = _PARSERS.get(schema_type)
    if parser is None:
        raise SchemaError(f"Invalid schema type {schema_type}")
    try:
        return parser(text, references)
    except RecursionError as error:
        raise SchemaTooComplexError("the schema is nested too deeply") from error


def problems_reading(
    reader: ParsedSchema, writer: ParsedSchema, names: tuple[str, str]
) -> list[str]:
    """Why one schema cannot read the data of another one; the names are what messages call the two."""
    if type(reader) is not type(writer):
        return ["Incompatible because of different schema type"]
    try:
        found = reader.problems_reading(writer, Budget())
    except RecursionError as error:
        raise SchemaTooComplexError("the schemas are nested too deeply to be compared") from error
    return [each.text(*names) for each in found]
