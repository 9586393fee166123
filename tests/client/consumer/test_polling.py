"""Records come out of poll and of iteration."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.client.consumer.conftest import Stage, nothing_comes, read, run, values

from ottla.client.aio.consumer.consumer import Consumer
from ottla.client.aio.consumer.single_user import caller
from ottla.client.aio.consumer.user_code import runner
from ottla.client.model import ConsumerRecord
from ottla.errors import ConfigError, IllegalStateError, WakeupError


def test_records_come_in_the_order_of_each_partition(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create(3)
        for n in range(3):
            stage.fill(*(b"%d" % i for i in range(5)), partition=n)
        async with stage.consumer() as consumer:
            consumer.assign(partitions)
            found = await read(consumer, 15)
        for n in range(3):
            assert [r.value for r in found if r.partition == n] == [b"%d" % i for i in range(5)]
            assert [r.offset for r in found if r.partition == n] == list(range(5))

    run(test)


def test_poll_0_returns_at_once_and_brings_records_in_the_end(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        stage.fill(b"a")
        async with stage.consumer() as consumer:
            consumer.assign(partitions)
            started = time.monotonic()
            assert not await consumer.poll(0)
            assert time.monotonic() - started < 5
            found: list[ConsumerRecord] = []
            async with asyncio.timeout(10):
                while not found:
                    found += await consumer.poll(0)
                    await asyncio.sleep(0.001)
            assert found[0].value == b"a"

    run(test)


def test_a_poll_that_finds_nothing_takes_its_time(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        async with stage.consumer() as consumer:
            consumer.assign(partitions)
            started = time.monotonic()
            assert not await consumer.poll(0.15)
            assert 0.14 < time.monotonic() - started < 5

    run(test)


def test_a_waiting_poll_returns_when_a_record_is_written(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        async with stage.consumer(fetch_max_wait_ms=10_000) as consumer:
            consumer.assign(partitions)
            await consumer.position(partitions[0])
            waiting = asyncio.create_task(consumer.poll(10))
            await asyncio.sleep(0.1)
            started = time.monotonic()
            stage.fill(b"late")
            assert [r.value for r in await waiting] == [b"late"]
            assert time.monotonic() - started < 5

    run(test)


def test_max_poll_records_limits_a_poll(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create(2)
        for n in range(2):
            stage.fill_batch(*(b"%d" % i for i in range(10)), partition=n)
        async with stage.consumer(max_poll_records=7) as consumer:
            consumer.assign(partitions)
            sizes: list[int] = []
            while sum(sizes) < 20:
                sizes.append(len(await consumer.poll(5)))
            assert max(sizes) == 7

    run(test)


def test_the_records_of_a_poll_say_what_to_commit(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create(2)
        stage.fill_batch(b"a", b"b", b"c", partition=1)
        async with stage.consumer(max_poll_records=2) as consumer:
            consumer.assign(partitions)
            records = await consumer.poll(10)
            assert records.partitions() == [partitions[1]]
            assert [(p, to.offset) for p, to in records.next_offsets.items()] == [
                (partitions[1], 2)
            ]

    run(test)


def test_the_next_records_are_fetched_while_the_user_works(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        for _ in range(4):
            stage.fill_batch(*[b"x" * 1000] * 10)
        # An answer has one batch.
        async with stage.consumer(max_partition_fetch_bytes=5000, max_poll_records=10) as consumer:
            consumer.assign(partitions)
            assert len(await consumer.poll(10)) == 10
            # Not polled meanwhile: all that waits was fetched ahead.
            async with asyncio.timeout(5):
                while len(consumer._fetcher.buffer) < 2:
                    await asyncio.sleep(0.005)
            started = time.monotonic()
            assert len(await consumer.poll(0)) == len(await consumer.poll(0)) == 10
            assert time.monotonic() - started < 5

    run(test)


def test_records_that_are_fetched_ahead_are_bounded(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        for _ in range(10):
            stage.fill_batch(*[b"x" * 1000] * 10)
        async with stage.consumer(max_partition_fetch_bytes=5000, max_poll_records=1) as consumer:
            consumer.assign(partitions)
            await consumer.poll(10)
            async with asyncio.timeout(10):
                while len(consumer._fetcher.buffer) < 2:
                    await asyncio.sleep(0.005)
            # Long enough to fetch one more.
            await asyncio.sleep(0.3)
            assert len(consumer._fetcher.buffer) == 2

    run(test)


# Iteration


def test_iteration_brings_every_record_once(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create(2)
        for n in range(2):
            stage.fill_batch(*(b"%d" % i for i in range(20)), partition=n)
        async with stage.consumer(max_poll_records=7) as consumer:
            consumer.assign(partitions)
            found = []
            async for record in consumer:
                found.append((record.partition, record.offset))
                if len(found) == 40:
                    break
            assert sorted(found) == [(p, o) for p in range(2) for o in range(20)]

    run(test)


def test_breaking_out_of_iteration_loses_nothing(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        stage.fill_batch(*(b"%d" % i for i in range(20)))
        async with stage.consumer() as consumer:
            consumer.assign(partitions)
            async for record in consumer:
                if record.offset == 4:
                    break
            assert await consumer.position(partitions[0]) == 5
            async for record in consumer:
                assert record.offset == 5
                break
            assert [r.offset for r in await consumer.poll(10)][:2] == [6, 7]

    run(test)


def test_a_seek_inside_of_iteration_takes_effect_at_once(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        stage.fill_batch(*(b"%d" % i for i in range(20)))
        async with stage.consumer() as consumer:
            consumer.assign(partitions)
            found = []
            async for record in consumer:
                found.append(record.offset)
                if record.offset == 1:
                    consumer.seek(partitions[0], 18)
                if record.offset == 19:
                    break
            assert found == [0, 1, 18, 19]

    run(test)


def test_a_pause_inside_of_iteration_takes_effect_at_once(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create(2)
        for n in range(2):
            stage.fill_batch(*(b"%d" % i for i in range(3)), partition=n)
        async with stage.consumer() as consumer:
            consumer.assign(partitions)
            found: list[tuple[int, int]] = []
            async for record in consumer:
                found.append((record.partition, record.offset))
                if len(found) == 1:
                    consumer.pause([(record.topic, record.partition)])
                if len(found) == 4:
                    break
            first = found[0][0]
            assert found == [(first, 0), (1 - first, 0), (1 - first, 1), (1 - first, 2)]
            consumer.resume()
            assert [r.offset for r in await read(consumer, 2)] == [1, 2]

    run(test)


# Who may call what, and when


def test_a_consumer_needs_a_running_loop() -> None:
    with pytest.raises(IllegalStateError, match="running loop"):
        Consumer(bootstrap_servers="127.0.0.1:1")


def test_poll_needs_something_to_read(stage: Stage) -> None:
    async def test() -> None:
        async with stage.consumer() as consumer:
            with pytest.raises(IllegalStateError, match="subscribe"):
                await consumer.poll(1)

    run(test)


def test_a_subscription_needs_a_group(stage: Stage) -> None:
    async def test() -> None:
        async with stage.consumer() as consumer:
            for topics in ([stage.topic], "^a"):
                with pytest.raises(ConfigError, match=r"group\.id"):
                    consumer.subscribe(topics)
            consumer.assign([(stage.topic, 0)])

    run(test)


def test_a_topic_that_is_no_list_is_refused(stage: Stage) -> None:
    async def test() -> None:
        async with stage.consumer(group_id="g") as consumer:
            with pytest.raises(ValueError, match=r"\['orders'\]"):
                consumer.subscribe("orders")
            with pytest.raises(ValueError, match="no name"):
                consumer.subscribe([""])

    run(test)


def test_subscriptions_and_assignments_exclude_each_other(stage: Stage) -> None:
    async def test() -> None:
        async with stage.consumer(group_id="g") as consumer:
            consumer.assign([(stage.topic, 0)])
            with pytest.raises(IllegalStateError, match="unsubscribe"):
                consumer.subscribe([stage.topic])
            await consumer.unsubscribe()
            assert consumer.assignment() == set()
            consumer.subscribe([stage.topic])
            assert consumer.subscription() == {stage.topic}
            consumer.subscribe([])
            assert consumer.subscription() == set()
            consumer.assign([(stage.topic, 0)])
            consumer.assign([])
            assert consumer.assignment() == set()

    run(test)


def test_two_tasks_cannot_poll_at_once(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        async with stage.consumer() as consumer:
            consumer.assign(partitions)
            first = asyncio.create_task(consumer.poll(0.5))
            await asyncio.sleep(0.05)
            for use in (consumer.poll(1), consumer.position(partitions[0]), consumer.commit()):
                with pytest.raises(IllegalStateError, match="another task or thread"):
                    await use
            with pytest.raises(IllegalStateError, match="another task or thread"):
                consumer.seek(partitions[0], 0)
            await first
            await consumer.poll(0)

    run(test)


def test_a_thread_may_call_again_out_of_its_callbacks(stage: Stage) -> None:
    # The blocking face runs every call of a thread in a task of its own.
    async def test() -> None:
        partitions = stage.create()
        async with stage.consumer() as consumer:
            consumer.assign(partitions)

            def as_thread(number: int) -> None:
                caller.set(number)

            as_thread(1)
            first = asyncio.create_task(consumer.poll(0.3))
            second = asyncio.create_task(consumer.position(partitions[0]))
            as_thread(2)
            third = asyncio.create_task(consumer.position(partitions[0]))
            assert await second == 0
            with pytest.raises(IllegalStateError):
                await third
            await first

    run(test)


def test_wakeup_ends_a_poll_that_waits(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        async with stage.consumer() as consumer:
            consumer.assign(partitions)
            threading.Timer(0.1, consumer.wakeup).start()
            started = time.monotonic()
            with pytest.raises(WakeupError):
                await consumer.poll(10)
            assert time.monotonic() - started < 5
            await nothing_comes(consumer, 0.05)

    run(test)


def test_wakeup_before_a_poll_ends_the_next_one_and_costs_no_record(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        stage.fill(b"a")
        async with stage.consumer() as consumer:
            consumer.assign(partitions)
            consumer.wakeup()
            with pytest.raises(WakeupError):
                await consumer.poll(10)
            assert await values(consumer, 1) == [b"a"]

    run(test)


def test_a_cancelled_poll_costs_no_record(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        stage.fill_batch(*(b"%d" % i for i in range(50)))

        class Idle:
            def on_consume(self, records: object) -> object:
                return records

        async def somewhere_else(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
            await asyncio.sleep(0)
            return function(*args)

        # As with the blocking face, whose user code runs on another thread.
        runner.set(somewhere_else)
        async with stage.consumer(max_poll_records=5, interceptor_classes=[Idle()]) as consumer:
            consumer.assign(partitions)
            found: list[int] = []
            for step in range(200):
                polling = asyncio.create_task(consumer.poll(1))
                for _ in range(step % 11):
                    await asyncio.sleep(0)
                polling.cancel()
                done = (await asyncio.gather(polling, return_exceptions=True))[0]
                if not isinstance(done, BaseException):
                    found += [r.offset for r in done]
            while len(found) < 50:
                found += [r.offset for r in await consumer.poll(5)]
            assert found == list(range(50))

    run(test)


def test_a_closed_consumer_refuses_everything(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        consumer = stage.consumer()
        consumer.assign(partitions)
        await consumer.poll(0.1)
        await consumer.close()
        await consumer.close()
        with pytest.raises(IllegalStateError, match="closed"):
            await consumer.poll(1)
        with pytest.raises(IllegalStateError, match="closed"):
            consumer.pause()
        with pytest.raises(IllegalStateError, match="closed"):
            await anext(consumer)

    run(test)


def test_close_leaves_nothing_behind_at_the_broker(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        consumer = stage.consumer(fetch_max_wait_ms=20_000)
        consumer.assign(partitions)
        await consumer.poll(0.3)
        started = time.monotonic()
        await consumer.close()
        assert time.monotonic() - started < 5, (
            "a fetch that the broker holds back is not waited for"
        )

    run(test)
