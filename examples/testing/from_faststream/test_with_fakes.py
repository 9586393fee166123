"""The tests of both services as they were: FastStream's brokers for tests call the handlers, and there is no Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import billing
import delivery
import pytest
from faststream import confluent, kafka

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def closed_till() -> Iterator[billing.Till]:
    billing.till.is_open = False
    yield billing.till
    billing.till.is_open = True


async def test_an_order_becomes_an_invoice() -> None:
    async with kafka.TestKafkaBroker(billing.broker) as broker:
        await broker.publish(billing.Order(id=1, drink="tea", cents=200), "orders")

        billing.bill.mock.assert_called_once_with({"id": 1, "drink": "tea", "cents": 200})
        billing.invoices.mock.assert_called_once_with({"order": 1, "cents": 238})


async def test_every_order_becomes_an_invoice() -> None:
    async with kafka.TestKafkaBroker(billing.broker) as broker:
        for number in range(3):
            await broker.publish(billing.Order(id=number, drink="tea", cents=100), "orders")

        assert billing.bill.mock.call_count == 3
        billing.invoices.mock.assert_called_with({"order": 2, "cents": 119})


async def test_nonsense_is_no_order() -> None:
    async with kafka.TestKafkaBroker(billing.broker) as broker:
        await broker.publish("two teas, please", "orders")

        billing.bill.mock.assert_called_once_with("two teas, please")
        billing.invoices.mock.assert_not_called()


async def test_an_order_fails_while_the_till_is_closed(closed_till: billing.Till) -> None:
    async with kafka.TestKafkaBroker(billing.broker) as broker:
        with pytest.raises(ConnectionError):
            await broker.publish(billing.Order(id=1, drink="tea", cents=200), "orders")


async def test_what_was_paid_for_is_delivered() -> None:
    async with confluent.TestKafkaBroker(delivery.broker) as broker:
        await broker.publish(delivery.Payment(order=1, table=4), "payments", key=b"table 4")

        delivery.deliver.mock.assert_called_once_with({"order": 1, "table": 4})
        delivery.deliveries.mock.assert_called_once_with({"order": 1, "table": 4, "key": "table 4"})
