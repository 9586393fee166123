"""Broker(nodes=3): shares, addresses, and what each API says at a node that does not lead."""

from __future__ import annotations

import random
import socket
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.broker.conftest import Starter
from tests.broker.nodes import Nodes, nodes_of
from tests.broker.requests import (
    BROKER,
    batch_of,
    create,
    delete,
    delete_records,
    fetch,
    fetch_request,
    fill,
    new_producer_id,
    on_loop,
    produce,
    produce_request,
    read_values,
    set_options,
)

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.model import Endpoint
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.wire.messages.produce import ProduceResponse

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
NODE_IDS = [1, 2, 3]


@pytest.fixture(scope="module")
def three() -> Iterator[Nodes]:
    """Three nodes whose leaders no test here moves."""
    with ottla.Broker(nodes=3) as broker, nodes_of(broker) as nodes:
        yield nodes


def create_replicated(connection: RawConnection, topic: str, replicas: int) -> int:
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic,
                num_partitions=3,
                replication_factor=replicas,
                assignments=[],
                configs=[],
            )
        ]
    )
    error: int = connection.call(request, CreateTopicsResponse, 7).topics[0].error_code
    return error


def test_every_node_leads_its_share(three: Nodes, topic: str) -> None:
    create(three.any, topic, 12)
    shares = Counter(three.broker.leader_of(topic, number) for number in range(12))
    assert shares == {1: 4, 2: 4, 3: 4}
    for partition in range(12):
        fill(three.leader(topic, partition), topic, b"%d" % partition, partition=partition)
        assert read_values(three.leader(topic, partition), topic, partition) == [b"%d" % partition]
    in_use = three.open_partitions()
    assert [len([one for one in in_use[node_id] if one[0] == topic]) for node_id in NODE_IDS] == [
        4,
        4,
        4,
    ]


def test_every_node_tells_the_same(three: Nodes, topic: str) -> None:
    create(three.any, topic, 5)
    answers = [three.metadata(topic, node_id=node_id) for node_id in NODE_IDS]
    assert answers[0] == answers[1] == answers[2]
    told = {broker.node_id: Endpoint(broker.host, broker.port) for broker in answers[0].brokers}
    assert {node_id: str(told[node_id]) for node_id in NODE_IDS} == {
        node_id: three.broker.address_of(node_id) for node_id in NODE_IDS
    }
    assert len({endpoint.port for endpoint in told.values()}) == 3
    assert answers[0].controller_id == 1
    for found in answers[0].topics[0].partitions:
        leader = three.broker.leader_of(topic, found.partition_index)
        assert (found.error_code, found.leader_id) == (ErrorCode.NONE, leader)
        assert found.replica_nodes == found.isr_nodes == [leader]
        assert found.offline_replicas == []
    for node_id in NODE_IDS:
        described = three.at(node_id).call(
            DescribeClusterRequest(include_cluster_authorized_operations=False),
            DescribeClusterResponse,
            1,
        )
        assert [broker.broker_id for broker in described.brokers] == NODE_IDS
        assert described.controller_id == 1
        pages = three.at(node_id).call(
            DescribeTopicPartitionsRequest(topics=[TopicRequest(name=topic)]),
            DescribeTopicPartitionsResponse,
            0,
        )
        assert [
            (one.leader_id, one.leader_epoch, one.replica_nodes, one.isr_nodes)
            for one in pages.topics[0].partitions
        ] == [
            (one.leader_id, one.leader_epoch, one.replica_nodes, one.isr_nodes)
            for one in answers[0].topics[0].partitions
        ]


def test_bootstrap_servers_names_every_node(three: Nodes) -> None:
    assert three.broker.node_ids == NODE_IDS
    addresses = three.broker.bootstrap_servers.split(",")
    assert addresses == [three.broker.address_of(node_id) for node_id in NODE_IDS]
    assert repr(three.broker) == f"<ottla.Broker on {three.broker.bootstrap_servers}>"
    for address in addresses:
        with RawConnection(address) as connection:
            new_producer_id(connection)


def test_each_api_sends_clients_to_the_leader(three: Nodes, topic: str) -> None:
    create(three.any, topic)
    fill(three.leader(topic), topic, b"v")
    wrong = three.at(three.another(topic))
    assert produce(wrong, topic, batch_of(b"x")).error_code == NOT_LEADER
    assert fetch(wrong, topic, 0).error_code == NOT_LEADER
    assert delete_records(wrong, topic, 1).error_code == NOT_LEADER
    listed = wrong.call(
        ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)]
                )
            ],
        ),
        ListOffsetsResponse,
        7,
    )
    assert listed.topics[0].partitions[0].error_code == NOT_LEADER
    ended = wrong.call(
        OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                OffsetForLeaderTopic(
                    topic=topic, partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)]
                )
            ],
        ),
        OffsetForLeaderEpochResponse,
        4,
    )
    assert ended.topics[0].partitions[0].error_code == NOT_LEADER
    assert read_values(three.leader(topic), topic) == [b"v"]


