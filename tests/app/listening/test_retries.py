"""Retries in place and through topics, dead letters, errors by class."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.app.listening.listeners import (
    InBatches,
    OneByOne,
    committed,
    copy_to,
    listener,
    running,
    seed,
)

from ottla.app.declarations.listener_spec import (
    Delivery,
    ErrorAction,
    ErrorRule,
    Order,
    RawRecord,
    RetryPlan,
)
from ottla.app.delivery.unit import Unit
from ottla.app.errors import BatchItemError, UnreadableRecordError
from ottla.app.letters.history import read_history
from ottla.app.listening.listener_health import ListenerStatus
from ottla.app.listening.runtime import Runtime
from ottla.testing import Broker

DELIVERIES = pytest.mark.parametrize("delivery", list(Delivery))


class Failing:
    """Fails so often at some records; notes what it handled, in order."""

    def __init__(self, times: dict[int, int], error: type[Exception] = RuntimeError) -> None:
        self.left = dict(times)
        self.error = error
        self.done: list[int] = []
        self.topics: set[str] = set()

    async def __call__(self, record: RawRecord, unit: Unit) -> None:
        assert record.value is not None
        number = int(record.value)
        self.topics.add(record.topic)
        await asyncio.sleep(0)
        if self.left.get(number, 0):
            self.left[number] -= 1
            raise self.error("not today")
        self.done.append(number)
        copy_to("invoices", record, unit)


async def until(runtime: Runtime, is_done: Callable[[], bool]) -> None:
    """Let time pass for the app until something has happened."""
    while not is_done():
        runtime.clock.advance("1m")
        await asyncio.sleep(0.01)
    await runtime.settled()


def values(broker: Broker, topic: str) -> list[int]:
    return [int(record.value) for record in broker.records(topic)]


@DELIVERIES
@pytest.mark.parametrize("order", [Order.PARTITION, Order.KEY])
def test_retries_in_place_keep_the_order_of_each_key(
    broker: Broker, delivery: Delivery, order: Order
) -> None:
    seed(broker, "orders", 50)
    handler = Failing({3: 1, 13: 2, 20: 2, 21: 1})

    async def run() -> None:
        spec = listener(
            OneByOne(handler),
            order=order,
            workers=8,
            delivery=delivery,
            retry=RetryPlan((10.0, 60.0), keep_order=True),
            has_dead_letters=True,
        )
        async with running(broker, spec) as runtime:
            await until(runtime, lambda: len(handler.done) == 50)

    asyncio.run(run())
    for key in range(5):
        assert [n for n in values(broker, "invoices") if n % 5 == key] == list(range(key, 50, 5))
    assert values(broker, "orders.billing.dlt") == []
    assert committed(broker) == 50


@DELIVERIES
def test_after_the_last_attempt_the_record_is_a_dead_letter_and_its_key_goes_on(
    broker: Broker, delivery: Delivery
) -> None:
    seed(broker, "orders", 30)
    handler = Failing({7: 99})

    async def run() -> None:
        spec = listener(
            OneByOne(handler),
            order=Order.KEY,
            workers=4,
            delivery=delivery,
            retry=RetryPlan((1.0, 5.0), keep_order=True),
            has_dead_letters=True,
        )
        async with running(broker, spec) as runtime:
            await until(runtime, lambda: len(handler.done) == 29)

    asyncio.run(run())
    (letter,) = broker.records("orders.billing.dlt")
    assert letter.value == b"7"
    history = read_history(letter)
    assert history is not None
    assert (history.topic, history.offset, history.attempts) == ("orders", 7, 3)
    assert (history.error, history.message) == ("RuntimeError", "not today")
    assert sorted(values(broker, "invoices")) == [n for n in range(30) if n != 7]


@DELIVERIES
def test_other_keys_go_on_while_a_key_waits_for_its_retry(
    broker: Broker, delivery: Delivery
) -> None:
    seed(broker, "orders", 40)
    handler = Failing({0: 1})

    async def run() -> None:
        spec = listener(
            OneByOne(handler),
            order=Order.KEY,
            workers=2,
            delivery=delivery,
            retry=RetryPlan((3600.0,), keep_order=True),
            has_dead_letters=True,
        )
        async with running(broker, spec) as runtime:
            while len(handler.done) < 32:
                await asyncio.sleep(0.01)
            assert not [n for n in handler.done if n % 5 == 0]
            runtime.clock.advance("1h")
            await runtime.settled()

    asyncio.run(run())
    assert [n for n in handler.done if n % 5 == 0] == list(range(0, 40, 5))


@DELIVERIES
def test_attempts_and_due_times_survive_a_restart(broker: Broker, delivery: Delivery) -> None:
    seed(broker, "orders", 10)
    first, second = Failing({4: 99}), Failing({4: 99})

    def spec(handler: Failing) -> Any:
        return listener(
            OneByOne(handler),
            order=Order.KEY,
            workers=2,
            delivery=delivery,
            retry=RetryPlan((3600.0, 3600.0), keep_order=True),
            has_dead_letters=True,
        )

    async def run() -> None:
        async with running(broker, spec(first)):
            # 9 has the same key and stays behind 4.
            while len(first.done) < 8:
                await asyncio.sleep(0.01)
        async with running(broker, spec(second)) as runtime:
            while not runtime.listeners["bill"].counters.received:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            assert second.left[4] == 99, "it was tried before it was due"
            runtime.clock.advance("3601s")
            while second.left[4] == 99:
                await asyncio.sleep(0.01)
            runtime.clock.advance("3601s")
            await runtime.settled()

    asyncio.run(run())
    assert second.done == [9], "what was finished is not done again"
    assert second.left[4] == 97, "the attempt before the restart counts"
    assert values(broker, "orders.billing.dlt") == [4]


@DELIVERIES
def test_retry_topics_take_the_record_out_of_the_way_and_the_handler_sees_the_original(
    broker: Broker, delivery: Delivery
) -> None:
    seed(broker, "orders", 20)
    handler = Failing({3: 1, 5: 2, 6: 99})

    async def run() -> None:
        spec = listener(
            OneByOne(handler),
            delivery=delivery,
            retry=RetryPlan((30.0, 600.0)),
            has_dead_letters=True,
        )
        async with running(broker, spec) as runtime:
            while len(handler.done) < 17:
                await asyncio.sleep(0.01)
            assert handler.done == [n for n in range(20) if n not in (3, 5, 6)]
            await until(runtime, lambda: runtime.listeners["bill"].counters.dead_letters == 1)

    asyncio.run(run())
    assert values(broker, "orders.billing.retry.1") == [3, 5, 6]
    assert values(broker, "orders.billing.retry.2") == [5, 6]
    assert values(broker, "orders.billing.dlt") == [6]
    assert sorted(values(broker, "invoices")) == [n for n in range(20) if n != 6]
    assert handler.topics == {"orders"}


def test_a_pattern_reads_its_own_retries_and_no_letters(broker: Broker) -> None:
    seed(broker, "orders.eu", 10)
    seed(broker, "orders.us", 10)
    seed(broker, "orders.eu.shipping.dlt", 1)
    seed(broker, "orders.eu.shipping.retry.1", 1)
    handler = Failing({3: 1})

    async def run() -> None:
        spec = listener(
            OneByOne(handler), topics=re.compile(r"orders\..*"), retry=RetryPlan((30.0,))
        )
        async with running(broker, spec, **{"metadata.max.age.ms": 200}) as runtime:
            await until(runtime, lambda: len(handler.done) == 20)

    asyncio.run(run())
    assert sorted(handler.done) == sorted([*range(10), *range(10)])
    assert handler.topics == {"orders.eu", "orders.us"}


def test_errors_by_class(broker: Broker) -> None:
    seed(broker, "orders", 10)

    class BrokenError(Exception):
        pass

    async def bill(record: RawRecord, unit: Unit) -> None:
        if record.offset == 2:
            raise KeyError("boring")
        if record.offset == 4:
            raise UnreadableRecordError("no JSON")
        if record.offset == 6:
            raise BrokenError("the database is gone")

    spec = listener(
        OneByOne(bill),
        has_dead_letters=True,
        errors=(
            ErrorRule(LookupError, ErrorAction.IGNORE),
            ErrorRule(BrokenError, ErrorAction.STOP),
        ),
    )

    async def run() -> None:
        async with running(broker, spec) as runtime:
            with pytest.raises(BrokenError):
                await runtime.wait()
            health = runtime.health()[0]
            assert health.status is ListenerStatus.FAILED
            assert health.reason == "it failed: BrokenError: the database is gone"

    asyncio.run(run())
    assert values(broker, "orders.billing.dlt") == [4]
    assert committed(broker) == 6, "nothing is committed past the record that stopped the listener"


def test_a_record_with_nowhere_to_go_stays_and_health_names_it(broker: Broker) -> None:
    seed(broker, "orders", 5)
    handler = Failing({2: 3})

    async def run() -> None:
        async with running(broker, listener(OneByOne(handler))) as runtime:
            while not (reason := runtime.health()[0].reason):
                await asyncio.sleep(0.01)
            assert runtime.health()[0].status is ListenerStatus.STALLED
            assert reason.startswith("orders-0 offset 2 has failed 1 times and has nowhere to go")
            assert handler.done == [0, 1]
            await until(runtime, lambda: len(handler.done) == 5)
            assert runtime.health()[0].is_ok

    asyncio.run(run())
    assert handler.done == [0, 1, 2, 3, 4]


@DELIVERIES
def test_a_batch_runs_again_without_the_record_that_failed(
    broker: Broker, delivery: Delivery
) -> None:
    seed(broker, "orders", 100)
    sizes: list[int] = []

    async def load(records: Any, unit: Unit) -> None:
        sizes.append(len(records))
        for index, record in enumerate(records):
            copy_to("invoices", record, unit)
            if record.offset in (17, 40):
                raise BatchItemError(index, ValueError("no such account"))

    async def run() -> None:
        spec = listener(
            InBatches(load),
            delivery=delivery,
            max_batch_records=50,
            has_dead_letters=True,
            errors=(ErrorRule(ValueError, ErrorAction.DEAD_LETTER),),
        )
        async with running(broker, spec) as runtime:
            await runtime.settled()

    asyncio.run(run())
    assert values(broker, "invoices") == [n for n in range(100) if n not in (17, 40)]
    assert values(broker, "orders.billing.dlt") == [17, 40]
    assert max(sizes) <= 50


def test_a_record_of_a_batch_that_waits_for_its_retry_holds_back_what_follows_it(
    broker: Broker,
) -> None:
    seed(broker, "orders", 20)
    left = {8: 1}

    async def load(records: Any, unit: Unit) -> None:
        for index, record in enumerate(records):
            copy_to("invoices", record, unit)
            if left.get(record.offset):
                left[record.offset] -= 1
                raise BatchItemError(index, "not today")

    async def run() -> None:
        spec = listener(
            InBatches(load), retry=RetryPlan((600.0,), keep_order=True), has_dead_letters=True
        )
        async with running(broker, spec) as runtime:
            while runtime.listeners["bill"].counters.done < 8:
                await asyncio.sleep(0.01)
            runtime.clock.advance("11m")
            await runtime.settled()

    asyncio.run(run())
    assert values(broker, "invoices") == list(range(20))
