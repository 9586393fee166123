"""Cases that only meet a listener now and then: they lose nothing, repeat nothing and stall nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest
from tests.app.listening.listeners import (
    InBatches,
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
    ErrorAction,
    ErrorRule,
    Order,
    RawRecord,
    RetryPlan,
)
from ottla.app.delivery.unit import OutgoingRecord, Unit
from ottla.app.errors import HandlerTimeoutError
from ottla.errors import IllegalStateError, KafkaError
from ottla.testing import Broker

DELIVERIES = pytest.mark.parametrize("delivery", list(Delivery))


def numbers(broker: Broker, topic: str = "invoices") -> list[int]:
    return [int(record.value) for record in broker.records(topic)]


async def bill(record: RawRecord, unit: Unit) -> None:
    copy_to("invoices", record, unit)


def create_topic(broker: Broker, name: str, partitions: int = 1) -> None:
    with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([ottla.admin.NewTopic(name, num_partitions=partitions)])


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def test_a_revocation_waits_by_the_apps_own_max_poll_interval(broker: Broker) -> None:
    """Otherwise the group removes the member while it still waits for its handlers."""
    seed(broker, "orders", 1)

    async def run() -> None:
        reached = asyncio.Event()

        async def hang(record: RawRecord, unit: Unit) -> None:
            reached.set()
            await asyncio.sleep(60)

        options = {"max.poll.interval.ms": 2000, "heartbeat.interval.ms": 100}
        async with running(broker, listener(OneByOne(hang)), **options) as first:
            await reached.wait()
            began = time.monotonic()
            await first.drain()
            assert time.monotonic() - began < 5

    asyncio.run(run())
    assert committed(broker) in (None, 0)


def test_a_rebalance_does_not_wait_for_a_commit_that_it_holds_up(broker: Broker) -> None:
    """With ack="record" a worker waits for the commit of its record, and nothing is committed inside a rebalance."""
    create_topic(broker, "orders", 2)
    seed(broker, "orders", 60, keys=40)

    async def run() -> None:
        async def slow(record: RawRecord, unit: Unit) -> None:
            await asyncio.sleep(0.002)
            copy_to("invoices", record, unit)

        spec = listener(OneByOne(slow), workers=2, ack=Ack(AckMode.RECORD))
        options: dict[str, object] = {"heartbeat.interval.ms": 100}
        async with running(broker, spec, **options) as first:
            await until(lambda: first.listeners["bill"].counters.done >= 4)
            broker.faults.add("OffsetCommit", delay="100ms", times=40)
            began = time.monotonic()
            async with running(broker, spec, **options) as second:
                await until(lambda: second.listeners["bill"].assignment)
                assert time.monotonic() - began < 10
            await first.settled()

    asyncio.run(run())
    assert sorted(set(numbers(broker))) == list(range(60))


def test_a_member_that_was_removed_drains_at_once(broker: Broker) -> None:
    """Its units can never be committed: waiting for that helps nobody."""
    seed(broker, "orders", 200)

    async def run() -> None:
        spec = listener(OneByOne(bill), order=Order.KEY, workers=4, delivery=Delivery.EXACTLY_ONCE)
        broker.faults.add("TxnOffsetCommit", error="UNKNOWN_MEMBER_ID", times=1000)
        async with running(broker, spec) as runtime:
            await until(lambda: runtime.listeners["bill"].counters.transactions_aborted)
            began = time.monotonic()
            await runtime.drain()
            assert time.monotonic() - began < 5

    asyncio.run(run())
    assert numbers(broker) == []


@DELIVERIES
def test_a_handler_that_ends_with_a_cancelled_task_has_failed(
    broker: Broker, delivery: Delivery
) -> None:
    seed(broker, "orders", 3)

    async def run() -> None:
        async def cancelled(record: RawRecord, unit: Unit) -> None:
            if record.offset == 1:
                task = asyncio.ensure_future(asyncio.sleep(10))
                task.cancel()
                await task
            copy_to("invoices", record, unit)

        spec = listener(OneByOne(cancelled), delivery=delivery, has_dead_letters=True)
        async with running(broker, spec) as runtime:
            async with asyncio.timeout(5):
                await runtime.settled()

    asyncio.run(run())
    assert numbers(broker) == [0, 2]
    assert numbers(broker, "orders.billing.dlt") == [1]


def test_a_retry_that_is_due_starts_while_other_partitions_keep_the_workers_busy(
    broker: Broker,
) -> None:
    create_topic(broker, "orders")
    create_topic(broker, "others")
    seed(broker, "orders", 1)
    seed(broker, "others", 3000)

    async def run() -> None:
        attempts: list[int] = []
        handled = 0

        async def fail_first(record: RawRecord, unit: Unit) -> None:
            nonlocal handled
            if record.topic == "others":
                handled += 1
                await asyncio.sleep(0.001)
                return
            attempts.append(handled)
            if len(attempts) == 1:
                raise RuntimeError("not yet")

        spec = listener(
            OneByOne(fail_first),
            topics=("orders", "others"),
            workers=1,
            retry=RetryPlan((0.05,)),
        )
        async with running(broker, spec) as runtime:
            await until(lambda: len(attempts) == 2 or handled == 3000)
            assert len(attempts) == 2
            assert attempts[1] < 2500
            await runtime.stop()

    asyncio.run(run())


@DELIVERIES
def test_a_failed_claim_of_a_partition_is_repeated(broker: Broker, delivery: Delivery) -> None:
    seed(broker, "orders", 20)

    async def run() -> None:
        options: dict[str, object] = {
            "default.api.timeout.ms": 500,
            "request.timeout.ms": 400,
            "fetch.max.wait.ms": 100,
        }
        spec = listener(OneByOne(bill), delivery=delivery)
        fault = broker.faults.add("OffsetFetch", error="COORDINATOR_LOAD_IN_PROGRESS", times=5)
        async with running(broker, spec, **options) as runtime:
            async with asyncio.timeout(20):
                await runtime.settled()
        assert fault.is_over

    asyncio.run(run())
    assert numbers(broker) == list(range(20))


def test_records_that_come_while_the_producer_starts_over_are_not_skipped(broker: Broker) -> None:
    """A partition without a committed offset is read for the first time just then."""
    create_topic(broker, "orders")
    create_topic(broker, "fresh")

    async def run() -> None:
        spec = listener(OneByOne(bill), topics=("orders", "fresh"), delivery=Delivery.EXACTLY_ONCE)
        async with running(broker, spec) as runtime:
            await until(lambda: len(runtime.listeners["bill"].assignment) == 2)
            broker.faults.script("EndTxn", ["PRODUCER_FENCED"])
            broker.faults.add("InitProducerId", delay="700ms", times=1)
            await asyncio.to_thread(seed, broker, "orders", 5)
            await until(lambda: runtime.listeners["bill"].counters.transactions_aborted)
            await asyncio.to_thread(seed, broker, "fresh", 5, first=100)
            await asyncio.sleep(0.3)
            await asyncio.to_thread(seed, broker, "fresh", 5, first=200)
            await runtime.settled()

    asyncio.run(run())
    assert sorted(numbers(broker)) == [*range(5), *range(100, 105), *range(200, 205)]


def test_a_thread_that_returns_a_result_after_its_timeout_has_timed_out(broker: Broker) -> None:
    seed(broker, "orders", 1)

    async def run() -> None:
        class Late(InThread):
            async def __call__(self, records: Sequence[RawRecord], unit: Unit) -> None:
                await asyncio.to_thread(time.sleep, 0.3)
                unit.collect(OutgoingRecord("invoices", b"late"))

        spec = listener(
            Late(lambda record: None),
            handler_timeout_seconds=0.1,
            errors=(ErrorRule(HandlerTimeoutError, ErrorAction.IGNORE),),
        )
        async with running(broker, spec) as runtime:
            async with asyncio.timeout(5):
                await runtime.settled()
            assert runtime.listeners["bill"].counters.ignored == 1

    create_topic(broker, "invoices")
    asyncio.run(run())
    assert broker.records("invoices") == []


@pytest.mark.parametrize("order", [Order.PARTITION, Order.KEY])
def test_a_topic_that_is_missing_fails_its_own_record_only(broker: Broker, order: Order) -> None:
    create_topic(broker, "invoices")
    seed(broker, "orders", 10)

    async def run() -> None:
        async def misdirect(record: RawRecord, unit: Unit) -> None:
            copy_to("no such topic" if record.offset == 3 else "invoices", record, unit)

        spec = listener(
            OneByOne(misdirect),
            order=order,
            workers=2,
            delivery=Delivery.EXACTLY_ONCE,
            has_dead_letters=True,
        )
        async with running(broker, spec) as runtime:
            async with asyncio.timeout(10):
                await runtime.settled()

    asyncio.run(run())
    assert sorted(numbers(broker)) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert numbers(broker, "orders.billing.dlt") == [3]


@DELIVERIES
def test_a_batch_whose_result_is_refused_runs_again_in_its_order(
    broker: Broker, delivery: Delivery
) -> None:
    seed(broker, "orders", 10)

    async def run() -> None:
        runs: list[list[int]] = []

        async def too_large_at_first(records: Sequence[RawRecord], unit: Unit) -> None:
            runs.append([record.offset for record in records])
            size = 2_000_000 if len(runs) == 1 else 1
            unit.collect(OutgoingRecord("invoices", b"1" * size))

        spec = listener(InBatches(too_large_at_first), delivery=delivery, max_batch_records=10)
        async with running(broker, spec) as runtime:
            await until(lambda: runs)
            while len(runs) < 2:
                runtime.clock.advance("1s")
                await asyncio.sleep(0.02)
            await runtime.settled()
        assert [offset for run in runs[1:] for offset in run] == list(range(10))

    asyncio.run(run())


def test_filtered_records_of_batches_never_outgrow_the_metadata() -> None:
    """They are finished before the rest of their batch: every second record is a gap then."""

    async def slow(records: Sequence[RawRecord], unit: Unit) -> None:
        await asyncio.sleep(0.1)
        for record in records:
            copy_to("invoices", record, unit)

    async def run(broker: Broker) -> None:
        spec = listener(
            InBatches(slow),
            order=Order.KEY,
            workers=4,
            delivery=Delivery.EXACTLY_ONCE,
            accepts=lambda record: record.offset % 2 == 0,
            max_batch_records=200,
        )
        async with running(broker, spec) as runtime:
            await runtime.settled()

    with Broker(offset_metadata_max_bytes=100) as broker:
        seed(broker, "orders", 300, keys=50)
        asyncio.run(run(broker))
        assert sorted(numbers(broker)) == list(range(0, 300, 2))


def test_units_of_a_partition_that_was_given_up_are_not_sent_without_its_offsets(
    broker: Broker,
) -> None:
    """One unit is refused, so the others go one by one; in between the listener is moved back."""
    create_topic(broker, "orders", 2)
    create_topic(broker, "invoices")
    seed(broker, "orders", 40, keys=40)

    async def run() -> None:
        is_large = True

        async def blow_up(record: RawRecord, unit: Unit) -> None:
            size = 2_000_000 if is_large and record.partition == 0 and record.offset == 0 else 0
            unit.collect(
                OutgoingRecord("invoices", bytes(record.value or b"") + b" " * size, record.key)
            )

        spec = listener(
            OneByOne(blow_up), order=Order.KEY, workers=40, delivery=Delivery.EXACTLY_ONCE
        )
        async with running(broker, spec) as runtime:
            run = runtime.listeners["bill"]
            broker.faults.add("TxnOffsetCommit", delay="100ms", times=4)
            await until(lambda: run.counters.commits >= 1)
            is_large = False
            # The same place again: nothing of it is committed yet.
            started = {each: window.committed for each, window in run._windows.items()}
            await run.seek({each: 0 if at is None else at.offset for each, at in started.items()})
            await runtime.settled()

    asyncio.run(run())
    found = numbers(broker)
    assert sorted(set(found)) == list(range(40))


@pytest.mark.parametrize("order", [Order.PARTITION, Order.KEY])
def test_followers_do_not_overtake_a_record_whose_result_was_refused(
    broker: Broker, order: Order
) -> None:
    create_topic(broker, "invoices")
    seed(broker, "orders", 20, keys=2)

    async def run() -> None:
        attempts = 0

        async def blow_up(record: RawRecord, unit: Unit) -> None:
            nonlocal attempts
            size = 0
            if record.offset == 4:
                attempts += 1
                size = 2_000_000 if attempts < 2 else 0
            unit.collect(
                OutgoingRecord("invoices", bytes(record.value or b"") + b" " * size, record.key)
            )

        spec = listener(
            OneByOne(blow_up),
            order=order,
            workers=4,
            delivery=Delivery.EXACTLY_ONCE,
            retry=RetryPlan((0.1,), keep_order=True),
            has_dead_letters=True,
        )
        async with running(broker, spec) as runtime:
            await runtime.settled()

    asyncio.run(run())
    found = numbers(broker)
    assert sorted(found) == list(range(20))
    for key in range(2):
        of_key = [number for number in found if number % 2 == key]
        assert of_key == sorted(of_key)


def test_refused_units_never_outgrow_the_metadata() -> None:
    async def run(broker: Broker) -> None:
        async def blow_up(record: RawRecord, unit: Unit) -> None:
            size = 2_000_000 if record.offset % 2 == 0 else 0
            unit.collect(
                OutgoingRecord("invoices", bytes(record.value or b"") + b" " * size, record.key)
            )

        for order in (Order.PARTITION, Order.KEY):
            spec = listener(
                OneByOne(blow_up),
                order=order,
                group=order.value,
                workers=100,
                delivery=Delivery.EXACTLY_ONCE,
                retry=RetryPlan((0.01,), keep_order=True),
                has_dead_letters=True,
            )
            async with running(broker, spec) as runtime:
                await runtime.settled()
            letters = numbers(broker, f"orders.{order.value}.dlt")
            assert sorted(letters) == list(range(0, 20, 2))

    with Broker(offset_metadata_max_bytes=60) as broker:
        create_topic(broker, "invoices")
        seed(broker, "orders", 20, keys=20)
        asyncio.run(run(broker))
        assert sorted(numbers(broker)) == sorted([*range(1, 20, 2)] * 2)


@pytest.mark.parametrize("partition", [None, 7])
def test_a_topic_or_partition_that_does_not_exist_stalls_no_other_record(
    partition: int | None,
) -> None:
    async def run(broker: Broker) -> None:
        async def misdirect(record: RawRecord, unit: Unit) -> None:
            if record.offset == 3:
                topic = "missing" if partition is None else "invoices"
                unit.collect(OutgoingRecord(topic, record.value, record.key, partition))
            else:
                copy_to("invoices", record, unit)

        spec = listener(
            OneByOne(misdirect),
            order=Order.KEY,
            workers=2,
            delivery=Delivery.EXACTLY_ONCE,
            has_dead_letters=True,
        )
        async with running(broker, spec) as runtime:
            async with asyncio.timeout(20):
                await runtime.settled()

    with Broker(auto_create_topics_enable=False) as broker:
        create_topic(broker, "orders")
        create_topic(broker, "invoices")
        seed(broker, "orders", 10)
        asyncio.run(run(broker))
        assert sorted(numbers(broker)) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
        assert numbers(broker, "orders.billing.dlt") == [3]


@DELIVERIES
def test_the_records_of_a_topic_that_was_made_again_are_all_handled(
    broker: Broker, delivery: Delivery
) -> None:
    create_topic(broker, "orders")
    create_topic(broker, "others")
    seed(broker, "orders", 50)

    async def run() -> None:
        reached, release = asyncio.Event(), asyncio.Event()

        async def wait(record: RawRecord, unit: Unit) -> None:
            if record.value == b"3":
                reached.set()
                await release.wait()
            copy_to("invoices", record, unit)

        spec = listener(
            OneByOne(wait),
            topics=("orders", "others"),
            order=Order.KEY,
            workers=8,
            delivery=delivery,
        )
        options: dict[str, object] = {"metadata.max.age.ms": 300}
        async with running(broker, spec, **options) as runtime:
            await reached.wait()
            with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
                await asyncio.to_thread(admin.delete_topics, ["orders"])
            with suppress(KafkaError):  # a client that asked for its metadata may have created it
                await asyncio.to_thread(create_topic, broker, "orders")
            await asyncio.to_thread(seed, broker, "orders", 20, first=1000)
            await asyncio.sleep(0.5)
            release.set()
            async with asyncio.timeout(20):
                while not set(range(1000, 1020)) <= set(await asyncio.to_thread(numbers, broker)):
                    await asyncio.sleep(0.05)
            await runtime.settled()

    asyncio.run(run())
    assert set(range(1000, 1020)) <= set(numbers(broker))


def test_a_metadata_limit_that_was_lowered_is_told(broker: Broker) -> None:
    """The gaps of the last run do not fit any more, and must not be left out."""
    seed(broker, "orders", 200, keys=200)

    async def run() -> None:
        async def every_second(record: RawRecord, unit: Unit) -> None:
            if record.offset % 2 == 0 and not is_released:
                await asyncio.sleep(60)
            copy_to("invoices", record, unit)

        is_released = False
        spec = listener(
            OneByOne(every_second), order=Order.KEY, workers=200, delivery=Delivery.EXACTLY_ONCE
        )
        async with running(broker, spec) as runtime:
            await until(lambda: runtime.listeners["bill"].counters.done == 100)
            await until(lambda: runtime.listeners["bill"]._finisher.is_settled)
            await runtime.stop()
        is_released = True
        async with running(broker, spec) as runtime:
            run = runtime.listeners["bill"]
            run._limits = replace(run._limits, metadata_bytes=60)
            with pytest.raises(IllegalStateError, match=r"raise offset\.metadata\.max\.bytes"):
                await runtime.wait()

    asyncio.run(run())
    assert sorted(numbers(broker)) == list(range(1, 200, 2))


@DELIVERIES
def test_a_restart_skips_nothing_though_the_group_began_at_the_end(
    broker: Broker, delivery: Delivery
) -> None:
    """auto.offset.reset=latest, and no record came before the restart."""
    create_topic(broker, "orders")

    async def run() -> None:
        spec = listener(OneByOne(bill), delivery=delivery)
        options: dict[str, object] = {"auto.offset.reset": "latest"}
        async with running(broker, spec, **options):
            await until(lambda: committed(broker) == 0)
        await asyncio.to_thread(seed, broker, "orders", 5)
        async with running(broker, spec, **options) as runtime:
            await runtime.settled()

    asyncio.run(run())
    assert numbers(broker) == list(range(5))
