"""Clients that none of us wrote meet the faults of a broker under test, and its clock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

import ottla
from ottla.testing import Broker, wait_for

SECONDS = 20.0


@pytest.fixture(scope="module")
def module_broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def broker(module_broker: Broker) -> Iterator[Broker]:
    yield module_broker
    module_broker.faults.clear()
    module_broker.clock.reset()


def send_with_ottla(broker: Broker, topic: str, value: bytes, idempotent: bool) -> None:
    with ottla.Producer(
        bootstrap_servers=broker.bootstrap_servers, enable_idempotence=idempotent
    ) as producer:
        producer.send(topic, value).result(SECONDS)


def send_with_confluent_kafka(broker: Broker, topic: str, value: bytes, idempotent: bool) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "enable.idempotence": idempotent,
            "retry.backoff.ms": 10,
        }
    )
    failures: list[Any] = []
    producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(SECONDS) == 0
    assert failures == [None]


def test_an_error_of_one_partition_leaves_the_others_alone(
    broker: Broker, ottla_topic: str
) -> None:
    with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([ottla.admin.NewTopic(ottla_topic, num_partitions=2)])
    error = "MESSAGE_TOO_LARGE"
    broker.faults.add("Produce", topic=ottla_topic, partition=1, error=error, times=1)
    with ottla.Producer(
        bootstrap_servers=broker.bootstrap_servers, linger_ms=50, enable_idempotence=False
    ) as producer:
        sent = [producer.send(ottla_topic, b"tea", partition=number) for number in (0, 1)]
        assert sent[0].result(SECONDS).offset == 0
        with pytest.raises(ottla.KafkaError, match="MESSAGE_TOO_LARGE"):
            sent[1].result(SECONDS)
    assert [record.partition for record in broker.records(ottla_topic)] == [0]


def test_an_error_of_a_fetch_reaches_a_consumer_with_a_fetch_session(
    broker: Broker, ottla_topic: str
) -> None:
    send_with_ottla(broker, ottla_topic, b"1", True)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": ottla_topic,
            "auto.offset.reset": "error",
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(ottla_topic, 0, 0)])
    message = wait_for(lambda: consumer.poll(0.1), what="the first record")
    assert message is not None
    assert message.value() == b"1"
    broker.faults.add("Fetch", topic=ottla_topic, error="OFFSET_OUT_OF_RANGE", times=1)
    send_with_ottla(broker, ottla_topic, b"2", True)

    def has_failed() -> bool:
        # The fetch that waited when the fault was added may bring the second record first.
        polled = consumer.poll(0.1)
        return polled is not None and polled.error() is not None

    wait_for(has_failed, what="the error")
    consumer.close()


def test_an_error_of_a_fetch_reaches_a_consumer_that_names_its_partitions_only_once(
    broker: Broker, ottla_topic: str
) -> None:
    send_with_ottla(broker, ottla_topic, b"1", True)
    with ottla.Consumer(
        bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="none"
    ) as consumer:
        consumer.assign([ottla.TopicPartition(ottla_topic, 0)])
        consumer.seek(ottla.TopicPartition(ottla_topic, 0), 0)
        wait_for(lambda: consumer.poll(0.1), what="the first record")
        wait_for(lambda: not consumer.poll(0.01) and len(broker.requests("Fetch")) > 2)
        error = "OFFSET_OUT_OF_RANGE"
        fault = broker.faults.add("Fetch", topic=ottla_topic, error=error, times=1)
        with pytest.raises(ottla.OttlaError):
            wait_for(lambda: consumer.poll(0.1), what="the error")
        assert fault.hits == 1


def test_a_session_ends_when_the_clock_says_so_and_not_before(
    broker: Broker, ottla_topic: str
) -> None:
    send_with_ottla(broker, ottla_topic, b"tea", True)
    consumer = ottla.Consumer(
        bootstrap_servers=broker.bootstrap_servers,
        group_id=ottla_topic,
        group_instance_id="static",
        auto_offset_reset="earliest",
        session_timeout_ms=45_000,
    )
    consumer.subscribe([ottla_topic])
    assert wait_for(lambda: consumer.poll(0.1))
    broker.clock.freeze()
    consumer.close()  # a static member does not leave
    assert len(broker.groups()[ottla_topic].members) == 1
    broker.clock.advance("44s")
    assert len(broker.groups()[ottla_topic].members) == 1
    broker.clock.advance("2s")
    assert len(broker.groups()[ottla_topic].members) == 0


def test_a_transaction_times_out_when_the_clock_says_so(broker: Broker, ottla_topic: str) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": ottla_topic,
            "transaction.timeout.ms": 60_000,
        }
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(ottla_topic, b"tea")
    producer.flush()
    assert broker.transactions()[ottla_topic].state == "Ongoing"
    broker.clock.advance("2m")
    wait_for(lambda: broker.transactions()[ottla_topic].state == "CompleteAbort")
    with pytest.raises(confluent_kafka.KafkaException):
        producer.commit_transaction()
    assert broker.records(ottla_topic) == []


def test_retention_follows_the_clock(broker: Broker, ottla_topic: str) -> None:
    with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        config = {"retention.ms": "3600000", "segment.ms": "60000"}
        admin.create_topics([ottla.admin.NewTopic(ottla_topic, configs=config)])
    send_with_ottla(broker, ottla_topic, b"old", True)
    broker.clock.advance("30m")
    assert len(broker.records(ottla_topic)) == 1
    broker.clock.advance("3h")
    assert broker.records(ottla_topic) == []


def test_a_delayed_answer_waits_for_the_clock(broker: Broker, ottla_topic: str) -> None:
    send_with_ottla(broker, ottla_topic, b"first", True)
    broker.clock.freeze()
    broker.faults.add("Produce", topic=ottla_topic, delay="10s", times=1)
    with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        sent = producer.send(ottla_topic, b"tea")
        wait_for(lambda: len(broker.requests("Produce", topic=ottla_topic)) == 2)
        time.sleep(0.05)
        assert not sent.done()
        broker.clock.advance("11s")
        assert sent.result(SECONDS).offset == 1


def test_a_misspelt_api_is_no_empty_list(broker: Broker) -> None:
    with pytest.raises(ottla.ConfigError, match="did you mean Produce"):
        broker.requests("Produse")


def test_every_request_and_its_answer_are_logged(broker: Broker, ottla_topic: str) -> None:
    send_with_confluent_kafka(broker, ottla_topic, b"tea", False)
    (logged,) = broker.requests("Produce", topic=ottla_topic)
    assert logged.is_answered
    assert logged.client_id == "rdkafka"
    assert f"Produce v{logged.version} of rdkafka to node 1 ({ottla_topic}-0): ok after" in str(
        logged
    )
