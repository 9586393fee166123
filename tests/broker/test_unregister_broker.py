"""UnregisterBroker, DescribeQuorum and AlterPartitionReassignments in a cluster of several nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.broker.conftest import Starter
from tests.broker.nodes import Nodes, nodes_of
from tests.broker.requests import create, fill, read_values
from tests.broker.test_nodes import create_replicated

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    TopicData,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

PARTITIONS = 3


@pytest.fixture
def three(start: Starter) -> Iterator[Nodes]:
    with nodes_of(start(nodes=3)) as nodes:
        yield nodes


def unregister(connection: RawConnection, broker_id: int) -> ErrorCode:
    request = UnregisterBrokerRequest(broker_id=broker_id)
    answer = connection.call(request, UnregisterBrokerResponse, 0)
    return ErrorCode(answer.error_code)


def replicas(connection: RawConnection, topic: str) -> dict[int, list[int]]:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    (found,) = connection.call(request, MetadataResponse, 8).topics
    return {one.partition_index: one.replica_nodes for one in found.partitions}


def test_a_lost_broker_is_forgotten_and_leaders_stay(three: Nodes, topic: str) -> None:
    create_replicated(three.any, topic, 3)
    fill(three.leader(topic, 0), topic, b"before")
    three.kill(2)
    leaders = [three.broker.leader_of(topic, number) for number in range(PARTITIONS)]
    assert any(2 in nodes for nodes in replicas(three.any, topic).values())
    assert unregister(three.any, 2) is ErrorCode.NONE
    assert not any(2 in nodes for nodes in replicas(three.any, topic).values())
    assert [three.broker.leader_of(topic, number) for number in range(PARTITIONS)] == leaders
    assert read_values(three.leader(topic, 0), topic) == [b"before"]
    assert unregister(three.any, 2) is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_broker_that_runs_stays(three: Nodes) -> None:
    assert unregister(three.any, 3) is ErrorCode.INVALID_REQUEST
    assert three.broker.node_ids == [1, 2, 3]


def test_one_node_decides_and_the_others_observe(three: Nodes, topic: str) -> None:
    def ask() -> DescribeQuorumResponse:
        wanted = TopicData(
            topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)]
        )
        request = DescribeQuorumRequest(topics=[wanted])
        answer: DescribeQuorumResponse = three.any.call(request, DescribeQuorumResponse, 2)
        return answer

    answer = ask()
    (found,) = answer.topics[0].partitions
    assert found.leader_id == 1
    assert [one.replica_id for one in found.current_voters] == [1]
    assert [one.replica_id for one in found.observers] == [2, 3]
    assert [one.node_id for one in answer.nodes] == [1]
    create(three.any, topic)
    (later,) = ask().topics[0].partitions
    # Every change of the metadata counts.
    assert later.high_watermark > found.high_watermark
    assert {one.log_end_offset for one in later.observers} == {later.high_watermark}


def test_only_replicas_that_hold_already_are_accepted(three: Nodes, topic: str) -> None:
    create_replicated(three.any, topic, 2)
    held = replicas(three.any, topic)[0]

    def reassign(wanted: list[int], may_change: bool = True) -> ErrorCode:
        partition = ReassignablePartition(partition_index=0, replicas=wanted)
        request = AlterPartitionReassignmentsRequest(
            allow_replication_factor_change=may_change,
            topics=[ReassignableTopic(name=topic, partitions=[partition])],
        )
        answer = three.any.call(request, AlterPartitionReassignmentsResponse, 1)
        return ErrorCode(answer.responses[0].partitions[0].error_code)

    assert reassign(held) is ErrorCode.NONE
    assert reassign(held[::-1]) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert reassign([1, 2, 3]) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert reassign([1, 2, 3], may_change=False) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert replicas(three.any, topic)[0] == held
