"""Requests of transactions that come to a node which is not in charge, and what nodes say only of themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.broker import txn_requests as ask
from tests.broker.nodes import nodes_of
from tests.broker.requests import create, every_version_of
from tests.broker.txn_producer import Cluster, Producer

import ottla
from ottla.client.raw import RawConnection
from ottla.core.catalog import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from ottla.errors import ErrorCode
from ottla.model import coordinator_partition
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
TOPIC, GROUP = "orders", "group"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with ottla.Broker(nodes=3) as broker, nodes_of(broker) as nodes:
        create(nodes.any, TOPIC, 3)
        made = Cluster(nodes)
        made.of_group(GROUP)
        yield made


@pytest.fixture
def producer(cluster: Cluster) -> Producer:
    return Producer(cluster).init().send(TOPIC)


def elsewhere(cluster: Cluster, topic: str, partition: int) -> RawConnection:
    return cluster.nodes.at(cluster.nodes.another(topic, partition))


def not_the_coordinator(cluster: Cluster, producer: Producer) -> RawConnection:
    return elsewhere(cluster, TRANSACTIONS_TOPIC, coordinator_partition(producer.id, 50))


def test_only_the_coordinator_of_an_id_answers(cluster: Cluster, producer: Producer) -> None:
    wrong, name, who = not_the_coordinator(cluster, producer), producer.id, producer.who
    for version in every_version_of(InitProducerIdRequest):
        assert ask.init_error(wrong, name, version=version) is NOT_COORDINATOR
    for version in every_version_of(AddPartitionsToTxnRequest):
        errors = ask.add_partitions(wrong, name, who, {TOPIC: [0, 1]}, version=version)
        assert errors == [NOT_COORDINATOR] * 2
    for version in every_version_of(AddOffsetsToTxnRequest):
        assert ask.add_offsets(wrong, name, who, GROUP, version=version) is NOT_COORDINATOR
    for version in every_version_of(EndTxnRequest):
        assert ask.end_error(wrong, name, who, version=version) is NOT_COORDINATOR
    assert ask.describe(wrong, name).error_code == NOT_COORDINATOR
    assert cluster.state(name) == "Ongoing"


def test_only_the_coordinator_of_the_group_takes_offsets(
    cluster: Cluster, producer: Producer
) -> None:
    wrong = elsewhere(cluster, GROUPS_TOPIC, coordinator_partition(GROUP, 50))
    for version in every_version_of(TxnOffsetCommitRequest):
        errors = ask.commit_offsets(
            wrong, producer.id, producer.who, GROUP, {(TOPIC, 0): 1}, version=version
        )
        assert errors == [NOT_COORDINATOR]


def test_only_the_leader_takes_records_and_markers(cluster: Cluster, producer: Producer) -> None:
    wrong = elsewhere(cluster, TOPIC, 0)
    for version in (ask.PRODUCE_V1, ask.PRODUCE_V2):
        error = ask.send(wrong, producer.id, producer.who, TOPIC, 1, version=version)
        assert error is NOT_LEADER
    for version in (1, 2):
        errors = ask.write_markers(wrong, producer.who, {TOPIC: [0]}, version=version)
        assert errors == [NOT_LEADER]


def test_every_node_lists_what_it_coordinates(cluster: Cluster) -> None:
    ids = {Producer(cluster).init().id for _ in range(12)}
    lists = [ask.list_ids(cluster.nodes.at(one)) & ids for one in cluster.nodes.broker.node_ids]
    assert set().union(*lists) == ids
    assert sum(len(found) for found in lists) == len(ids)


def test_a_first_write_is_verified_by_whoever_coordinates_wherever_it_is(cluster: Cluster) -> None:
    """Every pair of nodes: the leader asks the coordinator over the way that nodes have."""
    asked: set[tuple[int, int]] = set()
    for _ in range(60):
        if len(asked) == 9:
            break
        producer = Producer(cluster).init()
        coordinator = cluster.nodes.broker.leader_of(
            TRANSACTIONS_TOPIC, coordinator_partition(producer.id, 50)
        )
        for partition in range(3):
            leader = cluster.nodes.broker.leader_of(TOPIC, partition)
            asked.add((leader, coordinator))
            stranger = producer.who.newer()
            error = ask.send(
                cluster.leader(TOPIC, partition), producer.id, stranger, TOPIC, partition=partition
            )
            assert error is ErrorCode.INVALID_PRODUCER_EPOCH
            producer.send(TOPIC, partition=partition)
        producer.commit()
    assert len(asked) == 9