def test_a_missing_partition_is_unknown_at_every_node(three: Nodes, topic: str) -> None:
    create(three.any, topic)
    for node_id in NODE_IDS:
        for missing in (1, -1):
            result = produce(three.at(node_id), topic, batch_of(b"x"), partition=missing)
            assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [9, 10, 12, 13])
def test_a_producer_at_the_wrong_node_is_told_the_right_one(
    three: Nodes, topic: str, version: int
) -> None:
    topic_id = create(three.any, topic)
    wrong = three.another(topic)
    request = produce_request(topic, batch_of(b"x"))
    request.topic_data[0].topic_id = topic_id
    answer = three.at(wrong).call(request, ProduceResponse, version)
    (partition,) = answer.responses[0].partition_responses
    assert partition.error_code == NOT_LEADER
    check_hint(three, topic, answer, partition, version >= 10)


@pytest.mark.parametrize("version", [11, 12, 15, 16, 18])
def test_a_consumer_at_the_wrong_node_is_told_the_right_one(
    three: Nodes, topic: str, version: int
) -> None:
    topic_id: uuid.UUID = create(three.any, topic)
    wrong = three.another(topic)
    request = fetch_request(topic_id if version >= 13 else topic, 0, max_wait_ms=10_000)
    answer = three.at(wrong).call(request, FetchResponse, version)
    (partition,) = answer.responses[0].partitions
    assert partition.error_code == NOT_LEADER
    check_hint(three, topic, answer, partition, version >= 16)


def check_hint(nodes: Nodes, topic: str, answer: Any, partition: Any, is_told: bool) -> None:
    if not is_told:
        assert partition.current_leader.leader_id == -1
        assert answer.node_endpoints == []
        return
    leader = nodes.broker.leader_of(topic, 0)
    assert partition.current_leader.leader_id == leader
    assert partition.current_leader.leader_epoch == nodes.epoch(topic)
    (endpoint,) = answer.node_endpoints
    assert endpoint.node_id == leader
    assert str(Endpoint(endpoint.host, endpoint.port)) == nodes.broker.address_of(leader)


def test_a_leader_names_nobody(three: Nodes, topic: str) -> None:
    create(three.any, topic)
    answer = three.leader(topic).call(produce_request(topic, batch_of(b"x")), ProduceResponse, 12)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    assert answer.responses[0].partition_responses[0].current_leader.leader_id == -1
    assert answer.node_endpoints == []


def test_with_acks_of_none_the_wrong_node_closes_the_connection(three: Nodes, topic: str) -> None:
    create(three.any, topic)
    with RawConnection(three.broker.address_of(three.another(topic))) as wrong:
        wrong.send(produce_request(topic, batch_of(b"x"), acks=0), 12)
        with pytest.raises(ConnectionError):
            wrong.receive_frame()


def test_topics_are_made_changed_and_deleted_at_any_node(three: Nodes, topic: str) -> None:
    create(three.at(1), topic, 3, {"max.message.bytes": "1000"})
    for partition in range(3):
        fill(three.leader(topic, partition), topic, b"v", partition=partition)
    assert set_options(three.at(2), topic, {"max.message.bytes": "100000"}) == ErrorCode.NONE
    for partition in range(3):
        fill(three.leader(topic, partition), topic, bytes(5000), partition=partition)
    assert delete(three.at(3), topic).error_code == ErrorCode.NONE
    for node_id in NODE_IDS:
        assert all(name != topic for name, _ in three.open_partitions()[node_id])
        unknown = fetch(three.at(node_id), topic, 0)
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    create(three.at(2), topic, 3)
    for partition in range(3):
        assert fill(three.leader(topic, partition), topic, b"n", partition=partition) == [0]


