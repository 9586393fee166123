"""Avro values as Arrow columns; no Spark is needed for that."""

from __future__ import annotations

import io
import json
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
fastavro = pytest.importorskip("fastavro")

from ottla.errors import ConfigError  # noqa: E402
from ottla.spark.pipeline.avro import arrow_type, decode, encode  # noqa: E402

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": ["null", "string"], "default": None},
            {"name": "lines", "type": {"type": "array", "items": {
                "type": "record", "name": "Line",
                "fields": [{"name": "sku", "type": "string"}, {"name": "count", "type": "int"}],
            }}},
            {"name": "tags", "type": {"type": "map", "values": ["null", "double"]}},
            {"name": "first", "type": ["null", "Line"]},
            {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
            {"name": "last_state", "type": "shop.State"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "noon", "type": {"type": "int", "logicalType": "time-millis"}},
            {"name": "price", "type": {
                "type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
            {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
        ],
    }
)  # fmt: skip
VALUE: dict[str, Any] = {
    "id": 1 << 40,
    "note": None,
    "lines": [{"sku": "espresso", "count": 2}],
    "tags": {"a": 1.5, "b": None},
    "first": {"sku": "tea", "count": 1},
    "state": "NEW",
    "last_state": "PAID",
    "at": datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    "day": date(2026, 1, 2),
    "noon": time(12, 0, 0, 5000),
    "price": Decimal("12.50"),
    "key": uuid.UUID(int=7),
}


def datum(schema: str, value: Any) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(json.loads(schema)), value)
    return file.getvalue()


def test_values_of_every_kind_become_columns() -> None:
    (found,) = decode(pa.array([datum(ORDER, VALUE)], pa.binary()), ORDER).to_pylist()
    assert found["error"] is None
    assert found["value"] == {
        **VALUE,
        "tags": [("a", 1.5), ("b", None)],
        "noon": 12 * 3_600_000 + 5,
        "key": str(uuid.UUID(int=7)),
    }


def test_columns_become_the_values_that_they_were() -> None:
    data = pa.array([datum(ORDER, VALUE), None], pa.binary())
    assert encode(decode(data, ORDER).field("value"), ORDER).to_pylist() == data.to_pylist()


def test_what_is_not_avro_of_the_schema_has_an_error_and_no_value() -> None:
    good = datum(ORDER, VALUE)
    given = [b"", good[:-1], good + b"x", b"\xff" * 40, good, None]
    found = decode(pa.array(given, pa.binary()), ORDER).to_pylist()
    for each in found[:4]:
        assert each["value"] is None
        assert each["error"].startswith("the value is not Avro of the schema: ")
    assert found[4]["value"]["id"] == VALUE["id"]
    assert found[5] == {"value": None, "error": None}, "a tombstone is not an error"


def test_a_value_that_no_column_can_hold_spoils_no_other() -> None:
    data = pa.array([datum('"int"', 1), datum('"long"', 1 << 40)], pa.binary())
    good, bad = decode(data, '"int"').to_pylist()
    assert good == {"value": 1, "error": None}
    assert bad["value"] is None
    assert bad["error"].startswith("the value is not Avro of the schema: ")


def test_no_rows_are_no_values() -> None:
    assert decode(pa.array([], pa.binary()), ORDER).type.field(0).type == arrow_type(ORDER)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ('{"type": "nonsense"}', "no Avro schema"),
        ("{", "no Avro schema"),
        ('["int", "string"]', "union of several types"),
        (
            '{"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}',
            "contains itself",
        ),
    ],
)
def test_schemas_that_cannot_be_columns_are_refused(schema: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        arrow_type(schema)
