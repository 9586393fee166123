"""A record that fails without anybody asking for it is told when the producer closes, and only then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

import pytest

import ottla
import ottla.aio
from ottla import Broker
from ottla.admin import NewTopic
from ottla.client.send.delivery import RecordFuture
from ottla.errors import KafkaError

TOO_LARGE = bytes(2000)


@pytest.fixture
def small_topic(ottla_broker: Broker, ottla_topic_name: Callable[[], str]) -> str:
    """A topic that refuses records of 2,000 bytes."""
    name = ottla_topic_name()
    with ottla.Admin(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, 1, configs={"max.message.bytes": "1000"})])
    return name


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING and " lost " in record.getMessage()
    ]


def test_close_tells_how_many_records_were_lost_and_why(
    ottla_broker: Broker, small_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with ottla.Producer(
        bootstrap_servers=ottla_broker.bootstrap_servers, client_id="till-1"
    ) as producer:
        for value in (b"small", TOO_LARGE, TOO_LARGE, b"small", TOO_LARGE):
            producer.send(small_topic, value)
            producer.flush()
        assert warnings_of(caplog) == []
    (warning,) = warnings_of(caplog)
    assert warning.startswith(
        f"till-1 lost 3 records that were not acknowledged: 3 for {small_topic} "
    )
    assert "larger than max.message.bytes=1000" in warning
    assert warning.endswith(
        "; result() of the future that send() returns, or on_delivery, reports each of them"
    )


def by_result(future: RecordFuture) -> None:
    with pytest.raises(KafkaError):
        future.result(10)


def by_exception(future: RecordFuture) -> None:
    assert future.exception(10) is not None


def by_done_callback(future: RecordFuture) -> None:
    future.add_done_callback(by_exception)


@pytest.mark.parametrize("look", [by_result, by_exception, by_done_callback])
def test_a_failure_that_the_program_has_seen_is_not_told_again(
    ottla_broker: Broker,
    small_topic: str,
    caplog: pytest.LogCaptureFixture,
    look: Callable[[RecordFuture], None],
) -> None:
    with ottla.Producer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
        look(producer.send(small_topic, TOO_LARGE))
    assert warnings_of(caplog) == []


def test_records_with_a_callback_are_not_counted(
    ottla_broker: Broker, small_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Exception | None] = []
    counted: list[int] = []
    with ottla.Producer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
        producer.send(small_topic, TOO_LARGE, on_delivery=lambda _, error: told.append(error))
        producer.flush()
        many = producer.send_many(small_topic, [TOO_LARGE])
        many.add_batch_callback(lambda count, _: counted.append(count))
    assert (len(told), counted) == (1, [1])
    assert warnings_of(caplog) == []


class Watching:
    """An interceptor."""

    def on_acknowledgement(self, metadata: object, error: Exception | None) -> None:
        pass


@pytest.mark.parametrize("has_callback", [False, True])
def test_an_interceptor_is_not_the_program(
    ottla_broker: Broker, small_topic: str, caplog: pytest.LogCaptureFixture, has_callback: bool
) -> None:
    told: list[object] = []
    with ottla.Producer(
        bootstrap_servers=ottla_broker.bootstrap_servers, interceptor_classes=[Watching()]
    ) as producer:
        on_delivery = (lambda *outcome: told.append(outcome)) if has_callback else None
        producer.send(small_topic, TOO_LARGE, on_delivery=on_delivery)
    assert len(told) == has_callback
    assert len(warnings_of(caplog)) == (not has_callback)


def test_an_awaited_failure_is_not_told_again(
    ottla_broker: Broker, small_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def run(awaits: bool) -> None:
        async with ottla.aio.Producer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
            future = await producer.send(small_topic, TOO_LARGE)
            if awaits:
                with pytest.raises(KafkaError):
                    await future

    asyncio.run(run(awaits=True))
    assert warnings_of(caplog) == []
    asyncio.run(run(awaits=False))
    assert len(warnings_of(caplog)) == 1


def test_records_of_an_aborted_transaction_are_not_lost(
    ottla_broker: Broker, small_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with ottla.Producer(
        bootstrap_servers=ottla_broker.bootstrap_servers, transactional_id=small_topic
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(small_topic, b"dropped")
        producer.abort_transaction()
    assert warnings_of(caplog) == []


def test_all_parts_of_a_batch_that_was_split_are_counted(
    ottla_broker: Broker, small_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    def sent(values: Sequence[bytes]) -> None:
        with ottla.Producer(
            bootstrap_servers=ottla_broker.bootstrap_servers, linger_ms=1000, batch_size=16_000
        ) as producer:
            for value in values:
                producer.send(small_topic, value)

    sent([b"small", TOO_LARGE, b"small", TOO_LARGE])
    (warning,) = warnings_of(caplog)
    assert " lost 2 records " in warning