def test_options_of_brokers_reach_all_or_the_one_that_is_named(start: Starter, topic: str) -> None:
    broker = start(nodes=3)
    with nodes_of(broker) as nodes:
        name = "message.max.bytes"
        assert set_options(nodes.at(1), "", {name: "1000"}, BROKER) == ErrorCode.NONE
        assert set_options(nodes.at(2), "2", {name: "9000"}, BROKER) == ErrorCode.NONE
        refused = set_options(nodes.at(2), "3", {name: "9000"}, BROKER)
        assert refused == ErrorCode.INVALID_REQUEST
        limits = on_loop(
            broker,
            lambda running: [
                running.servers[node_id].node.options.config.message_max_bytes
                for node_id in NODE_IDS
            ],
        )
        assert limits == [1000, 9000, 1000]
        create(nodes.any, topic, 3)
        for partition in range(3):
            leader = broker.leader_of(topic, partition)
            result = produce(nodes.at(leader), topic, batch_of(bytes(5000)), partition=partition)
            expected = ErrorCode.NONE if leader == 2 else ErrorCode.MESSAGE_TOO_LARGE
            assert result.error_code == expected


def test_producer_ids_are_given_once_whatever_the_node(three: Nodes) -> None:
    given = [new_producer_id(three.at(node_id)) for _ in range(50) for node_id in NODE_IDS]
    assert len(set(given)) == 150


def test_fetch_sessions_belong_to_a_node(three: Nodes, topic: str) -> None:
    create(three.any, topic)
    opened = three.leader(topic).call(fetch_request(topic, 0, session_epoch=0), FetchResponse, 12)
    assert opened.session_id > 0
    elsewhere = three.at(three.another(topic)).call(
        fetch_request(topic, 0, session_id=opened.session_id, session_epoch=1), FetchResponse, 12
    )
    assert elsewhere.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("replicas", "error"),
    [
        (1, ErrorCode.NONE),
        (3, ErrorCode.NONE),
        (4, ErrorCode.INVALID_REPLICATION_FACTOR),
        (0, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_there_are_as_many_replicas_as_nodes_at_most(
    three: Nodes, topic: str, replicas: int, error: ErrorCode
) -> None:
    assert create_replicated(three.any, topic, replicas) == error
    if error is not ErrorCode.NONE:
        return
    for partition in range(3):
        found = three.partition(topic, partition)
        assert found.replica_nodes[0] == found.leader_id
        assert len(set(found.replica_nodes)) == len(found.replica_nodes) == replicas
        assert found.isr_nodes == found.replica_nodes


def test_replicas_that_somebody_chose_are_kept_over_a_restart(start: Starter, topic: str) -> None:
    chosen = [[3, 1], [3, 2], [1, 3], [2, 1]]
    broker = start(nodes=3)
    with nodes_of(broker) as nodes:
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=topic,
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=[
                        CreatableReplicaAssignment(partition_index=number, broker_ids=ids)
                        for number, ids in enumerate(chosen[:2])
                    ],
                    configs=[],
                )
            ]
        )
        (made,) = nodes.any.call(request, CreateTopicsResponse, 7).topics
        assert made.error_code == ErrorCode.NONE
        grown = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(
                    name=topic,
                    count=4,
                    assignments=[CreatePartitionsAssignment(broker_ids=ids) for ids in chosen[2:]],
                )
            ],
            timeout_ms=1000,
            validate_only=False,
        )
        (added,) = nodes.any.call(grown, CreatePartitionsResponse, 3).results
        assert added.error_code == ErrorCode.NONE
        assert set_options(nodes.any, topic, {"retention.ms": "-1"}) == ErrorCode.NONE
    for _ in range(2):
        with nodes_of(broker) as nodes:
            found = [nodes.partition(topic, number) for number in range(4)]
            assert [one.replica_nodes for one in found] == chosen
            assert [one.leader_id for one in found] == [3, 3, 1, 2]
            for number in range(4):
                fill(nodes.leader(topic, number), topic, b"v", partition=number)
        broker.stop()
        broker = start(nodes=3)
    broker.stop()
    with nodes_of(start(nodes=2)) as nodes:
        assert [nodes.partition(topic, number).leader_id for number in range(4)] == [1, 2, 1, 2]


def test_the_default_number_of_replicas_is_obeyed(start: Starter, topic: str) -> None:
    broker = start(nodes=3, default_replication_factor=2)
    with nodes_of(broker) as nodes:
        create(nodes.any, topic)
        assert len(nodes.partition(topic).replica_nodes) == 2


