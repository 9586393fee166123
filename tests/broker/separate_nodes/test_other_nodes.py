"""What a node tells clients of nodes in other processes: where they are, what they lead, and with what epoch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.broker.separate_nodes.processes_of_nodes import LISTENER, SeparateNodes
from tests.broker.separate_nodes.test_catalog_changes import create

from ottla.broker.members import RESTART_SECONDS, BrokerRegistration, Members
from ottla.broker.security.caller import Caller
from ottla.core.catalog import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from ottla.core.leadership import Owners
from ottla.errors import ErrorCode, IllegalStateError
from ottla.model import NO_LEADER, Endpoint, TopicPartition
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest
from ottla.wire.messages.describe_quorum import PartitionData as QuorumPartition
from ottla.wire.messages.describe_quorum import TopicData as QuorumTopic
from ottla.wire.messages.elect_leaders import ElectLeadersRequest
from ottla.wire.messages.elect_leaders import TopicPartitions as Elected
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest

NONE = ErrorCode.NONE
CALLER = Caller(Endpoint("10.0.0.1", 5000), Endpoint("broker", 9092), LISTENER)


def run(scenario: Callable[[], Any]) -> None:
    asyncio.run(scenario())


async def started(count: int = 3) -> SeparateNodes:
    nodes = await SeparateNodes(1, count).start()
    await nodes.answer(nodes[1].call(create("orders", partitions=6)))
    return nodes


async def partitions_at(nodes: SeparateNodes, node_id: int) -> list[Any]:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
    answer = await nodes.answer(nodes[node_id].call(request))
    found: list[Any] = answer.topics[0].partitions
    return found


def test_all_nodes_name_the_same_leaders_addresses_and_epochs() -> None:
    async def scenario() -> None:
        nodes = await started()
        answers = []
        for node_id in nodes.node_ids:
            for partition in range(6):
                nodes[node_id].node.partitions.shard("orders", partition)
        for node_id in nodes.node_ids:
            request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
            answers.append(await nodes.answer(nodes[node_id].call(request)))
        assert answers[0] == answers[1] == answers[2]
        assert [broker.port for broker in answers[0].brokers] == [9001, 9002, 9003]
        assert {broker.host for broker in answers[0].brokers} == {"broker"}
        leaders = [partition.leader_id for partition in answers[0].topics[0].partitions]
        assert sorted(leaders) == [1, 1, 2, 2, 3, 3]
        for partition, leader in enumerate(leaders):
            shard = nodes[leader].node.partitions.open_shard("orders", partition)
            assert shard is not None
            told = answers[0].topics[0].partitions[partition].leader_epoch
            assert told == shard.partition.leader_epoch
            assert nodes[leader % 3 + 1].node.partitions.open_shard("orders", partition) is None

    run(scenario)


def test_partitions_of_a_node_that_is_started_again_wait_for_it_with_a_higher_epoch() -> None:
    async def scenario() -> None:
        nodes = await started()
        before = await partitions_at(nodes, 1)
        nodes.kill(2)
        for node_id in (1, 3):
            down = await partitions_at(nodes, node_id)
            assert down == before, "its clients wait at its port"
        nodes.begin(2)
        after = await partitions_at(nodes, 3)
        for old, new in zip(before, after, strict=True):
            assert new.leader_id == old.leader_id
            is_its = old.leader_id == 2
            assert (new.leader_epoch > old.leader_epoch) == is_its

    run(scenario)


def test_the_controller_is_a_live_node() -> None:
    """Admin clients send their requests to it: nothing makes them wait for one that is started again."""

    async def scenario() -> None:
        nodes = await started()

        async def controllers_at(node_id: int) -> tuple[int, int, int]:
            metadata = await nodes.answer(nodes[node_id].call(MetadataRequest(topics=[])))
            request = DescribeClusterRequest(include_cluster_authorized_operations=False)
            described = await nodes.answer(nodes[node_id].call(request))
            asked = QuorumTopic(
                topic_name="__cluster_metadata",
                partitions=[QuorumPartition(partition_index=0)],
            )
            quorum = await nodes.answer(nodes[node_id].call(DescribeQuorumRequest(topics=[asked])))
            leader = quorum.topics[0].partitions[0].leader_id
            assert [each.node_id for each in quorum.nodes] == [leader]
            return metadata.controller_id, described.controller_id, leader

        assert await controllers_at(3) == (1, 1, 1)
        nodes.kill(1)
        for node_id in (2, 3):
            assert await controllers_at(node_id) == (2, 2, 2)
        nodes.begin(1)
        for node_id in (1, 2, 3):
            assert await controllers_at(node_id) == (1, 1, 1)

    run(scenario)


def test_a_node_that_does_not_come_back_leads_nothing_and_nobody_takes_its_partitions() -> None:
    async def scenario() -> None:
        nodes = await started()
        before = await partitions_at(nodes, 1)
        nodes.kill(2)
        nodes.clock.value_ms += int(RESTART_SECONDS * 1000)
        down = await partitions_at(nodes, 1)
        for old, new in zip(before, down, strict=True):
            if old.leader_id == 2:
                assert new.error_code == ErrorCode.LEADER_NOT_AVAILABLE
                assert new.leader_id == NO_LEADER
            else:
                assert new == old
        request = DescribeClusterRequest(include_cluster_authorized_operations=False)
        described = await nodes.answer(nodes[3].call(request))
        assert [broker.broker_id for broker in described.brokers] == [1, 3]
        wanted = [TopicPartition("orders", number) for number in range(6)]
        errors = nodes[1].cluster.elect_preferred(wanted)
        for old, error in zip(before, errors, strict=True):
            expected = (
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
                if old.leader_id == 2
                else ErrorCode.ELECTION_NOT_NEEDED
            )
            assert error is expected
        electing = ElectLeadersRequest(
            election_type=1,
            topic_partitions=[Elected(topic="orders", partitions=list(range(6)))],
            timeout_ms=1000,
        )
        elected = await nodes.answer(nodes[1].call(electing))
        for old, result in zip(
            before, elected.replica_election_results[0].partition_result, strict=True
        ):
            expected = (
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
                if old.leader_id == 2
                else ErrorCode.ELECTION_NOT_NEEDED
            )
            assert result.error_code == expected

    run(scenario)


def test_no_lower_epoch_is_told_than_before() -> None:
    async def scenario() -> None:
        nodes = await started()
        epochs = nodes[1].epochs
        owned = next(
            each
            for each in range(6)
            if nodes.running[2].node.partitions.leads(
                nodes[2].cluster.catalog.topics["orders"], each
            )
        )
        nodes[2].node.partitions.shard("orders", owned)
        # Claimed once more in the same process, as after an error.
        topic = nodes[2].cluster.catalog.topics["orders"]
        shard = nodes[2].node.partitions.open_shard("orders", owned)
        assert shard is not None
        nodes[2].node.partitions.discard(shard)
        shard.resign()
        nodes[2].node.partitions.shard("orders", owned)
        early = nodes[2].epochs.own
        await asyncio.sleep(0.3)  # the others are told at most some times a second
        told = [nodes[1].cluster.leader_epoch(topic, each) for each in range(6)]
        assert told[owned] == nodes[2].store.epoch_of(shard.log.ref) > shard.log.epoch
        nodes.kill(2)
        nodes.begin(2)
        later = [nodes[1].cluster.leader_epoch(topic, each) for each in range(6)]
        assert later[owned] > told[owned]
        epochs.told(2, early)  # it was late
        assert [nodes[1].cluster.leader_epoch(topic, each) for each in range(6)] == later

    run(scenario)


def test_a_partition_whose_epoch_is_not_known_yet_has_no_leader_for_clients() -> None:
    async def scenario() -> None:
        nodes = await started(2)
        fresh = nodes[1].cluster
        fresh.leader_epochs._elsewhere.clear()  # type: ignore[union-attr]
        topic = fresh.catalog.topics["orders"]
        for partition in range(6):
            placed = fresh.place(topic, partition)
            if fresh.leader_of(topic, partition) == 1:
                assert placed.error is NONE
            else:
                assert placed.error is ErrorCode.LEADER_NOT_AVAILABLE

    run(scenario)


def test_internal_topics_have_one_copy_and_others_as_many_as_clients_ask_for() -> None:
    async def scenario() -> None:
        nodes = await started()
        found = []
        for key_type in (0, 1):
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["a", "b", "c"])
            for answer in await nodes.answers(nodes[1].call(request), nodes[2].call(request)):
                found += answer.coordinators
        assert all(each.error_code == NONE for each in found)
        assert all(each.port == 9000 + each.node_id for each in found)
        for name in (GROUPS_TOPIC, TRANSACTIONS_TOPIC):
            topic = nodes[3].cluster.catalog.topics[name]
            assert topic.replication_factor == 1
            assert topic.config.get("min.insync.replicas", "1") == "1"
        for factor, error in ((3, NONE), (4, ErrorCode.INVALID_REPLICATION_FACTOR)):
            wanted = CreatableTopic(
                name=f"with-{factor}",
                num_partitions=2,
                replication_factor=factor,
                assignments=[],
                configs=[],
            )
            made = await nodes.answer(
                nodes[1].call(CreateTopicsRequest(topics=[wanted], timeout_ms=1000))
            )
            assert made.topics[0].error_code == error
        topic = nodes[2].cluster.catalog.topics["with-3"]
        placed = nodes[2].cluster.place(topic, 0)
        assert sorted(placed.replicas) == [1, 2, 3]
        assert placed.in_sync == placed.replicas

    run(scenario)


def test_partitions_are_not_moved_and_workers_not_unregistered() -> None:
    async def scenario() -> None:
        nodes = await started()
        with pytest.raises(IllegalStateError, match="stays with its worker"):
            nodes[1].cluster.move_leader("orders", 0, 1)
        nodes.kill(3)
        nodes.clock.value_ms += int(RESTART_SECONDS * 1000)
        request = UnregisterBrokerRequest(broker_id=3)
        answer = await nodes.answer(nodes[1].call(request))
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert 3 in nodes[1].cluster.registered

    run(scenario)


def test_owners_depend_on_nothing_but_the_catalog_and_the_number_of_nodes() -> None:
    owners = Owners([3, 1, 2])
    again = Owners([1, 2, 3])
    for name in ("orders", "payments", "__consumer_offsets"):
        found = [owners.owner_of(name, partition) for partition in range(12)]
        assert found == [again.owner_of(name, partition) for partition in range(12)]
        assert sorted(found) == [1] * 4 + [2] * 4 + [3] * 4
    chosen = [owners.owner_of("orders", partition, [[2, 1], [9, 3]]) for partition in range(2)]
    assert chosen == [2, 3], "what the client chose, as far as the node is there"
    assert {Owners([7]).owner_of("orders", partition) for partition in range(5)} == {7}


def test_the_address_of_another_node_follows_the_same_rule_as_that_of_this_one() -> None:
    class Clock:
        def monotonic_seconds(self) -> float:
            return 0.0

    members = Members(Clock())  # type: ignore[arg-type]
    own = {LISTENER: Endpoint("0.0.0.0", 9001)}
    advertised = {LISTENER: Endpoint("public.example", 19002)}
    members.register(
        [
            BrokerRegistration(1, own, {}, True),
            BrokerRegistration(2, own, advertised, True),
        ]
    )
    assert members.addresses_for(CALLER) == [
        (1, Endpoint("broker", 9001)),
        (2, Endpoint("public.example", 19002)),
    ]
    assert members.address_of(3, CALLER) is None
