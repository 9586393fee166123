"""Keys and values as bytes: Java's layouts, and what is refused."""

from __future__ import annotations

import dataclasses
import doctest
import json
import math
import struct
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.java_facts.cases import Case, cases, vectors

from ottla.client.plugins import serializers
from ottla.client.plugins.list_serializer import (
    DESERIALIZERS,
    SERIALIZERS,
    ListDeserializer,
    ListSerializer,
    deserializer_of,
    serializer_of,
)
from ottla.client.plugins.serializers import (
    BytesSerializer,
    FunctionDeserializer,
    JSONDeserializer,
    JSONSerializer,
    StringDeserializer,
    StringSerializer,
)
from ottla.errors import ConfigError, DeserializationError, SerializationError

KINDS = {
    "bytes": st.binary(),
    "str": st.text(),
    "short": st.integers(-(1 << 15), (1 << 15) - 1),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "long": st.integers(-(1 << 63), (1 << 63) - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "boolean": st.booleans(),
    "uuid": st.uuids(),
}
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def made(case: Case) -> Any:
    """Our serializer for a case of the table."""
    _, is_list, inner = case.name.rpartition("list:")
    serializer = serializer_of("test", inner)
    if case.encoding != "-":
        serializer.configure({"serializer.encoding": case.encoding}, is_key=False)  # type: ignore[attr-defined]
    return ListSerializer(serializer) if is_list else serializer


def serialize(name: str, value: Any) -> bytes | None:
    return serializer_of("test", name).serialize("topic", (), value)


def deserialize(name: str, data: bytes | memoryview | None) -> Any:
    return deserializer_of("test", name).deserialize("topic", (), data)


# Against Java


def test_every_value_has_the_bytes_that_java_gives_it() -> None:
    expected = vectors()
    ours = {}
    for case in cases():
        data = made(case).serialize("topic", (), case.value)
        ours[case.line] = "null" if data is None else data.hex()
    assert ours == expected


def test_what_java_wrote_is_read() -> None:
    written = vectors()
    for case in cases():
        data = written[case.line]
        _, is_list, inner = case.name.rpartition("list:")
        reader = deserializer_of("test", inner)
        if case.encoding != "-":
            config = {"value.deserializer.encoding": case.encoding}
            reader.configure(config, is_key=False)  # type: ignore[attr-defined]
        if is_list:
            reader = ListDeserializer(reader)
        read = reader.deserialize("topic", (), None if data == "null" else bytes.fromhex(data))
        expected = case.value
        if inner == "float":
            expected = in_32_bits(expected)
        if case.encoding == "UTF-32" and inner == "str":
            # Java writes no mark, so the first character is taken for one, by Java too.
            expected = expected.removeprefix("\ufeff")
        assert read == expected, case


def in_32_bits(value: Any) -> Any:
    if isinstance(value, list):
        return [in_32_bits(item) for item in value]
    return None if value is None else struct.unpack(">f", struct.pack(">f", value))[0]


# Round trips


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
def test_values_survive_the_round_trip(name: str, data: st.DataObject) -> None:
    value = data.draw(KINDS[name])
    encoded = serialize(name, value)
    assert encoded is not None
    assert deserialize(name, encoded) == value
    assert deserialize(name, memoryview(encoded)) == value


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
def test_lists_with_nulls_survive_the_round_trip(name: str, data: st.DataObject) -> None:
    value = data.draw(st.lists(st.none() | KINDS[name]))
    encoded = ListSerializer(name).serialize("topic", (), value)
    assert ListDeserializer(name).deserialize("topic", (), encoded) == value


@given(st.lists(st.none() | st.lists(st.none() | st.text())))
def test_lists_of_lists_survive_the_round_trip(value: list[list[str | None] | None]) -> None:
    encoded = ListSerializer(ListSerializer("str")).serialize("topic", (), value)
    read = ListDeserializer(ListDeserializer("str")).deserialize("topic", (), encoded)
    assert read == value


@given(JSON)
def test_json_survives_the_round_trip(value: Any) -> None:
    assert deserialize("json", serialize("json", value)) == value


def test_a_float_keeps_nan() -> None:
    assert math.isnan(deserialize("float", serialize("float", math.nan)))
    assert math.isnan(deserialize("double", serialize("double", math.nan)))


@pytest.mark.parametrize("name", sorted({*SERIALIZERS} - {"list"}))
def test_none_stays_none(name: str) -> None:
    if "List" not in name:
        assert serialize(name, None) is None


# Garbage


@pytest.mark.parametrize("name", [*KINDS, "json", "void"])
@given(data=st.binary())
def test_bytes_are_read_or_refused(name: str, data: bytes) -> None:
    try:
        deserialize(name, data)
    except DeserializationError as error:
        if error.raw != data:
            raise


@pytest.mark.parametrize("inner", ["str", "int", "uuid"])
@given(data=st.binary(max_size=40) | st.builds(lambda rest: b"\x00" + rest, st.binary()))
def test_bytes_of_lists_are_read_or_refused(inner: str, data: bytes) -> None:
    try:
        ListDeserializer(inner).deserialize("topic", (), data)
    except DeserializationError as error:
        if error.raw is None:
            raise


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "ends in the middle"),
        (b"\x02", "begins with 2"),
        (b"\x01\x7f\xff\xff\xff", "entries do not fit"),
        (b"\x01\xff\xff\xff\xff", "entries do not fit"),
        (b"\x01\x00\x00\x00\x01\xff\xff\xff\xfe", "the size -2"),
        (b"\x01\x00\x00\x00\x01\x00\x00\x00\x05ab", "ends in the middle"),
        (b"\x01\x00\x00\x00\x00!", "1 bytes follow"),
        (b"\x00\x00\x00\x00\x00\x00\x00\x00\x00", "does not know"),
    ],
)
def test_a_broken_list_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(DeserializationError, match=reason):
        ListDeserializer("str").deserialize("topic", (), data)


