"""Each client has a thread of its own: what one of them does there delays no other."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from tests.client.blocking.conftest import Fill, forgotten, new_threads

from ottla import Admin, Broker, Consumer, Producer
from ottla.errors import IllegalStateError

WAIT_SECONDS = 20.0


@pytest.fixture
def busy(broker: Broker, fill: Fill) -> Iterator[Producer]:
    """A producer whose on_delivery does not return before the end of the test."""
    is_over, has_begun = threading.Event(), threading.Event()

    def wait(metadata: object, error: object) -> None:
        has_begun.set()
        is_over.wait(WAIT_SECONDS)

    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send(fill(), b"x", partition=0, on_delivery=wait)
        assert has_begun.wait(WAIT_SECONDS)
        try:
            yield producer
        finally:
            is_over.set()


def test_a_slow_callback_of_one_producer_does_not_delay_another(
    busy: Producer, broker: Broker, fill: Fill
) -> None:
    topic = fill()
    delivered = threading.Event()
    with Producer(bootstrap_servers=broker.bootstrap_servers) as other:
        other.send(topic, b"y", on_delivery=lambda metadata, error: delivered.set())
        assert delivered.wait(WAIT_SECONDS / 2)
        other.flush()


def test_a_slow_callback_of_a_producer_does_not_delay_a_consumer(
    busy: Producer, broker: Broker, fill: Fill
) -> None:
    topic = fill(5)
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers,
        group_id="g-" + topic,
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.subscribe([topic])
        for expected, record in enumerate(consumer):
            assert record.value == b"%d" % expected
            if expected == 4:
                break
        consumer.commit()


def test_a_callback_that_waits_for_its_own_producer_is_refused(broker: Broker, fill: Fill) -> None:
    found: list[BaseException] = []
    called = threading.Event()

    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:

        def flush(metadata: object, error: object) -> None:
            try:
                producer.flush()
            except BaseException as caught:
                found.append(caught)
            called.set()

        producer.send(fill(), b"x", on_delivery=flush)
        assert called.wait(WAIT_SECONDS)
    (error,) = found
    assert isinstance(error, IllegalStateError)
    assert "waits for the client that runs it" in str(error)


def test_a_producer_that_is_forgotten_warns_and_still_sends_what_it_has(
    broker: Broker, fill: Fill
) -> None:
    topic = fill()
    delivered = threading.Event()

    def use_and_forget() -> threading.Thread:
        before = set(threading.enumerate())
        producer = Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=60_000)
        producer.send(topic, b"x", on_delivery=lambda metadata, error: delivered.set())
        (thread,) = new_threads(before, "producer ")
        return thread

    thread, told_of = forgotten(use_and_forget)
    assert told_of == [f"unclosed {thread.name}"]
    assert delivered.wait(WAIT_SECONDS)
    thread.join(WAIT_SECONDS)
    assert not thread.is_alive()


def test_an_admin_client_that_is_forgotten_warns_and_its_thread_ends(broker: Broker) -> None:
    def use_and_forget() -> threading.Thread:
        before = set(threading.enumerate())
        admin = Admin(bootstrap_servers=broker.bootstrap_servers)
        admin.list_topics()
        (thread,) = new_threads(before, "admin ")
        return thread

    thread, told_of = forgotten(use_and_forget)
    assert told_of == [f"unclosed {thread.name}"]
    thread.join(WAIT_SECONDS)
    assert not thread.is_alive()
