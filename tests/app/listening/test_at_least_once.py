"""At-least-once: nothing is committed before its handler is done, and nothing is lost."""

from __future__ import annotations

import asyncio

import pytest
from tests.app.listening.listeners import OneByOne, committed, copy_to, listener, running, seed

from ottla.app.declarations.listener_spec import Ack, AckMode, Order, RawRecord
from ottla.app.delivery.unit import Unit
from ottla.testing import Broker


@pytest.mark.parametrize(
    ("order", "workers"),
    [(Order.PARTITION, 1), (Order.PARTITION, 4), (Order.KEY, 8), (Order.NONE, 4)],
)
def test_every_record_is_handled_once_and_committed_when_nothing_fails(
    broker: Broker, order: Order, workers: int
) -> None:
    seed(broker, "orders", 1000)
    handled: list[int] = []

    async def bill(record: RawRecord, unit: Unit) -> None:
        handled.append(record.offset)
        if record.offset % 7 == 0:
            await asyncio.sleep(0)
        copy_to("invoices", record, unit)

    async def run() -> None:
        async with running(
            broker, listener(OneByOne(bill), order=order, workers=workers)
        ) as runtime:
            await runtime.settled()

    asyncio.run(run())
    assert sorted(handled) == list(range(1000))
    assert committed(broker) == 1000
    invoices = [record.value for record in broker.records("invoices")]
    assert sorted(invoices) == sorted(b"%d" % number for number in range(1000))


def test_nothing_is_committed_past_a_record_whose_handler_is_not_done(broker: Broker) -> None:
    seed(broker, "orders", 10, keys=10)

    async def run() -> None:
        release, reached = asyncio.Event(), asyncio.Event()
        done: list[int] = []

        async def bill(record: RawRecord, unit: Unit) -> None:
            if record.offset == 3:
                reached.set()
                await release.wait()
            done.append(record.offset)

        spec = listener(OneByOne(bill), order=Order.KEY, workers=4, ack=Ack(AckMode.EVERY, 1, 0.01))
        async with running(broker, spec) as runtime:
            await reached.wait()
            while len(done) < 9 or runtime.listeners["bill"].counters.commits < 1:
                await asyncio.sleep(0.01)
            assert await asyncio.to_thread(committed, broker) == 3
            release.set()
            await runtime.settled()
            assert await asyncio.to_thread(committed, broker) == 10

    asyncio.run(run())
