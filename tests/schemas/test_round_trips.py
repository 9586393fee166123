"""Random values through each format: what is read is what was written, and garbage is refused in one way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.schemas.fake_registry import fake_registry
from tests.schemas.shop import Card, Cash, Guest, Item, Order, Payment, Size

from ottla.errors import DeserializationError
from ottla.schemas import NOT_CACHED, Codec, SchemaRegistryClient, codec_for
from ottla.schemas.codec import Format

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
# A lone surrogate has no bytes in UTF-8.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
PRICES = st.decimals(-(10**9), 10**9, places=2)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))

items = st.builds(Item, TEXT, PRICES, st.sampled_from(Size))
orders: st.SearchStrategy[Order] = st.builds(
    Order,
    id=INT64,
    items=st.lists(items, max_size=3),
    note=st.none() | TEXT,
    paid=st.booleans(),
    discount=st.floats(allow_nan=False, allow_infinity=False),
    ordered_at=MOMENTS,
    due=st.dates(),
    opens=st.times(),
    ticket=st.uuids(),
    scan=st.binary(max_size=20),
    tables=st.dictionaries(TEXT, INT64, max_size=3),
    tags=st.frozensets(TEXT, max_size=3),
    kind=st.sampled_from(["here", "away"]),
    follow_up=st.none() | st.builds(Order, id=INT64),
)
guests: st.SearchStrategy[Guest] = st.builds(
    Guest,
    guestNumber=st.integers(0, (1 << 63) - 1),
    name=TEXT,
    owes=st.decimals(-(10**7), 10**7, places=2),
    favourite=st.none() | st.sampled_from(Size),
    seen_at=st.none() | MOMENTS,
    friends=st.just([]) | st.lists(st.just(Guest(guestNumber=1, name="b", owes=Decimal(1)))),
    visits=st.dictionaries(TEXT, INT64, max_size=3),
)
payments = st.builds(Payment, st.none() | INT64 | st.builds(Cash, INT64) | st.builds(Card, TEXT))

FORMATS: list[Format] = ["avro", "json", "protobuf"]


@pytest.fixture(scope="module")
def client() -> Iterator[SchemaRegistryClient]:
    with fake_registry() as registry, SchemaRegistryClient(url=registry.url) as made:
        yield made


@pytest.fixture(scope="module", params=FORMATS)
def format(request: pytest.FixtureRequest) -> Format:
    chosen: Format = request.param
    return chosen


def cached(codec: Codec[Any], example: object, topic: str) -> Codec[Any]:
    """A codec that has asked the registry already."""

    async def both_ways() -> None:
        assert codec.try_encode(topic, False, example) is NOT_CACHED
        data = await codec.encode(topic, False, example)
        assert codec.try_decode(topic, False, data) is NOT_CACHED
        assert await codec.decode(topic, False, data) == example

    asyncio.run(both_ways())
    return codec


def check(codec: Codec[Any], topic: str, value: object) -> None:
    data = codec.try_encode(topic, False, value)
    assert isinstance(data, bytes)
    assert codec.try_decode(topic, False, data) == value
    assert codec.try_decode(topic, False, memoryview(data)) == value


@pytest.fixture(scope="module")
def order_codec(client: SchemaRegistryClient, format: Format) -> Codec[Order]:
    return cached(codec_for(Order, format, registry=client), Order(1), format)


@pytest.fixture(scope="module")
def guest_codec(client: SchemaRegistryClient, format: Format) -> Codec[Guest]:
    guest = Guest(guestNumber=1, name="a", owes=Decimal(1))
    return cached(codec_for(Guest, format, registry=client), guest, f"guests-{format}")


@pytest.fixture(scope="module", params=["avro", "json"])
def payment_codec(
    client: SchemaRegistryClient, request: pytest.FixtureRequest
) -> tuple[Codec[Payment], str]:
    topic = f"payments-{request.param}"
    codec = codec_for(Payment, request.param, registry=client)
    return cached(codec, Payment(None), topic), topic


@settings(max_examples=60)
@given(order=orders)
def test_a_dataclass_is_read_as_it_was_written(
    order_codec: Codec[Order], format: Format, order: Order
) -> None:
    check(order_codec, format, order)


@settings(max_examples=60)
@given(guest=guests)
def test_a_pydantic_model_is_read_as_it_was_written(
    guest_codec: Codec[Guest], format: Format, guest: Guest
) -> None:
    check(guest_codec, f"guests-{format}", guest)


@settings(max_examples=60)
@given(payment=payments)
def test_a_union_is_read_as_the_branch_that_was_written(
    payment_codec: tuple[Codec[Payment], str], payment: Payment
) -> None:
    check(*payment_codec, payment)


@settings(max_examples=150)
@given(data=st.data())
def test_changed_bytes_are_refused_or_are_another_order(
    order_codec: Codec[Order], format: Format, data: st.DataObject
) -> None:
    whole = order_codec.try_encode(format, False, data.draw(orders))
    assert isinstance(whole, bytes)
    at = data.draw(st.integers(5, len(whole)))
    changed = whole[:at] + data.draw(st.binary(max_size=20))
    try:
        found = order_codec.try_decode(format, False, changed)
    except DeserializationError as error:
        assert error.raw is None or error.raw == changed  # noqa: PT017
    else:
        assert isinstance(found, Order)


def test_none_is_none_and_needs_no_registry(format: Format) -> None:
    codec = codec_for(Order, format, registry="http://127.0.0.1:9")
    assert codec.try_encode("orders", False, None) is None
    assert codec.try_decode("orders", True, None) is None
    codec.close()
