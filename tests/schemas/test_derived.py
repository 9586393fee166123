"""Schemas of Python classes: what they are, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import fastavro
import jsonschema
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from tests.schemas.shop import Guest, Item, NewReceipt, Order, Payment

from ottla.errors import ConfigError
from ottla.schemas import avro_schema, json_schema, protobuf_schema


@dataclass
class Recent:
    """Its defaults change from call to call."""

    key: UUID = field(default_factory=uuid4)
    at: datetime = field(default_factory=datetime.now)
    names: list[str] = field(default_factory=lambda: ["a"])


@dataclass
class NoDigits:
    price: Decimal


@dataclass
class Untyped:
    parts: list  # type: ignore[type-arg]


@dataclass
class NumberKeys:
    parts: dict[int, str]


@dataclass
class Strange:
    part: complex


@dataclass
class Long:
    lasts: timedelta


@dataclass
class OptionalList:
    parts: list[str] | None


@dataclass
class DefaultBesideNone:
    note: str | None = "x"


@dataclass
class SameNumbers:
    one: int = field(metadata={"number": 1})
    two: int = field(metadata={"number": 1})


@dataclass
class TwoTexts:
    by: UUID | str


def test_an_avro_schema_has_names_types_defaults_docs_and_aliases() -> None:
    schema = json.loads(avro_schema(Order, namespace="com.shop"))
    assert (schema["name"], schema["namespace"]) == ("Order", "com.shop")
    assert schema["doc"] == "An order of a table."
    fields = {each["name"]: each for each in schema["fields"]}
    assert fields["id"] == {"name": "id", "type": "long"}
    assert fields["note"] == {"name": "note", "type": ["null", "string"], "default": None}
    assert json.loads(avro_schema(NewReceipt))["fields"][1] == {
        "name": "tip",
        "type": "long",
        "doc": "in cents",
        "aliases": ["gratuity"],
    }
    item = fields["items"]["type"]["items"]
    assert item["fields"][1]["type"] == {
        "type": "bytes",
        "logicalType": "decimal",
        "precision": 12,
        "scale": 2,
    }
    assert item["fields"][2]["type"]["symbols"] == ["SMALL", "LARGE"]
    assert fields["ordered_at"]["type"]["logicalType"] == "timestamp-micros"
    assert fields["scan"]["default"] == "\x00\xff"


@pytest.mark.parametrize("type_", [Order, Item, Payment, Guest, Recent])
def test_schemas_are_valid_and_always_the_same_text(type_: type) -> None:
    assert avro_schema(type_) == avro_schema(type_)
    fastavro.parse_schema(json.loads(avro_schema(type_)))
    assert json_schema(type_) == json_schema(type_)
    jsonschema.Draft202012Validator.check_schema(json.loads(json_schema(type_)))


def test_defaults_that_change_are_not_in_the_schema() -> None:
    fields = {each["name"]: each for each in json.loads(avro_schema(Recent))["fields"]}
    assert "default" not in fields["key"]
    assert "default" not in fields["at"]
    assert fields["names"]["default"] == ["a"]


def test_a_default_beside_none_comes_first_in_the_union() -> None:
    (note,) = json.loads(avro_schema(DefaultBesideNone))["fields"]
    assert note == {"name": "note", "type": ["string", "null"], "default": "x"}


def test_pydantic_s_own_schema_is_used_for_json_and_its_objects_are_closed() -> None:
    guest = json.loads(json_schema(Guest))["$defs"]["Guest"]
    assert guest["properties"]["guestNumber"]["minimum"] == 0
    assert guest["required"] == ["guestNumber", "name", "owes"]
    assert guest["additionalProperties"] is False


def test_a_protobuf_message_has_numbers_presence_maps_and_the_well_known_times() -> None:
    descriptor: Any = protobuf_schema(Order, package="com.shop").DESCRIPTOR
    assert descriptor.full_name == "com.shop.Order"
    file = FileDescriptorProto()
    descriptor.file.CopyToProto(file)
    assert file.dependency == ["google/protobuf/timestamp.proto"]
    assert [message.name for message in file.message_type] == ["Order", "Item"]
    fields = {each.name: each for each in file.message_type[0].field}
    assert [fields[name].number for name in ("id", "items", "note")] == [1, 2, 3]
    assert not fields["id"].proto3_optional
    assert fields["paid"].proto3_optional
    assert fields["tables"].type_name == ".com.shop.Order.TablesEntry"
    assert [each.name for each in file.enum_type[0].value] == [
        "Size_UNSPECIFIED",
        "Size_SMALL",
        "Size_LARGE",
    ]


@pytest.mark.parametrize(
    ("type_", "make", "match"),
    [
        (NoDigits, avro_schema, r"NoDigits\.price: .*Digits\(12, 2\)"),
        (Untyped, avro_schema, r"Untyped\.parts: .*write list\[str\]"),
        (NumberKeys, json_schema, r"NumberKeys\.parts: the keys of a map must be str"),
        (Strange, json_schema, r"Strange\.part: .*complex has no place"),
        (Long, avro_schema, r"Long\.lasts: Avro has no timedelta"),
        (TwoTexts, avro_schema, r"TwoTexts\.by: two types of a union are one type in Avro"),
        (Payment, protobuf_schema, r"Payment\.by: Protobuf has no unions"),
        (OptionalList, protobuf_schema, r"OptionalList\.parts: .*None from an empty list"),
        (DefaultBesideNone, protobuf_schema, r"DefaultBesideNone\.note: .*make the default None"),
        (SameNumbers, protobuf_schema, r"SameNumbers\.two: 1 cannot be its number"),
        (int, avro_schema, "give a dataclass or a pydantic model"),
    ],
)
def test_what_has_no_schema_is_refused_with_the_name_of_its_field(
    type_: type, make: Callable[[type], object], match: str
) -> None:
    with pytest.raises(ConfigError, match=match):
        make(type_)


def test_two_classes_of_one_name_are_refused() -> None:
    other: Any = dataclass(type("Item", (), {"__annotations__": {"x": int}}))
    both: Any = dataclass(type("Both", (), {"__annotations__": {"a": Item, "b": other}}))
    with pytest.raises(ConfigError, match="have one name"):
        avro_schema(both)
