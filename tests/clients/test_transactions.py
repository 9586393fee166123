"""Transactions of any client: what is committed is seen, what is aborted is not, and who is fenced is out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillRunningError

import pytest
from tests.clients.conftest import SharedBrokers
from tests.clients.driver import (
    FENCED,
    TRANSACTION_TIMEOUT_MS,
    ConsumerOptions,
    RefusedError,
    TransactionalDriver,
)
from tests.clients.messages import Message, numbered
from tests.clients.transactions_seen import (
    describe,
    ends,
    wait_for,
    wait_until_at_rest,
    wait_until_stable,
)

from ottla.model import TopicPartition
from ottla.testing import Broker

PARTITIONS = 3
COMMITTED = ConsumerOptions(isolation="read_committed")
UNCOMMITTED = ConsumerOptions(isolation="read_uncommitted")
# The last record of a partition: who reads up to it has read everything.
END = Message(b"the end")


@pytest.fixture
def client(transactional_client: TransactionalDriver, ottla_topic: str) -> TransactionalDriver:
    """A client for which there is a topic."""
    transactional_client.create_topic(ottla_topic, PARTITIONS)
    return transactional_client


def values(
    client: TransactionalDriver, topic: str, options: ConsumerOptions, partition: int = 0
) -> list[bytes | None]:
    """Everything before the end."""
    found: list[bytes | None] = []
    with client.consumer(options) as consumer:
        consumer.assign({TopicPartition(topic, partition): 0})
        while True:
            (record,) = consumer.read(1)
            if record.value == END.value:
                return found
            found.append(record.value)


def values_of(*messages: Message) -> list[bytes | None]:
    return [message.value for message in messages]


def test_committed_records_are_seen_and_aborted_ones_are_not(
    client: TransactionalDriver, ottla_topic: str
) -> None:
    kept, dropped, later = numbered(10), numbered(10, start=10), numbered(10, start=20)
    with client.transactional_producer(ottla_topic) as producer:
        producer.begin()
        for partition in range(PARTITIONS):
            producer.send(ottla_topic, kept, partition)
        producer.commit()
        producer.begin()
        for partition in range(PARTITIONS):
            # They are acknowledged, so the abort has something to hide.
            producer.send(ottla_topic, dropped, partition)
        producer.abort()
        producer.begin()
        for partition in range(PARTITIONS):
            producer.send(ottla_topic, later, partition)
        producer.commit()
    for partition in range(PARTITIONS):
        client.send(ottla_topic, [END], partition)
        assert values(client, ottla_topic, COMMITTED, partition) == values_of(*kept, *later)
        everything = values_of(*kept, *dropped, *later)
        assert values(client, ottla_topic, UNCOMMITTED, partition) == everything
    wait_until_stable(
        client.bootstrap_servers, *(TopicPartition(ottla_topic, n) for n in range(PARTITIONS))
    )


def test_an_open_transaction_holds_committed_readers_back_and_others_not(
    client: TransactionalDriver, ottla_topic: str
) -> None:
    before, inside, after = numbered(3), numbered(3, start=3), numbered(3, start=6)
    client.send(ottla_topic, before)
    with (
        client.transactional_producer(ottla_topic) as producer,
        client.consumer(COMMITTED) as consumer,
        ThreadPoolExecutor(1) as pool,
    ):
        producer.begin()
        producer.send(ottla_topic, inside)
        # Outside of the transaction, and behind it.
        client.send(ottla_topic, [*after, END])
        assert ends(client.bootstrap_servers, TopicPartition(ottla_topic, 0)) == (3, 10)
        assert values(client, ottla_topic, UNCOMMITTED) == values_of(*before, *inside, *after)
        consumer.assign({TopicPartition(ottla_topic, 0): 0})
        assert [record.value for record in consumer.read(3)] == values_of(*before)
        reading = pool.submit(consumer.read, 6)
        with pytest.raises(StillRunningError):
            reading.result(0.5)
        producer.commit()
        assert [record.value for record in reading.result()] == values_of(*inside, *after)


def test_a_second_instance_fences_the_first_and_ends_its_transaction(
    client: TransactionalDriver, ottla_topic: str
) -> None:
    with client.transactional_producer(ottla_topic) as first:
        first.begin()
        first.send(ottla_topic, numbered(5))
        with client.transactional_producer(ottla_topic) as second:
            second.begin()
            second.send(ottla_topic, numbered(5, start=5))
            # It must not be the second's transaction that it ends.
            with pytest.raises(RefusedError) as caught:
                first.commit()
            assert caught.value.error in FENCED
            assert describe(client.bootstrap_servers, ottla_topic).state == "Ongoing"
            second.commit()
    client.send(ottla_topic, [END])
    assert values(client, ottla_topic, COMMITTED) == values_of(*numbered(5, start=5))
    wait_until_at_rest(client.bootstrap_servers, ottla_topic)


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(
    client: TransactionalDriver, transactional_broker: Broker | SharedBrokers, ottla_topic: str
) -> None:
    with client.transactional_producer(ottla_topic) as slow:
        slow.begin()
        slow.send(ottla_topic, numbered(5))
        transactional_broker.clock.advance(TRANSACTION_TIMEOUT_MS / 1000)
        wait_for(
            "the broker aborted it",
            lambda: describe(client.bootstrap_servers, ottla_topic).state == "CompleteAbort",
        )
        with pytest.raises(RefusedError) as caught:
            slow.commit()
        assert caught.value.error in FENCED
    # The next instance goes on.
    with client.transactional_producer(ottla_topic) as next_one:
        next_one.begin()
        next_one.send(ottla_topic, numbered(5, start=5))
        next_one.commit()
    client.send(ottla_topic, [END])
    assert values(client, ottla_topic, COMMITTED) == values_of(*numbered(5, start=5))
    assert values(client, ottla_topic, UNCOMMITTED) == values_of(*numbered(10))


def test_a_transaction_without_records_can_be_committed_and_aborted(
    client: TransactionalDriver, ottla_topic: str
) -> None:
    with client.transactional_producer(ottla_topic) as producer:
        producer.begin()
        producer.commit()
        producer.begin()
        producer.abort()
        producer.begin()
        producer.send(ottla_topic, [*numbered(2), END])
        producer.commit()
    assert values(client, ottla_topic, COMMITTED) == values_of(*numbered(2))
