"""The requests that nodes send each other meet the faults that name their API, and are in the log."""

from __future__ import annotations

from collections.abc import Iterator

import confluent_kafka
import pytest

import ottla
from ottla.testing import Broker, wait_for

SECONDS = 30.0


@pytest.fixture(scope="module")
def module_broker() -> Iterator[Broker]:
    with Broker(nodes=2) as broker:
        with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([ottla.admin.NewTopic("tea", 2)])
        yield broker


@pytest.fixture
def broker(module_broker: Broker) -> Iterator[Broker]:
    module_broker.begin_test()
    yield module_broker
    module_broker.reset()


@pytest.fixture
def producer(broker: Broker, request: pytest.FixtureRequest) -> confluent_kafka.Producer:
    made = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": request.node.name,
            "retry.backoff.ms": 10,
        }
    )
    made.init_transactions(SECONDS)
    return made


def send(producer: confluent_kafka.Producer, *values: bytes) -> None:
    producer.begin_transaction()
    for value in values:
        for partition in (0, 1):
            producer.produce("tea", value, partition=partition)


def committed(broker: Broker) -> int:
    return len(broker.records("tea"))


def test_markers_are_in_the_log_of_requests(
    broker: Broker, producer: confluent_kafka.Producer
) -> None:
    before = committed(broker)
    send(producer, b"1")
    producer.commit_transaction(SECONDS)
    wait_for(lambda: committed(broker) == before + 2)
    markers = broker.requests("WriteTxnMarkers", topic="tea")
    assert {each.node_id for each in markers} == {1, 2}
    assert {each.client_id for each in markers} <= {"node-1", "node-2"}
    wait_for(lambda: all(each.is_answered for each in markers))


@pytest.mark.parametrize(
    "outcome", ["NOT_LEADER_OR_FOLLOWER", "lost request", "lost answer", "1ms"]
)
def test_markers_that_meet_a_fault_are_sent_again_and_the_transaction_is_whole(
    broker: Broker, producer: confluent_kafka.Producer, outcome: str
) -> None:
    before = committed(broker)
    fault = broker.faults.script("WriteTxnMarkers", [outcome] * 4, topic="tea")
    send(producer, b"1", b"2")
    producer.commit_transaction(SECONDS)
    wait_for(lambda: committed(broker) == before + 4, timeout=SECONDS)
    # A marker whose answer was lost is written, and sent again nevertheless.
    wait_for(lambda: fault.hits == (2 if outcome == "1ms" else 4))
    lost = {each.lost for each in broker.requests("WriteTxnMarkers")}
    assert any(lost) is outcome.startswith("lost")


def test_a_marker_that_is_late_keeps_its_records_from_readers(
    broker: Broker, producer: confluent_kafka.Producer
) -> None:
    before = committed(broker)
    leader = broker.leader_of("tea", 1)
    with broker.faults.add("WriteTxnMarkers", error="NOT_LEADER_OR_FOLLOWER", node=leader) as fault:
        send(producer, b"1")
        producer.commit_transaction(SECONDS)
        wait_for(lambda: fault.hits >= 2)
        wait_for(lambda: committed(broker) == before + 1)
    wait_for(lambda: committed(broker) == before + 2)


def test_a_question_whether_a_partition_belongs_to_a_transaction_meets_a_fault(
    broker: Broker, producer: confluent_kafka.Producer
) -> None:
    """Asked by the leader of the partition, for clients that add their partitions themselves."""
    before = committed(broker)
    senders = {f"node-{node}" for node in broker.node_ids}
    faults = [
        broker.faults.add("AddPartitionsToTxn", drop="after", client_id=sender, times=1)
        for sender in sorted(senders)
    ]
    send(producer, b"1")
    producer.commit_transaction(SECONDS)
    wait_for(lambda: committed(broker) == before + 2)
    assert sum(fault.hits for fault in faults) >= 1
    asked = broker.requests("AddPartitionsToTxn", topic="tea")
    assert any(each.client_id in senders for each in asked)


def test_a_fault_of_all_apis_is_for_clients(
    broker: Broker, producer: confluent_kafka.Producer
) -> None:
    fault = broker.faults.add(delay="1ms")
    send(producer, b"1")
    producer.commit_transaction(SECONDS)
    wait_for(lambda: broker.requests("WriteTxnMarkers"))
    assert fault.hits
    assert not any(each.fault for each in broker.requests("WriteTxnMarkers"))


def test_a_node_that_is_cut_off_still_reaches_itself() -> None:
    with Broker(nodes=2) as broker:
        with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([ottla.admin.NewTopic("tea")])
        with ottla.Producer(
            bootstrap_servers=broker.bootstrap_servers, transactional_id="till"
        ) as producer:
            producer.init_transactions()
            coordinator = broker.transactions()["till"].coordinator_id
            broker.move_leader("tea", 0, coordinator)
            producer.begin_transaction()
            producer.send("tea", b"1").result(SECONDS)
            with broker.faults.partition_network(node=coordinator):
                broker.clock.advance("10m")  # the transaction has timed out

                def is_aborted() -> bool:
                    markers = broker.requests("WriteTxnMarkers", topic="tea")
                    return any(each.is_answered for each in markers)

                wait_for(is_aborted)
