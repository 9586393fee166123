"""A client whose thread has ended by itself says so: nothing is accepted that nobody would send."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import pytest
from tests.client.blocking.conftest import Fill

from ottla import Broker, Consumer, Producer
from ottla.client.blocking.loop_thread import LoopThread
from ottla.errors import IllegalStateError

WAIT_SECONDS = 20.0


def exit_thread(*_: object) -> None:
    sys.exit("a callback's mistake")


def stop_loop(thread: LoopThread) -> None:
    thread.loop.call_soon_threadsafe(thread.loop.stop)


def raise_in_loop(thread: LoopThread) -> None:
    thread.loop.call_soon_threadsafe(exit_thread)


@pytest.mark.parametrize("end", [stop_loop, raise_in_loop])
def test_producer_without_its_thread_refuses_records(
    broker: Broker, fill: Fill, end: Callable[[LoopThread], None]
) -> None:
    topic = fill()
    producer = Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=60_000)
    producer.send(topic, b"x", partition=0)
    producer.flush()
    waiting = producer.send(topic, b"y", partition=0)
    thread = producer._thread._running.thread
    end(producer._thread)
    thread.join(WAIT_SECONDS)
    assert not thread.is_alive()
    assert waiting.result(WAIT_SECONDS).offset == 1, "it ends as a forgotten producer does"
    calls: list[Callable[[], object]] = [
        lambda: producer.send(topic, b"z", partition=0),
        lambda: producer.send_many(topic, [b"z"]),
        producer.flush,
    ]
    for call in calls:
        with pytest.raises(IllegalStateError, match=r"lost its thread.*close it"):
            call()
    producer.close()


def test_callback_that_exits_ends_no_more_than_its_client(broker: Broker, fill: Fill) -> None:
    topic = fill()
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        thread = producer._thread._running.thread
        producer.send(topic, b"x", partition=0, on_delivery=exit_thread)
        thread.join(1.0)
        if thread.is_alive():
            assert producer.send(topic, b"y", partition=0).result(WAIT_SECONDS).offset == 1
        else:
            with pytest.raises(IllegalStateError, match="a callback's mistake"):
                producer.send(topic, b"y", partition=0)


def test_call_that_waits_when_the_thread_ends_is_told(broker: Broker, fill: Fill) -> None:
    consumer = Consumer(bootstrap_servers=broker.bootstrap_servers)
    consumer.assign([(fill(), 0)])
    timer = threading.Timer(0.1, raise_in_loop, [consumer._thread])
    timer.start()
    with pytest.raises(IllegalStateError, match=r"lost its thread"):
        consumer.poll(WAIT_SECONDS)
    with pytest.raises(IllegalStateError, match=r"lost its thread"):
        consumer.poll(0)
    consumer.close()
    timer.join()
