"""wakeup() ends every call of a consumer that waits, as Java's does, and nothing but that call."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.client.consumer.conftest import run
from tests.client.producer.meddler import Meddler, meddled_broker

import ottla
import ottla.aio
from ottla import Broker
from ottla.client.aio.consumer.wakeup import Wakeups
from ottla.errors import WakeupError

WAIT_SECONDS = 20.0

CALLS: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
    "commit": ("OffsetCommit", lambda consumer, topic: consumer.commit({(topic, 0): 0})),
    "committed": ("OffsetFetch", lambda consumer, topic: consumer.committed([(topic, 0)])),
    "offsets_for_times": (
        "ListOffsets",
        lambda consumer, topic: consumer.offsets_for_times({(topic, 0): 0}),
    ),
    "beginning_offsets": (
        "ListOffsets",
        lambda consumer, topic: consumer.beginning_offsets([(topic, 0)]),
    ),
    "end_offsets": ("ListOffsets", lambda consumer, topic: consumer.end_offsets([(topic, 0)])),
    "list_topics": ("Metadata", lambda consumer, topic: consumer.list_topics()),
    "partitions_for": ("Metadata", lambda consumer, topic: consumer.partitions_for(topic + "-new")),
    "position": ("ListOffsets", lambda consumer, topic: consumer.position((topic, 0))),
}


@pytest.fixture(scope="module")
def stage() -> Any:
    with meddled_broker() as pair:
        yield pair


def make(stage: tuple[Broker, Meddler], topic: str) -> tuple[ottla.Consumer, Meddler]:
    meddler = stage[1]
    meddler.calm()
    servers = f"127.0.0.1:{meddler.port}"
    with ottla.Producer(bootstrap_servers=servers) as producer:
        producer.send(topic, b"x", partition=0).result(WAIT_SECONDS)
    consumer = ottla.Consumer(
        bootstrap_servers=servers, group_id="g-" + topic, auto_offset_reset="earliest"
    )
    consumer.assign([(topic, 0)])
    consumer.committed([(topic, 0)])  # the coordinator is known
    return consumer, meddler


@pytest.mark.parametrize("name", CALLS)
def test_wakeup_ends_a_call_that_waits_and_the_next_works(
    stage: tuple[Broker, Meddler], ottla_topic_name: Callable[[], str], name: str
) -> None:
    topic = ottla_topic_name()
    consumer, meddler = make(stage, topic)
    api, call = CALLS[name]
    with consumer:
        hold = threading.Event()
        held = meddler.on(api, hold=hold)

        def wake_up() -> None:
            while not held.done:
                time.sleep(0.005)
            consumer.wakeup()

        waker = threading.Thread(target=wake_up)
        waker.start()
        started = time.monotonic()
        with pytest.raises(WakeupError):
            call(consumer, topic)
        assert time.monotonic() - started < 5
        waker.join(WAIT_SECONDS)
        hold.set()
        call(consumer, topic)
        assert len(consumer.poll(WAIT_SECONDS)) == 1, "the wakeup is used up"


def test_wakeup_before_a_call_ends_it(
    stage: tuple[Broker, Meddler], ottla_topic_name: Callable[[], str]
) -> None:
    topic = ottla_topic_name()
    consumer, _ = make(stage, topic)
    with consumer:
        for name in ("commit", "committed", "end_offsets", "list_topics", "partitions_for"):
            consumer.wakeup()
            with pytest.raises(WakeupError):
                CALLS[name][1](consumer, topic)
            CALLS[name][1](consumer, topic)


def test_wakeup_does_not_end_a_close(
    stage: tuple[Broker, Meddler], ottla_topic_name: Callable[[], str]
) -> None:
    topic = ottla_topic_name()
    consumer, meddler = make(stage, topic)
    assert len(consumer.poll(WAIT_SECONDS)) == 1
    hold = threading.Event()
    held = meddler.on("OffsetCommit", hold=hold)
    closing = threading.Thread(target=consumer.close)
    closing.start()
    while not held.done:
        time.sleep(0.005)
    consumer.wakeup()
    hold.set()
    closing.join(WAIT_SECONDS)
    with ottla.Consumer(
        bootstrap_servers=f"127.0.0.1:{meddler.port}", group_id="g-" + topic
    ) as other:
        committed = other.committed([(topic, 0)])[topic, 0]  # type: ignore[index]
    assert committed is not None
    assert committed.offset == 1


def test_wakeup_in_a_callback_of_a_commit_waits_for_the_network(
    stage: tuple[Broker, Meddler], ottla_topic_name: Callable[[], str]
) -> None:
    """User code is not torn apart: it goes on to its end, and the call is ended after it."""
    topic = ottla_topic_name()
    done: list[str] = []

    async def commit_twice(consumer: ottla.aio.Consumer) -> None:
        for _ in range(2):
            await consumer.commit({(topic, 0): 1})

    async def test() -> None:
        consumer = ottla.aio.Consumer(
            bootstrap_servers=f"127.0.0.1:{stage[1].port}", group_id="g-" + topic
        )

        async def slow(offsets: object, error: object) -> None:
            consumer.wakeup()
            await asyncio.sleep(0.05)
            done.append("callback")

        async with consumer:
            consumer.assign([(topic, 0)])
            consumer.commit_async({(topic, 0): 1}, slow)
            with pytest.raises(WakeupError):
                await commit_twice(consumer)
            await consumer.commit({(topic, 0): 1})
        assert done == ["callback"]

    make(stage, topic)[0].close()
    run(test)


def in_task(work: Callable[[Wakeups], Coroutine[Any, Any, Any]]) -> Any:
    async def main() -> Any:
        return await work(Wakeups())

    return asyncio.run(main())


def test_cancellation_goes_before_a_wakeup() -> None:
    async def work(wakeups: Wakeups) -> None:
        async def wait() -> None:
            with wakeups.interruptible():
                await asyncio.sleep(WAIT_SECONDS)

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        wakeups.request()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(WakeupError):
            wakeups.check()

    in_task(work)


def test_only_the_innermost_section_ends() -> None:
    async def work(wakeups: Wakeups) -> None:
        async def inner() -> None:
            with wakeups.interruptible():
                await asyncio.sleep(WAIT_SECONDS)

        with wakeups.interruptible():
            task = asyncio.create_task(inner())
            await asyncio.sleep(0)
            wakeups.request()
            with pytest.raises(WakeupError):
                await task
            await asyncio.sleep(0)
        wakeups.check()

    in_task(work)
