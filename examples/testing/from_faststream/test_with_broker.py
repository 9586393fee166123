"""The tests of both services with a real broker: the same mocks, and what Kafka does to a service besides."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import billing
import delivery
import pytest
from faststream import confluent, kafka

from ottla.testing import Broker, wait_for_async

pytestmark = pytest.mark.anyio

TEA = billing.Order(id=1, drink="tea", cents=200)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def billing_broker(ottla_test_broker: Broker) -> kafka.KafkaBroker:
    return billing.make_broker(ottla_test_broker.bootstrap_servers)


@pytest.fixture
def delivery_broker(ottla_test_broker: Broker) -> confluent.KafkaBroker:
    return delivery.make_broker(ottla_test_broker.bootstrap_servers)


@pytest.fixture
def closed_till() -> Iterator[billing.Till]:
    billing.till.is_open = False
    yield billing.till
    billing.till.is_open = True


async def values(broker: Broker, topic: str, count: int) -> list[object]:
    """The values of a topic, once it has so many."""
    records = await asyncio.to_thread(broker.wait_records, topic, count)
    return [json.loads(record.value) for record in records]


# What was there before. With a real broker the handlers run later: each test waits for what it is about.


async def test_an_order_becomes_an_invoice(
    billing_broker: kafka.KafkaBroker, ottla_test_broker: Broker
) -> None:
    async with kafka.TestKafkaBroker(billing_broker, with_real=True) as broker:
        await broker.publish(TEA, "orders")
        await billing.bill.wait_call(10)
        await wait_for_async(lambda: billing.invoices.mock.called)

        billing.bill.mock.assert_called_once_with({"id": 1, "drink": "tea", "cents": 200})
        billing.invoices.mock.assert_called_once_with({"order": 1, "cents": 238})
    assert await values(ottla_test_broker, "invoices", 1) == [{"order": 1, "cents": 238}]


async def test_every_order_becomes_an_invoice(billing_broker: kafka.KafkaBroker) -> None:
    async with kafka.TestKafkaBroker(billing_broker, with_real=True) as broker:
        for number in range(3):
            await broker.publish(billing.Order(id=number, drink="tea", cents=100), "orders")
        await wait_for_async(lambda: billing.invoices.mock.call_count == 3)

        assert billing.bill.mock.call_count == 3
        billing.invoices.mock.assert_called_with({"order": 2, "cents": 119})


async def test_nonsense_is_no_order_and_stops_nothing(
    billing_broker: kafka.KafkaBroker, ottla_test_broker: Broker
) -> None:
    async with kafka.TestKafkaBroker(billing_broker, with_real=True) as broker:
        await broker.publish("two teas, please", "orders")
        await broker.publish(TEA, "orders")
        await wait_for_async(lambda: billing.invoices.mock.called)

        assert billing.bill.mock.call_count == 2
    assert await values(ottla_test_broker, "invoices", 1) == [{"order": 1, "cents": 238}]


async def test_what_was_paid_for_is_delivered(delivery_broker: confluent.KafkaBroker) -> None:
    async with confluent.TestKafkaBroker(delivery_broker, with_real=True) as broker:
        await broker.publish(delivery.Payment(order=1, table=4), "payments", key=b"table 4")
        await delivery.deliver.wait_call(10)
        await wait_for_async(lambda: delivery.deliveries.mock.called)

        delivery.deliver.mock.assert_called_once_with({"order": 1, "table": 4})
        delivery.deliveries.mock.assert_called_once_with({"order": 1, "table": 4, "key": "table 4"})


# What fakes cannot show: the service runs as in production, without a broker for tests of FastStream's.


async def test_an_order_waits_for_the_till_to_open(
    billing_broker: kafka.KafkaBroker, ottla_test_broker: Broker, closed_till: billing.Till
) -> None:
    async with kafka.TestKafkaBroker(billing_broker, with_real=True) as broker:
        await broker.publish(TEA, "orders")
        await wait_for_async(lambda: billing.bill.mock.call_count > 2)
        closed_till.is_open = True
        await wait_for_async(lambda: billing.invoices.mock.called)
    assert await values(ottla_test_broker, "invoices", 1) == [{"order": 1, "cents": 238}]


async def test_an_order_that_was_not_billed_is_the_next_instances(
    ottla_test_broker: Broker, closed_till: billing.Till
) -> None:
    async with billing.make_broker(ottla_test_broker.bootstrap_servers) as first:
        await first.start()
        await first.publish(TEA, "orders")
        await wait_for_async(lambda: ottla_test_broker.requests("OffsetFetch", topic="orders"))
    closed_till.is_open = True
    async with billing.make_broker(ottla_test_broker.bootstrap_servers) as second:
        await second.start()
        assert await values(ottla_test_broker, "invoices", 1) == [{"order": 1, "cents": 238}]


async def test_a_lost_answer_makes_no_second_invoice(
    billing_broker: kafka.KafkaBroker, ottla_test_broker: Broker
) -> None:
    lost = ottla_test_broker.faults.add("Produce", topic="invoices", drop="after", times=1)
    async with billing_broker as broker:
        await broker.start()
        await broker.publish(TEA, "orders")
        await asyncio.to_thread(ottla_test_broker.wait_lag_zero, "billing")
    assert lost.hits == 1
    assert await values(ottla_test_broker, "invoices", 1) == [{"order": 1, "cents": 238}]


async def test_a_restart_of_the_broker_loses_no_order(
    billing_broker: kafka.KafkaBroker, ottla_test_broker: Broker
) -> None:
    async with billing_broker as broker:
        await broker.start()
        await broker.publish(TEA, "orders")
        ottla_test_broker.kill()
        ottla_test_broker.restart()
        await broker.publish(billing.Order(id=2, drink="cake", cents=300), "orders")
        assert await values(ottla_test_broker, "invoices", 2) == [
            {"order": 1, "cents": 238},
            {"order": 2, "cents": 357},
        ]
