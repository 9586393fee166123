"""Transactions whose partitions, offsets and coordinator belong to several processes, one of which is killed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.broker.workers.serving_workers import WAIT_SECONDS
from tests.waiting import in_time

import ottla
from ottla import Admin, Consumer, Producer, TopicPartition
from ottla.admin import NewTopic
from ottla.model import coordinator_partition

WORKERS = 2
PARTITIONS = 4
TRANSACTIONS_TOPIC = "__transaction_state"


@pytest.fixture
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(
        workers=WORKERS,
        # A producer that has lost a connection asks for its topics, which would bring back a deleted one.
        auto_create_topics_enable=False,
        group_initial_rebalance_delay_ms=0,
        transaction_state_log_num_partitions=4,
        offsets_topic_num_partitions=4,
    ) as found:
        with Admin(bootstrap_servers=found.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("spread", num_partitions=PARTITIONS)])
        yield found


def producer_of(broker: ottla.Broker, transactional_id: str) -> Producer:
    producer = Producer(
        bootstrap_servers=broker.bootstrap_servers,
        transactional_id=transactional_id,
        transaction_timeout_ms=60_000,
    )
    producer.init_transactions()
    return producer


def id_with_coordinator(broker: ottla.Broker, node_id: int) -> str:
    """A transactional id whose coordinator is at a node."""
    # The topic of the coordinators is made by the first producer.
    producer_of(broker, "first").close()
    for number in range(1000):
        found = f"id-{number}"
        if broker.leader_of(TRANSACTIONS_TOPIC, coordinator_partition(found, 4)) == node_id:
            return found
    raise AssertionError("every node coordinates some")


def committed_values(broker: ottla.Broker, count: int, topic: str = "spread") -> Counter[bytes]:
    """What readers of committed records see, once they see so many."""
    found: Counter[bytes] = Counter()
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    ) as consumer:
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        deadline = time.monotonic() + WAIT_SECONDS
        while found.total() < count:
            in_time(deadline, f"only {found} of {count}")
            found.update(record.value or b"" for record in consumer.poll(0.5))
        # Nothing open is left: the end for readers of committed records is the end.
        while consumer.end_offsets(partitions) != _all_ends(broker, topic):
            in_time(deadline, "a transaction stays open")
            time.sleep(0.05)
        found.update(record.value or b"" for record in consumer.poll(0.5))
    return found


def _all_ends(broker: ottla.Broker, topic: str) -> dict[TopicPartition, int]:
    with Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        return dict(consumer.end_offsets(partitions).items())


def send_to_all(producer: Producer, value: bytes) -> None:
    for partition in range(PARTITIONS):
        producer.send("spread", value=value, partition=partition)
    producer.flush()


@pytest.mark.parametrize("coordinator", [1, 2])
def test_a_commit_reaches_the_partitions_of_a_node_that_was_down(
    broker: ottla.Broker, coordinator: int
) -> None:
    other = 3 - coordinator
    with producer_of(broker, id_with_coordinator(broker, coordinator)) as producer:
        producer.begin_transaction()
        send_to_all(producer, b"before")
        broker.kill_node(other)
        producer.commit_transaction()
        broker.start_node(other)
        assert committed_values(broker, PARTITIONS) == {b"before": PARTITIONS}
        producer.begin_transaction()
        send_to_all(producer, b"after")
        producer.commit_transaction()
    assert committed_values(broker, 2 * PARTITIONS) == {b"before": PARTITIONS, b"after": PARTITIONS}


@pytest.mark.parametrize("coordinator", [1, 2])
def test_an_abort_reaches_the_partitions_of_a_node_that_was_down(
    broker: ottla.Broker, coordinator: int
) -> None:
    other = 3 - coordinator
    with producer_of(broker, id_with_coordinator(broker, coordinator)) as producer:
        producer.begin_transaction()
        send_to_all(producer, b"aborted")
        broker.kill_node(other)
        producer.abort_transaction()
        broker.start_node(other)
        producer.begin_transaction()
        send_to_all(producer, b"kept")
        producer.commit_transaction()
    assert committed_values(broker, PARTITIONS) == {b"kept": PARTITIONS}


@pytest.mark.parametrize("coordinator", [1, 2])
def test_a_transaction_survives_the_kill_of_its_coordinator(
    broker: ottla.Broker, coordinator: int
) -> None:
    with producer_of(broker, id_with_coordinator(broker, coordinator)) as producer:
        producer.begin_transaction()
        send_to_all(producer, b"one")
        broker.kill_node(coordinator)
        with ThreadPoolExecutor(1) as executor:
            committing = executor.submit(producer.commit_transaction)
            broker.start_node(coordinator)
            committing.result(WAIT_SECONDS)
    assert committed_values(broker, PARTITIONS) == {b"one": PARTITIONS}


@pytest.mark.parametrize("killed", [1, 2])
def test_offsets_and_records_of_a_transaction_stay_together(
    broker: ottla.Broker, killed: int
) -> None:
    """The group, the transaction and the partitions have their homes at different nodes."""
    groups = [f"group-{number}" for number in range(4)]
    with producer_of(broker, id_with_coordinator(broker, 1)) as producer:
        for number, group in enumerate(groups):
            producer.begin_transaction()
            send_to_all(producer, b"%d" % number)
            position = {TopicPartition("spread", 0): number + 1}
            producer.send_offsets_to_transaction(position, group)
            broker.kill_node(killed)
            with ThreadPoolExecutor(1) as executor:
                committing = executor.submit(producer.commit_transaction)
                broker.start_node(killed)
                committing.result(WAIT_SECONDS)
    expected = {b"%d" % number: PARTITIONS for number in range(len(groups))}
    assert committed_values(broker, PARTITIONS * len(groups)) == expected
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        found = admin.list_consumer_group_offsets(groups, require_stable=True)
    for number, group in enumerate(groups):
        offset = found[group][TopicPartition("spread", 0)]
        assert offset is not None
        assert offset.offset == number + 1


@pytest.mark.parametrize("killed", [1, 2])
def test_a_topic_is_deleted_and_made_again_while_a_node_is_down(
    broker: ottla.Broker, killed: int
) -> None:
    with producer_of(broker, id_with_coordinator(broker, 3 - killed)) as producer:
        producer.begin_transaction()
        send_to_all(producer, b"old")
        producer.commit_transaction()
        broker.kill_node(killed)
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.delete_topics(["spread"])
            admin.create_topics([NewTopic("spread", num_partitions=PARTITIONS)])
        broker.start_node(killed)
    with producer_of(broker, "another") as producer:
        producer.begin_transaction()
        send_to_all(producer, b"new")
        producer.commit_transaction()
    assert committed_values(broker, PARTITIONS) == {b"new": PARTITIONS}
