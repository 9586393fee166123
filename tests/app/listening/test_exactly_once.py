"""Exactly-once: the outputs of each record appear once, whatever answers are lost, and in the order of its key."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from tests.app.listening.listeners import OneByOne, committed, copy_to, listener, running, seed

from ottla.app.declarations.listener_spec import Delivery, ListenerSpec, Order, RawRecord
from ottla.app.delivery.unit import CURRENT_UNIT, OutgoingRecord, Unit
from ottla.errors import IllegalStateError
from ottla.testing import Broker

COUNT = 200


def check_invoices(broker: Broker, count: int = COUNT) -> None:
    """Each record's invoice once, and the invoices of a key in the order of its records."""
    invoices = broker.records("invoices")
    times = Counter(int(record.value) for record in invoices)
    assert {number: n for number, n in times.items() if n != 1} == {}, "not once"
    assert sorted(times) == list(range(count))
    by_key: dict[bytes, list[int]] = {}
    for record in invoices:
        by_key.setdefault(record.key, []).append(int(record.value))
    for numbers in by_key.values():
        assert numbers == sorted(numbers), "out of order"


async def bill(record: RawRecord, unit: Unit) -> None:
    """Waits a little for some records, so that workers overtake each other."""
    if record.offset % 5 == 0:
        await asyncio.sleep(0.002)
    copy_to("invoices", record, unit)


def exactly_once(**options: object) -> ListenerSpec:
    given = {"order": Order.KEY, "workers": 8, "delivery": Delivery.EXACTLY_ONCE, **options}
    return listener(OneByOne(bill), **given)


@pytest.mark.parametrize("order", list(Order))
def test_each_record_has_its_output_once(broker: Broker, order: Order) -> None:
    seed(broker, "orders", COUNT)

    async def run() -> None:
        async with running(broker, exactly_once(order=order)) as runtime:
            await runtime.settled()

    asyncio.run(run())
    if order is not Order.NONE:
        check_invoices(broker)
    assert sorted(int(each.value) for each in broker.records("invoices")) == list(range(COUNT))
    assert committed(broker) == COUNT


@pytest.mark.parametrize(
    ("api", "outcomes"),
    [
        ("EndTxn", ["ok", "lost answer", "ok", "lost request", "lost answer"]),
        ("TxnOffsetCommit", ["ok", "lost answer", "lost request", "lost answer"]),
        ("Produce", ["lost answer", "ok", "lost answer", "NOT_LEADER_OR_FOLLOWER"]),
        ("TxnOffsetCommit", ["ok", "ILLEGAL_GENERATION", "ok", "UNKNOWN_MEMBER_ID"]),
        ("EndTxn", ["ok", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"]),
        ("EndTxn", ["ok", "PRODUCER_FENCED"]),
        ("EndTxn", ["INVALID_PRODUCER_EPOCH"]),
        ("EndTxn", ["TRANSACTION_ABORTABLE"]),
        ("TxnOffsetCommit", ["PRODUCER_FENCED"]),
        ("Produce", ["ok", "INVALID_PRODUCER_EPOCH"]),
        ("InitProducerId", ["lost answer", "lost request"]),
    ],
)
def test_lost_answers_and_errors_neither_lose_nor_repeat_outputs(
    broker: Broker, api: str, outcomes: list[str]
) -> None:
    seed(broker, "orders", COUNT)
    fault = broker.faults.script(api, outcomes)

    async def run() -> None:
        async with running(broker, exactly_once()) as runtime:
            for number in range(len(outcomes)):
                await asyncio.to_thread(seed, broker, "orders", 10, first=COUNT + 10 * number)
                await runtime.settled()

    asyncio.run(run())
    assert fault.is_over, "the fault was not met"
    check_invoices(broker, COUNT + 10 * len(outcomes))


def test_a_commit_that_was_done_but_is_fenced_before_its_answer_is_not_repeated(
    broker: Broker,
) -> None:
    seed(broker, "orders", 10)
    broker.faults.script("EndTxn", ["lost answer", "PRODUCER_FENCED"])

    async def run() -> None:
        async with running(broker, exactly_once()) as runtime:
            await runtime.settled()
            await asyncio.to_thread(seed, broker, "orders", 10, first=10)
            await runtime.settled()

    asyncio.run(run())
    check_invoices(broker, 20)


def test_a_failed_attempt_sends_nothing_and_the_next_one_everything(broker: Broker) -> None:
    seed(broker, "orders", 20)
    failed: set[int] = set()

    async def bill_twice(record: RawRecord, unit: Unit) -> None:
        copy_to("invoices", record, unit)
        if record.offset % 3 == 0 and record.offset not in failed:
            failed.add(record.offset)
            raise RuntimeError("the printer is out of paper")

    async def run() -> None:
        spec = listener(
            OneByOne(bill_twice), order=Order.KEY, workers=4, delivery=Delivery.EXACTLY_ONCE
        )
        async with running(broker, spec) as runtime:
            while len(failed) < 7:
                await asyncio.sleep(0.01)
            runtime.clock.advance("2s")
            await runtime.settled()

    asyncio.run(run())
    check_invoices(broker, 20)
    assert len(broker.records("invoices", isolation="read_uncommitted")) == 20


def test_sends_after_the_handler_has_ended_raise(broker: Broker) -> None:
    seed(broker, "orders", 1)
    refused: list[IllegalStateError] = []

    async def run() -> None:
        leaked: list[asyncio.Task[None]] = []

        async def late() -> None:
            await asyncio.sleep(0)
            unit = CURRENT_UNIT.get()
            assert unit is not None
            try:
                unit.collect(OutgoingRecord("invoices", b"late"))
            except IllegalStateError as error:
                refused.append(error)

        async def leak(record: RawRecord, unit: Unit) -> None:
            leaked.append(asyncio.create_task(late()))

        spec = listener(OneByOne(leak), delivery=Delivery.EXACTLY_ONCE)
        async with running(broker, spec) as runtime:
            await runtime.settled()
            await asyncio.gather(*leaked)

    asyncio.run(run())
    assert [str(error) for error in refused] == [
        "invoices: nothing can be sent any more, its handler has ended"
    ]


def test_a_result_that_the_broker_refuses_becomes_a_dead_letter_and_others_go_on(
    broker: Broker,
) -> None:
    seed(broker, "orders", 20)

    async def blow_up(record: RawRecord, unit: Unit) -> None:
        size = 2_000_000 if record.offset == 7 else 1
        unit.collect(OutgoingRecord("invoices", b"%d" % record.offset + b" " * size, record.key))

    async def run() -> None:
        spec = listener(
            OneByOne(blow_up),
            order=Order.KEY,
            workers=4,
            delivery=Delivery.EXACTLY_ONCE,
            has_dead_letters=True,
        )
        async with running(broker, spec) as runtime:
            await runtime.settled()

    asyncio.run(run())
    assert sorted(int(each.value) for each in broker.records("invoices")) == [
        number for number in range(20) if number != 7
    ]
    assert [each.value for each in broker.records("orders.billing.dlt")] == [b"7"]
