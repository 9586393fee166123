"""JSON becomes typed values, or an error that names the field."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, NamedTuple, NewType, NotRequired, TypedDict
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from ottla.app.declarations.json_conversion import Converters, MismatchError, dump_json, load_json
from ottla.errors import ConfigError


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


@dataclasses.dataclass
class Item:
    name: str
    price: Decimal = Decimal(1)
    size: Size = Size.SMALL


@dataclasses.dataclass
class Order:
    table: int
    items: list[Item]
    note: str | None = None
    tags: dict[str, bool] = dataclasses.field(default_factory=dict)
    at: datetime | None = None
    id: UUID | None = None
    day: date | None = None
    raw: bytes = b""
    pair: tuple[int, str] = (0, "")
    kind: Literal["here", "togo"] = "here"
    children: list[Order] = dataclasses.field(default_factory=list)
    derived: int = dataclasses.field(init=False, default=5)


class Guest(BaseModel):
    name: str
    age: int


class Place(NamedTuple):
    row: int
    seat: str = "A"


class Bill(TypedDict):
    total: float
    tip: NotRequired[float]


TableNumber = NewType("TableNumber", int)


def convert(wanted: Any, value: object) -> Any:
    return Converters().of(wanted)(value)


def test_a_dataclass_survives_the_round_trip() -> None:
    order = Order(
        4,
        [Item("tea", Decimal("2.50"), Size.LARGE)],
        note="ü",
        tags={"vip": True},
        at=datetime(2026, 1, 31, tzinfo=UTC),
        id=UUID(int=5),
        day=date(2026, 1, 31),
        raw=b"\x00\xff",
        pair=(1, "x"),
        kind="togo",
        children=[Order(5, [])],
    )
    assert convert(Order, load_json(dump_json(order))) == order


def test_fields_that_the_class_does_not_have_are_ignored() -> None:
    assert convert(Item, {"name": "tea", "colour": "green"}) == Item("tea")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"items": []}, "field 'table' is missing"),
        ({"table": "4", "items": []}, "field 'table' must be a whole number (int), not text"),
        ({"table": True, "items": []}, "field 'table' must be a whole number (int), not true"),
        ({"table": 4.0, "items": []}, "field 'table' must be a whole number (int), not a number"),
        ({"table": None, "items": []}, "field 'table' must be a whole number (int), not null"),
        ({"table": 4, "items": "tea"}, "field 'items' must be a list, not text"),
        (
            {"table": 4, "items": [{"name": "tea"}, {"name": 5}]},
            "field 'items[1].name' must be text (str), not a whole number",
        ),
        (
            {"table": 4, "items": [{"name": "tea", "size": "huge"}]},
            "field 'items[0].size' must be one of 'small', 'large', not 'huge'",
        ),
        (
            {"table": 4, "items": [], "tags": {"a": 1}},
            "field 'tags.a' must be true or false (bool)",
        ),
        ({"table": 4, "items": [], "at": "noon"}, "field 'at' must be a time"),
        ({"table": 4, "items": [], "id": "x"}, "field 'id' must be a UUID"),
        ({"table": 4, "items": [], "kind": "x"}, "field 'kind' must be one of 'here', 'togo'"),
        ({"table": 4, "items": [], "pair": [1]}, "field 'pair' must be a list of 2 elements"),
        ({"table": 4, "items": [], "raw": "?"}, "field 'raw' must be text in base64"),
        ({"table": 4, "items": [], "children": [{}]}, "field 'children[0].table' is missing"),
        ([], "must be an object, not a list"),
        (None, "must be an object, not null"),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_that_names_the_field(
    value: object, message: str
) -> None:
    with pytest.raises(MismatchError) as raised:
        convert(Order, value)
    assert message in str(raised.value)


def test_what_post_init_refuses_is_a_mismatch() -> None:
    @dataclasses.dataclass
    class Positive:
        number: int

        def __post_init__(self) -> None:
            if self.number <= 0:
                raise ValueError("not positive")

    with pytest.raises(MismatchError, match="is no Positive: not positive"):
        convert(Positive, {"number": 0})


def test_other_types() -> None:
    assert convert(Guest, {"name": "Ada", "age": 36}) == Guest(name="Ada", age=36)
    assert convert(Place, [3]) == Place(3)
    assert convert(Place, {"row": 3, "seat": "B"}) == Place(3, "B")
    assert convert(Bill, {"total": 3}) == {"total": 3.0}
    assert convert(TableNumber, 4) == 4
    assert convert(set[int], [1, 1]) == {1}
    assert convert(tuple[int, ...], [1, 2]) == (1, 2)
    assert convert(int | str, "a") == "a"
    assert convert(float, 1) == 1.0
    assert convert(Any, {"a": [1]}) == {"a": [1]}


def test_pydantic_names_the_field_too() -> None:
    class Party(BaseModel):
        guests: list[Guest]

    with pytest.raises(MismatchError, match=r"field 'guests\[0\]\.age' is not valid"):
        convert(Party, {"guests": [{"name": "Ada", "age": "x"}]})


@pytest.mark.parametrize("wanted", [object(), dict[int, str], complex, "Order"])
def test_a_type_that_has_no_json_is_refused_when_it_is_declared(wanted: object) -> None:
    with pytest.raises(ConfigError):
        Converters().of(wanted)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(JSON)
def test_any_json_becomes_the_type_or_a_mismatch(value: object) -> None:
    for wanted in (Order, Guest, Place, Bill, list[Item], dict[str, int], int | Item | None):
        try:
            made = convert(wanted, value)
        except MismatchError:
            continue
        if wanted is Order:
            assert isinstance(made, Order)


@given(st.binary(max_size=40))
def test_garbage_is_json_or_a_mismatch(data: bytes) -> None:
    try:
        found = load_json(data)
    except MismatchError:
        return
    json.dumps(found)