def test_a_list_that_lies_about_its_length_costs_no_memory() -> None:
    with pytest.raises(DeserializationError, match="items do not fit"):
        ListDeserializer("int").deserialize("topic", (), bytes(5) + b"\x7f\xff\xff\xff")


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("bytes", "text", "str where bytes is expected; set key.serializer"),
        ("str", b"bytes", "bytes where str"),
        ("str", "\ud800", "cannot be written in utf-8"),
        ("short", 1 << 15, "does not fit into 16 bits"),
        ("int", 1 << 31, "does not fit into 32 bits"),
        ("long", -(1 << 63) - 1, "does not fit into 64 bits"),
        ("int", True, "bool where int"),
        ("int", 1.0, "float where int"),
        ("float", 1e39, "does not fit into 32 bits"),
        ("double", "1", "str where float or int"),
        ("boolean", 1, "int where bool"),
        ("uuid", "f47ac10b", "str where uuid.UUID"),
        ("void", b"", "bytes where None"),
        ("json", math.nan, "no JSON"),
        ("json", {1, 2}, "no JSON"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(name: str, value: Any, reason: str) -> None:
    with pytest.raises(SerializationError, match=reason):
        serialize(name, value)


@pytest.mark.parametrize("value", ["text", b"bytes", {"a": 1}, 7])
def test_what_is_no_list_is_not_serialized_as_one(value: Any) -> None:
    with pytest.raises(SerializationError, match="where a list is expected"):
        ListSerializer("str").serialize("topic", (), value)


def test_an_inner_serializer_must_not_lose_an_item() -> None:
    with pytest.raises(SerializationError, match="made None of 'x'"):
        ListSerializer(lambda value: None).serialize("topic", (), ["x"])


# Options


@pytest.mark.parametrize(
    ("config", "is_key", "expected"),
    [
        ({}, True, "utf-8"),
        ({"serializer.encoding": "latin-1"}, True, "iso8859-1"),
        ({"serializer.encoding": "latin-1", "key.serializer.encoding": "UTF-16"}, True, "utf-16"),
        ({"key.serializer.encoding": "UTF-16"}, False, "utf-8"),
        ({"value.serializer.encoding": None, "serializer.encoding": "ascii"}, False, "ascii"),
    ],
)
def test_the_more_specific_encoding_counts(
    config: dict[str, str | None], is_key: bool, expected: str
) -> None:
    serializer = StringSerializer()
    serializer.configure(config, is_key)
    assert serializer.encoding == expected


def test_the_encoding_of_the_constructor_counts_most() -> None:
    reader = StringDeserializer("latin-1")
    reader.configure({"deserializer.encoding": "utf-8"}, is_key=True)
    assert reader.deserialize("topic", (), b"\xe4") == "ä"


@pytest.mark.parametrize("encoding", ["klingon", "rot13", "hex"])
def test_an_encoding_that_is_none_is_a_config_error(encoding: str) -> None:
    with pytest.raises(ConfigError, match=r"serializer\.encoding"):
        StringSerializer().configure({"serializer.encoding": encoding}, is_key=True)


@pytest.mark.parametrize("text", ["tea", "茶😀"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_read_by_its_mark(text: str, encoding: str) -> None:
    data = f"\ufeff{text}".encode(encoding)
    assert StringDeserializer("utf-16").deserialize("topic", (), data) == text


@pytest.mark.parametrize("is_key", [True, False])
def test_a_list_takes_its_inner_serializer_from_the_options(is_key: bool) -> None:
    prefix = f"default.list.{'key' if is_key else 'value'}.serde"
    config = {
        f"{prefix}.inner": "org.apache.kafka.common.serialization.Serdes$StringSerde",
        f"{prefix}.type": "tuple",
        "serializer.encoding": "latin-1",
        "deserializer.encoding": "latin-1",
    }
    writer, reader = ListSerializer(), ListDeserializer()
    writer.configure(config, is_key)
    reader.configure(config, is_key)
    data = writer.serialize("topic", (), ["ä"])
    assert data == b"\x01\x00\x00\x00\x01\x00\x00\x00\x01\xe4"
    assert reader.deserialize("topic", (), data) == ("ä",)


@pytest.mark.parametrize("made_by", [ListSerializer, ListDeserializer])
def test_a_list_without_an_inner_serializer_is_a_config_error(made_by: Any) -> None:
    with pytest.raises(ConfigError, match=r"give default\.list\.value\.serde\.inner"):
        made_by().configure({}, is_key=False)


@pytest.mark.parametrize("kind", ["java.util.ArrayList", list, "collections.deque", frozenset])
def test_a_list_becomes_what_its_type_says(kind: Any) -> None:
    reader = ListDeserializer("int")
    reader.configure({"default.list.key.serde.type": kind}, is_key=True)
    data = ListSerializer("int").serialize("topic", (), [1, 2])
    assert sorted(reader.deserialize("topic", (), data)) == [1, 2]


# Own ones


def test_the_documented_serializer_of_a_dataclass_works() -> None:
    failures, attempted = doctest.testmod(serializers)
    assert attempted
    assert failures == 0


@dataclasses.dataclass(frozen=True)
class Order:
    id: UUID
    items: list[str]


class OrderSerializer:
    """Puts the id where Java's UUIDSerializer would, and the rest as JSON behind it."""

    def serialize(self, topic: str, headers: Any, order: Order | None) -> bytes | None:
        return None if order is None else str(order.id).encode() + json.dumps(order.items).encode()


class OrderDeserializer:
    def deserialize(self, topic: str, headers: Any, data: bytes | None) -> Order | None:
        return None if data is None else Order(UUID(str(data[:36], "ascii")), json.loads(data[36:]))


def test_an_own_serializer_can_be_in_a_list() -> None:
    orders = [Order(uuid4(), ["tea"]), None, Order(uuid4(), [])]
    data = ListSerializer(OrderSerializer).serialize("topic", (), orders)
    assert ListDeserializer(OrderDeserializer()).deserialize("topic", (), data) == orders


def test_functions_are_serializers_too() -> None:
    writer = serializer_of("value.serializer", str.encode)
    assert writer.serialize("topic", (), "tea") == b"tea"
    assert writer.serialize("topic", (), None) is None
    reader = deserializer_of("value.deserializer", lambda data: data.decode().upper())
    assert reader.deserialize("topic", (), b"tea") == "TEA"
    assert reader.deserialize("topic", (), None) is None


def test_a_function_gets_bytes_even_of_a_view() -> None:
    assert FunctionDeserializer(type).deserialize("topic", (), memoryview(b"x")) is bytes


def test_a_function_that_returns_no_bytes_is_refused() -> None:
    with pytest.raises(SerializationError, match="returned str, not bytes"):
        serializer_of("value.serializer", lambda value: f"{value}").serialize("topic", (), 1)


# Names


@pytest.mark.parametrize("name", [name for name in SERIALIZERS if "." in name])
def test_every_java_name_is_known_in_both_directions(name: str) -> None:
    assert name.replace("Serializer", "Deserializer") in DESERIALIZERS


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("bytes", BytesSerializer),
        (bytes, BytesSerializer),
        ("STR", StringSerializer),
        (str, StringSerializer),
        (StringSerializer, StringSerializer),
        (StringSerializer(), StringSerializer),
        ("org.apache.kafka.common.serialization.StringSerializer", StringSerializer),
        ("ottla.client.plugins.serializers.JSONSerializer", JSONSerializer),
        ("ottla.client.plugins.serializers:JSONSerializer", JSONSerializer),
        ("org.apache.kafka.connect.json.JsonSerializer", JSONSerializer),
    ],
)
def test_a_serializer_is_found_by_any_of_its_names(named: object, expected: type) -> None:
    assert type(serializer_of("key.serializer", named)) is expected


def test_the_two_directions_are_not_mixed_up() -> None:
    with pytest.raises(
        ConfigError, match=r"key\.serializer: .*JSONDeserializer has no method serialize"
    ):
        serializer_of("key.serializer", JSONDeserializer)
    with pytest.raises(ConfigError, match="has no method deserialize"):
        deserializer_of("key.deserializer", JSONSerializer())
