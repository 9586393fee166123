"""Data with schemas that make much of few bytes, or take for ever."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2, struct_pb2, timestamp_pb2

from ottla.console.records.avro_bounds import (
    MAX_CHARS,
    MAX_DECIMAL_BYTES,
    MAX_DEPTH,
    AvroBounds,
    TooLargeError,
)
from ottla.console.records.json_schema_bounds import is_checked_soon
from ottla.console.records.schema_readers import message_text
from ottla.errors import DeserializationError

LIST = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
WIDE = {
    "type": "record",
    "name": "W",
    "fields": [{"name": f"{'f' * 50}{number}", "type": "null"} for number in range(1000)]
    + [{"name": "b", "type": "boolean"}],
}


def bounds_of(schema: Any) -> AvroBounds:
    named: dict[str, Any] = {}
    return AvroBounds(fastavro.parse_schema(schema, named), named)


def number(value: int) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, "long", value)
    return written.getvalue()


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ({"type": "array", "items": "null"}, number(1 << 40) + b"\0"),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, number(1 << 40)),
        (
            {"type": "array", "items": {"type": "record", "name": "E", "fields": []}},
            number(-(1 << 40)) + number(0),
        ),
        (LIST, b"\x02" * 1_000_000 + b"\0"),
        ({"type": "array", "items": WIDE}, number(10_000) + b"\1" * 10_000 + b"\0"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            number(MAX_DECIMAL_BYTES + 1) + b"\1" * (MAX_DECIMAL_BYTES + 1),
        ),
    ],
    ids=["nulls", "fixed", "records", "deep", "wide", "decimal"],
)
def test_avro_that_becomes_too_large_is_found_out_by_its_structure(
    schema: Any, data: bytes
) -> None:
    bounds = bounds_of(schema)
    assert not bounds.is_certainly_small(len(data))
    with pytest.raises(TooLargeError):
        bounds.check(data, 0)


def test_an_avro_record_that_holds_itself_without_an_end_is_no_schema() -> None:
    holds_itself = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "N"}]}
    with pytest.raises(TooLargeError, match="without an end"):
        bounds_of(holds_itself)


ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "BB"]}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {"name": "note", "type": ["null", "string", "double", "float", "boolean"]},
        {"name": "lines", "type": {"type": "array", "items": ["null", "Order"]}},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {"name": "other", "type": ["null", "Kind"]},
    ],
}


def order(depth: int) -> dict[str, Any]:
    return {
        "id": -(1 << 60),
        "kind": "BB",
        "price": Decimal(17),
        "hash": b"abcd",
        "note": ["é", 1.5, True, None][depth % 4],
        "lines": [None, *([order(depth - 1)] * 3 if depth else [])],
        "tags": {"a": 1, "b": -2},
        "other": "A",
    }


@pytest.mark.parametrize("depth", [0, 1, 4])
def test_the_structure_of_good_avro_is_read_to_its_end(depth: int) -> None:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(ORDER, {}), order(depth))
    data = written.getvalue()
    bounds = bounds_of(ORDER)
    bounds.check(data, 0)
    # One byte less is no whole value.
    with pytest.raises(DeserializationError):
        bounds.check(data[:-1], 0)


def test_ordinary_avro_is_decoded_at_once() -> None:
    fields = [{"name": f"field_{each}", "type": ["null", "string"]} for each in range(30)]
    bounds = bounds_of({"type": "record", "name": "R", "fields": fields})
    assert bounds.is_certainly_small(8_000)
    assert not bounds.is_certainly_small(MAX_CHARS)
    assert bounds_of("string").is_certainly_small(500_000)
    assert bounds_of(LIST).is_certainly_small(MAX_DEPTH)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "^(a+)+$"},
        {"properties": {"a": {"patternProperties": {"^(a+)+$": {}}}}},
        {"definitions": {"a": {"pattern": "(a+)+$"}}, "$ref": "#/definitions/a"},
        {"anyOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]},
        {
            "$defs": {"a": {"anyOf": [{"items": {"$ref": "#/$defs/a"}}] * 2}},
            "$ref": "#/$defs/a",
        },
        {"$ref": "http://127.0.0.1:1/x"},
        {"$ref": "#/nothing"},
        {"uniqueItems": True},
        {
            "$defs": {
                f"d{each}": {"allOf": [{"$ref": f"#/$defs/d{each + 1}"}] * 2} for each in range(30)
            }
            | {"d30": {"type": "string"}},
            "$ref": "#/$defs/d0",
        },
        {"enum": ["a" * 300_000]},
    ],
)
def test_json_is_not_checked_by_schemas_that_may_take_for_ever(schema: Any) -> None:
    assert not is_checked_soon(json.dumps(schema))


def test_json_is_checked_by_ordinary_schemas() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Order",
        "type": "object",
        "definitions": {"line": {"type": "object", "properties": {"pattern": {"type": "string"}}}},
        "properties": {
            "id": {"type": "integer", "minimum": 1},
            "lines": {"type": "array", "items": {"$ref": "#/definitions/line"}},
            "note": {"oneOf": [{"type": "null"}, {"type": "string"}], "default": {"pattern": "x"}},
        },
        "required": ["id"],
        "additionalProperties": False,
    }
    assert is_checked_soon(json.dumps(schema))
    assert is_checked_soon("true")
    assert not is_checked_soon("[" * 100_000)


def test_a_message_without_json_is_an_error_of_the_data() -> None:
    with pytest.raises(DeserializationError, match="no JSON"):
        message_text(timestamp_pb2.Timestamp(seconds=10**15))


def test_a_message_of_many_parts_is_too_large() -> None:
    many = struct_pb2.ListValue()
    for _ in range(600_000):
        many.values.add()
    with pytest.raises(TooLargeError):
        message_text(many)


def test_a_message_is_as_it_was() -> None:
    proto = descriptor_pb2.FileDescriptorProto(name="a.proto", dependency=["b", "c"])
    proto.message_type.add(name="M").field.add(name="f", type="TYPE_STRING")
    found = json.loads(message_text(proto))
    assert found["dependency"] == ["b", "c"]
    assert found["message_type"][0]["field"][0]["type"] == "TYPE_STRING"
    held = struct_pb2.Struct()
    held.update({"a": [1, {"b": "c"}]})
    assert json.loads(message_text(held)) == {"a": [1, {"b": "c"}]}