def test_each_node_describes_the_logs_that_it_has(three: Nodes, topic: str) -> None:
    create(three.any, topic, 3)
    fill(three.leader(topic, 0), topic, b"v")
    found: dict[int, list[int]] = {}
    for node_id in NODE_IDS:
        answer = three.at(node_id).call(
            DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, 4
        )
        found[node_id] = [
            one.partition_index
            for result in answer.results
            for about in result.topics
            if about.name == topic
            for one in about.partitions
        ]
    assert found == {
        node_id: [number for number in range(3) if three.broker.leader_of(topic, number) == node_id]
        for node_id in NODE_IDS
    }


def test_a_cluster_comes_back_with_another_number_of_nodes(start: Starter, topic: str) -> None:
    for round_number, count in enumerate((3, 1, 2, 5)):
        broker = start(nodes=count)
        with nodes_of(broker) as nodes:
            if round_number == 0:
                create(nodes.any, topic, 6)
            assert len({broker.leader_of(topic, number) for number in range(6)}) == count
            for number in range(6):
                leader = nodes.leader(topic, number)
                assert fill(leader, topic, b"%d" % count, partition=number) == [round_number]
                assert len(read_values(leader, topic, number)) == round_number + 1
        broker.stop()


def first_free_port(count: int) -> int:
    """The first of so many free neighbours, below the ports that the system gives to clients."""
    for port in random.sample(range(12_000, 30_000), 1000):
        with ExitStack() as probes:
            try:
                for number in range(port, port + count):
                    probe = probes.enter_context(socket.socket())
                    probe.bind(("127.0.0.1", number))
            except OSError:
                continue
        return port
    raise AssertionError("all ports are taken")


def test_ids_and_ports_follow_the_first(start: Starter) -> None:
    port = first_free_port(3)
    broker = start(nodes=3, listen=f"127.0.0.1:{port}", node_id=7)
    assert broker.node_ids == [7, 8, 9]
    assert broker.bootstrap_servers == ",".join(f"127.0.0.1:{port + n}" for n in range(3))


def test_advertised_ports_follow_the_first(start: Starter) -> None:
    broker = start(nodes=3, advertise="broker.example:5000")
    assert broker.bootstrap_servers == ",".join(f"broker.example:{5000 + n}" for n in range(3))
    endpoint = on_loop(broker, lambda running: running.servers[2].endpoint)
    with RawConnection(str(endpoint)) as connection:
        answer = connection.call(
            DescribeClusterRequest(include_cluster_authorized_operations=False),
            DescribeClusterResponse,
            1,
        )
    assert [(one.broker_id, one.host, one.port) for one in answer.brokers] == [
        (1, "broker.example", 5000),
        (2, "broker.example", 5001),
        (3, "broker.example", 5002),
    ]


def test_clients_are_told_the_host_that_they_connected_to(start: Starter) -> None:
    broker = start(nodes=2, listen="0.0.0.0:0")
    with RawConnection(broker.address_of(1).replace("127.0.0.1", "127.0.0.2")) as connection:
        answer = connection.call(
            DescribeClusterRequest(include_cluster_authorized_operations=False),
            DescribeClusterResponse,
            1,
        )
    ports = [int(broker.address_of(node_id).rpartition(":")[2]) for node_id in (1, 2)]
    assert [(one.host, one.port) for one in answer.brokers] == [
        ("127.0.0.2", port) for port in ports
    ]


@pytest.mark.parametrize("nodes", [0, -1, "three", 1.5, True])
def test_a_number_of_nodes_that_makes_no_cluster_is_refused(nodes: Any) -> None:
    with pytest.raises(ottla.ConfigError, match=r"nodes=.*at least 1"):
        ottla.Broker(nodes=nodes)


def test_ports_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ottla.ConfigError, match="above port 65535"):
        ottla.Broker(nodes=3, listen="127.0.0.1:65534")
    with pytest.raises(ottla.ConfigError, match="above port 65535"):
        ottla.Broker(nodes=3, advertise="example:65534")


def test_one_node_takes_records_for_replicas_that_several_nodes_had(tmp_path: Path) -> None:
    """The default replication factor is 3 on three nodes; a single one has all that there is."""
    with (
        ottla.Broker(nodes=3, data_dir=tmp_path, default_replication_factor=3) as broker,
        RawConnection(broker.bootstrap_servers.split(",")[0]) as connection,
    ):
        create(connection, "orders", config={"min.insync.replicas": "2"})
        create(connection, "payments", config={"min.insync.replicas": "4"})
    with (
        ottla.Broker(data_dir=tmp_path) as broker,
        RawConnection(broker.bootstrap_servers) as connection,
    ):
        assert produce(connection, "orders", batch_of(b"one")).error_code == ErrorCode.NONE
        refused = produce(connection, "payments", batch_of(b"one"))
        assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
