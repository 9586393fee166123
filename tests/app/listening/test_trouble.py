"""Rebalances in mid-handler, handlers that hang, drains, acknowledgements by hand, windows that fill up."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from contextlib import AsyncExitStack

import pytest
from tests.app.listening.listeners import (
    InThread,
    OneByOne,
    committed,
    copy_to,
    listener,
    running,
    seed,
)

import ottla
from ottla.app.declarations.listener_spec import (
    Ack,
    AckMode,
    Delivery,
    Order,
    RawRecord,
    RetryPlan,
)
from ottla.app.delivery.gaps import decode_gaps
from ottla.app.delivery.unit import Unit
from ottla.app.delivery.window import WindowLimits
from ottla.app.errors import HandlerTimeoutError
from ottla.app.letters.history import read_history
from ottla.app.listening.listener_health import ListenerStatus
from ottla.model import TopicPartition
from ottla.testing import Broker

DELIVERIES = pytest.mark.parametrize("delivery", list(Delivery))


def invoice_counts(broker: Broker) -> Counter[int]:
    return Counter(int(record.value) for record in broker.records("invoices"))


async def slow_bill(record: RawRecord, unit: Unit) -> None:
    await asyncio.sleep(0.008)
    copy_to("invoices", record, unit)


@DELIVERIES
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_members_that_come_and_go_lose_nothing_and_repeat_nothing(
    broker: Broker, delivery: Delivery, assignor: str
) -> None:
    with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([ottla.admin.NewTopic("orders", num_partitions=4)])
    seed(broker, "orders", 600, keys=40)

    async def run() -> None:
        spec = listener(OneByOne(slow_bill), order=Order.KEY, workers=3, delivery=delivery)
        options: dict[str, object] = {
            "partition.assignment.strategy": assignor,
            "heartbeat.interval.ms": 100,
        }
        async with running(broker, spec, **options) as first, AsyncExitStack() as others:
            while first.listeners["bill"].counters.done < 30:
                await asyncio.sleep(0.005)
            second = await others.enter_async_context(running(broker, spec, **options))
            while second.listeners["bill"].counters.done < 30:
                await asyncio.sleep(0.005)
            await second.drain()
            while not await asyncio.to_thread(_is_done, broker):
                await asyncio.sleep(0.02)

    asyncio.run(run())
    counts = invoice_counts(broker)
    assert sorted(counts) == list(range(600))
    # Handlers in hand were waited for, so at-least-once repeats nothing here either.
    assert {n: times for n, times in counts.items() if times != 1} == {}


def _is_done(broker: Broker) -> bool:
    lag = broker.lag("billing")
    return len(lag) == 4 and not any(lag.values())


def test_a_member_that_was_removed_in_mid_handler_sends_nothing(broker: Broker) -> None:
    """Its session ends while a handler runs: the unit is dropped, and the record is handled again."""
    seed(broker, "orders", 1)

    async def run() -> None:
        reached, release = asyncio.Event(), asyncio.Event()
        runs = 0

        async def bill(record: RawRecord, unit: Unit) -> None:
            nonlocal runs
            runs += 1
            if runs == 1:
                reached.set()
                await release.wait()
            copy_to("invoices", record, unit)

        spec = listener(OneByOne(bill), delivery=Delivery.EXACTLY_ONCE)
        async with running(broker, spec, **{"heartbeat.interval.ms": 100}) as runtime:
            await reached.wait()
            fault = broker.faults.add("Heartbeat", error="UNKNOWN_MEMBER_ID", times=1)
            await asyncio.to_thread(broker.clock.advance, "2m")
            while not fault.hits and runtime.listeners["bill"].counters.rebalances < 2:
                await asyncio.sleep(0.02)
            while runtime.listeners["bill"].counters.rebalances < 2:
                await asyncio.sleep(0.02)
            release.set()
            await runtime.settled()
            assert runs == 2

    asyncio.run(run())
    assert invoice_counts(broker) == {0: 1}


@DELIVERIES
def test_an_async_handler_is_cancelled_at_its_timeout(broker: Broker, delivery: Delivery) -> None:
    seed(broker, "orders", 3)
    cancelled: list[int] = []

    async def hang(record: RawRecord, unit: Unit) -> None:
        copy_to("invoices", record, unit)
        if record.offset == 1:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.append(record.offset)
                raise

    async def run() -> None:
        spec = listener(
            OneByOne(hang),
            delivery=delivery,
            handler_timeout_seconds=0.05,
            has_dead_letters=True,
            retry=RetryPlan((), keep_order=True),
        )
        async with running(broker, spec) as runtime:
            await runtime.settled()

    asyncio.run(run())
    assert cancelled == [1]
    assert invoice_counts(broker) == {0: 1, 2: 1}
    (letter,) = broker.records("orders.billing.dlt")
    history = read_history(letter)
    assert history is not None
    assert history.error == f"{HandlerTimeoutError.__module__}.HandlerTimeoutError"


def test_a_thread_beyond_its_timeout_stalls_its_partition_and_health_says_so(
    broker: Broker,
) -> None:
    seed(broker, "orders", 3)
    release = threading.Event()
    seen: list[int] = []

    def hang(record: RawRecord) -> None:
        seen.append(record.offset)
        if record.offset == 1:
            release.wait(20)

    async def run() -> None:
        spec = listener(InThread(hang), handler_timeout_seconds=0.05, has_dead_letters=True)
        async with running(broker, spec) as runtime:
            while not (reasons := runtime.health()[0].reasons):
                await asyncio.sleep(0.01)
            assert runtime.health()[0].status is ListenerStatus.STALLED
            assert reasons[0] == (
                "the handler has worked on orders-0 offset 1 longer than its handler_timeout, "
                "and a thread cannot be cancelled"
            )
            assert seen == [0, 1]
            release.set()
            await runtime.settled()
            assert runtime.health()[0].is_ok

    asyncio.run(run())
    assert seen == [0, 1, 2]
    assert [record.value for record in broker.records("orders.billing.dlt")] == [b"1"]


@DELIVERIES
def test_a_drain_finishes_what_is_in_hand_and_starts_nothing_more(
    broker: Broker, delivery: Delivery
) -> None:
    seed(broker, "orders", 100, keys=100)
    started: list[int] = []
    ended: list[int] = []

    async def run() -> None:
        reached = asyncio.Event()

        async def bill(record: RawRecord, unit: Unit) -> None:
            started.append(record.offset)
            if len(started) == 4:
                reached.set()
            await asyncio.sleep(0.05)
            ended.append(record.offset)
            copy_to("invoices", record, unit)

        spec = listener(OneByOne(bill), order=Order.KEY, workers=4, delivery=delivery)
        async with running(broker, spec) as runtime:
            await reached.wait()
            await runtime.drain(10)
            health = runtime.listeners["bill"].health()
            assert health.status is ListenerStatus.STOPPED
            assert health.is_ok, "a closed client is no trouble of a listener that was stopped"

    asyncio.run(run())
    assert started == [0, 1, 2, 3]
    assert sorted(ended) == started
    assert invoice_counts(broker) == dict.fromkeys(started, 1)
    assert committed(broker) == 4


def test_acknowledgement_by_hand_finishes_records_in_any_order(broker: Broker) -> None:
    seed(broker, "orders", 10)

    async def run() -> None:
        waiting: dict[int, Unit] = {}

        async def bill(record: RawRecord, unit: Unit) -> None:
            waiting[record.offset] = unit

        def acknowledge(offset: int) -> None:
            done = waiting[offset].acknowledge
            assert done is not None
            done()

        spec = listener(OneByOne(bill), ack=Ack(AckMode.MANUAL))
        async with running(broker, spec) as runtime:
            while len(waiting) < 10:
                await asyncio.sleep(0.01)
            for offset in (5, 0, 1):
                acknowledge(offset)
            while (await asyncio.to_thread(committed, broker)) != 2:
                await asyncio.sleep(0.02)
            for offset in (2, 3, 4, 6, 7, 8, 9):
                acknowledge(offset)
            await runtime.settled()

    asyncio.run(run())
    assert committed(broker) == 10


def test_with_ack_record_every_record_is_committed_before_the_next_one_starts(
    broker: Broker,
) -> None:
    seed(broker, "orders", 8)

    async def run() -> None:
        async def bill(record: RawRecord, unit: Unit) -> None:
            at = await asyncio.to_thread(committed, broker)
            assert (at or 0) >= record.offset

        spec = listener(OneByOne(bill), ack=Ack(AckMode.RECORD))
        async with running(broker, spec) as runtime:
            await runtime.settled()
            assert runtime.listeners["bill"].counters.retried == 0
            assert runtime.listeners["bill"].counters.commits >= 8

    asyncio.run(run())


@DELIVERIES
def test_a_small_metadata_limit_pauses_the_partition_and_nothing_is_done_again(
    delivery: Delivery,
) -> None:
    """Even keys hang, odd ones go on: every second record is a gap, until the metadata is full."""
    done: Counter[int] = Counter()

    async def run(broker: Broker) -> None:
        release = asyncio.Event()

        async def bill(record: RawRecord, unit: Unit) -> None:
            if record.offset % 2 == 0:
                await release.wait()
            done[record.offset] += 1
            copy_to("invoices", record, unit)

        ack = Ack(AckMode.EVERY, 1) if delivery is Delivery.AT_LEAST_ONCE else Ack(AckMode.BATCH)
        spec = listener(OneByOne(bill), order=Order.KEY, workers=200, delivery=delivery, ack=ack)
        async with running(broker, spec) as runtime:
            run = runtime.listeners["bill"]
            while not any(window.is_blocked for window in run._windows.values()):
                await asyncio.sleep(0.01)
            while run._workers.runs and not all(
                each.record.offset % 2 == 0 for each in run._workers.runs
            ):
                await asyncio.sleep(0.01)
            started = sum(done.values())
            assert 0 < started < 200
            # A second member would find the gaps.
            while True:
                with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
                    offsets = admin.list_consumer_group_offsets(["billing"])["billing"]
                found = offsets.get(TopicPartition("orders", 0))
                if found and len(decode_gaps(found.metadata, found.offset).finished) >= started / 2:
                    assert len(found.metadata) <= 100
                    break
                await asyncio.sleep(0.02)
            release.set()
            await runtime.settled()

    with Broker(offset_metadata_max_bytes=100) as broker:
        seed(broker, "orders", 400, keys=400)
        asyncio.run(run(broker))
        assert done == dict.fromkeys(range(400), 1)
        assert invoice_counts(broker) == dict.fromkeys(range(400), 1)


def test_a_full_window_pauses_fetching_while_polling_goes_on(broker: Broker) -> None:
    seed(broker, "orders", 500)

    async def run() -> None:
        release = asyncio.Event()

        async def bill(record: RawRecord, unit: Unit) -> None:
            await release.wait()

        spec = listener(OneByOne(bill), max_window_records=100)
        options = {"max.poll.records": 20, "max.poll.interval.ms": 6000, "session.timeout.ms": 6000}
        async with running(broker, spec, **options) as runtime:
            run = runtime.listeners["bill"]
            while not any(window.is_fetch_paused for window in run._windows.values()):
                await asyncio.sleep(0.01)
            assert run.counters.received <= 120
            release.set()
            await runtime.settled()
            assert run.counters.done == 500

    asyncio.run(run())


def test_pause_and_resume_and_seek(broker: Broker) -> None:
    seed(broker, "orders", 30)
    done: list[int] = []

    async def run() -> None:
        async def bill(record: RawRecord, unit: Unit) -> None:
            done.append(record.offset)

        spec = listener(OneByOne(bill), starts_paused=True)
        async with running(broker, spec) as runtime:
            run = runtime.listeners["bill"]
            while not run.assignment:
                await asyncio.sleep(0.01)
            assert run.health().status is ListenerStatus.PAUSED
            assert not done
            run.resume()
            await runtime.settled()
            assert done == list(range(30))
            await run.seek({("orders", 0): 25})
            await runtime.settled()
            assert done == [*range(30), *range(25, 30)]
            await run.seek({("orders", 0): "beginning"})
            await runtime.settled()

    asyncio.run(run())
    assert done == [*range(30), *range(25, 30), *range(30)]


def test_idle_events_come_when_nothing_does(broker: Broker) -> None:
    seed(broker, "orders", 3)
    told: list[int] = []

    async def run() -> None:
        done: list[int] = []

        async def bill(record: RawRecord, unit: Unit) -> None:
            done.append(record.offset)

        spec = listener(
            OneByOne(bill), idle_after_seconds=0.05, on_idle=lambda: told.append(len(done))
        )
        async with running(broker, spec):
            while len(told) < 2:
                await asyncio.sleep(0.01)

    asyncio.run(run())
    assert told[:2] == [3, 3]


@DELIVERIES
def test_control_records_of_the_input_do_not_hold_the_commit_back(
    broker: Broker, delivery: Delivery
) -> None:
    with ottla.Producer(
        bootstrap_servers=broker.bootstrap_servers, transactional_id="shop"
    ) as producer:
        producer.init_transactions()
        for number in range(5):
            with producer.transaction():
                producer.send("orders", b"%d" % number, key=b"k")

    async def run() -> None:
        spec = listener(
            OneByOne(slow_bill),
            delivery=delivery,
            consumer_options={"isolation.level": "read_committed"},
        )
        async with running(broker, spec) as runtime:
            await runtime.settled()

    asyncio.run(run())
    assert committed(broker) == 10
    assert invoice_counts(broker) == dict.fromkeys(range(5), 1)
    assert WindowLimits().pause_bytes == 3072


def test_partitions_whose_committed_offsets_are_not_known_wait_for_them(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.app.listening.listener_run._CLAIM_SECONDS", 0.1)
    seed(broker, "orders", 20)
    fault = broker.faults.add("OffsetFetch", error="COORDINATOR_LOAD_IN_PROGRESS")

    async def run() -> None:
        async with running(broker, listener(OneByOne(slow_bill))) as runtime:
            while fault.hits < 4:
                await asyncio.sleep(0.02)
            assert runtime.listeners["bill"].counters.received == 0
            fault.remove()
            await runtime.settled()

    asyncio.run(run())
    assert invoice_counts(broker) == dict.fromkeys(range(20), 1)


def test_a_rebalance_does_not_wait_for_workers_that_wait_for_their_commit(broker: Broker) -> None:
    with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([ottla.admin.NewTopic("orders", num_partitions=4)])
    seed(broker, "orders", 200, keys=40)

    async def run() -> None:
        spec = listener(OneByOne(slow_bill), workers=2, ack=Ack(AckMode.RECORD))
        options: dict[str, object] = {"heartbeat.interval.ms": 50}
        async with running(broker, spec, **options) as first:
            while first.listeners["bill"].counters.done < 10:
                await asyncio.sleep(0.005)
            async with running(broker, spec, **options):
                while not await asyncio.to_thread(_is_done, broker):
                    await asyncio.sleep(0.02)

    asyncio.run(run())
    assert invoice_counts(broker) == dict.fromkeys(range(200), 1)
