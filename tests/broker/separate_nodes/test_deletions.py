"""Topics that are deleted where every node has a store of its own: each does its part, also one that was down."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from tests.broker.separate_nodes.processes_of_nodes import Process, SeparateNodes
from tests.broker.separate_nodes.test_catalog_changes import create, delete

from ottla.core.catalog import GROUPS_TOPIC
from ottla.errors import ErrorCode
from ottla.model import coordinator_partition
from ottla.ports import PartitionRef
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

NONE = ErrorCode.NONE
NO_OFFSET = -1


def run(scenario: Callable[[], Any]) -> None:
    asyncio.run(scenario())


async def started(seed: int) -> SeparateNodes:
    nodes = await SeparateNodes(seed).start()
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["any"])
    (found,) = (await nodes.answer(nodes[2].call(request))).coordinators
    assert found.error_code == NONE
    await nodes.answer(nodes[1].call(create("orders", partitions=6)))
    for process in nodes.running.values():
        topic = process.cluster.catalog.topics["orders"]
        for partition in range(topic.partition_count):
            process.node.partitions.shard("orders", partition)
    return nodes


def group_of(nodes: SeparateNodes, node_id: int) -> str:
    """A group that a node coordinates."""
    cluster = nodes[1].cluster
    topic = cluster.catalog.topics[GROUPS_TOPIC]
    for number in range(1000):
        group = f"group-{number}"
        partition = coordinator_partition(group, topic.partition_count)
        if cluster.leader_of(topic, partition) == node_id:
            return group
    raise AssertionError("every node leads a part of the groups")


async def commit(nodes: SeparateNodes, node_id: int, group: str) -> None:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=7, committed_metadata=""
    )
    topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
    request = OffsetCommitRequest(group_id=group, member_id="", topics=[topic])
    answer = await nodes.answer(nodes[node_id].call(request, 8))
    assert answer.topics[0].partitions[0].error_code == NONE


async def committed(nodes: SeparateNodes, node_id: int, group: str) -> int:
    topics = [OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
    wanted = OffsetFetchRequestGroup(group_id=group, topics=topics)
    answer = await nodes.answer(nodes[node_id].call(OffsetFetchRequest(groups=[wanted]), 8))
    assert answer.groups[0].error_code == NONE
    offset: int = answer.groups[0].topics[0].partitions[0].committed_offset
    return offset


def refs(process: Process, topic_id: uuid.UUID) -> list[PartitionRef]:
    return [ref for ref in process.store.partitions() if ref.topic_id == topic_id]


@pytest.mark.parametrize("seed", range(10))
def test_every_node_removes_its_data_and_forgets_the_offsets(seed: int) -> None:
    async def scenario() -> None:
        nodes = await started(seed)
        topic_id = nodes[1].cluster.catalog.topics["orders"].topic_id
        owned = [len(refs(nodes[node_id], topic_id)) for node_id in nodes.node_ids]
        assert owned == [2, 2, 2]
        groups = {node_id: group_of(nodes, node_id) for node_id in nodes.node_ids}
        for node_id, group in groups.items():
            await commit(nodes, node_id, group)
        deleted, made = await nodes.answers(
            nodes[2].call(delete("orders")), nodes[2].call(create("orders"))
        )
        assert deleted.responses[0].error_code == NONE
        if made.topics[0].error_code:  # it was quicker than the deletion
            made = await nodes.answer(nodes[2].call(create("orders")))
        assert made.topics[0].error_code == NONE
        for node_id, group in groups.items():
            assert await committed(nodes, node_id, group) == NO_OFFSET, "those of the old topic"
        await nodes.tick()
        for process in nodes.running.values():
            assert refs(process, topic_id) == []
            assert not process.cluster.catalog.deleting

    run(scenario)


@pytest.mark.parametrize("seed", range(10))
def test_a_deletion_is_not_complete_before_a_node_that_was_down_has_done_its_part(
    seed: int,
) -> None:
    async def scenario() -> None:
        nodes = await started(seed)
        topic_id = nodes[1].cluster.catalog.topics["orders"].topic_id
        group = group_of(nodes, 3)
        await commit(nodes, 3, group)
        nodes.kill(3)
        deleted = await nodes.answer(nodes[1].call(delete("orders")))
        assert deleted.responses[0].error_code == NONE
        for _ in range(3):
            await nodes.tick()
        assert list(nodes[2].cluster.catalog.deleting) == [topic_id]
        made = await nodes.answer(nodes[1].call(create("orders")))
        assert made.topics[0].error_code == NONE
        back = nodes.begin(3)
        assert refs(back, topic_id) == [], "the data goes before it serves"
        assert await committed(nodes, 3, group) == NO_OFFSET
        for _ in range(3):
            await nodes.tick()
        assert not nodes[2].cluster.catalog.deleting
        assert await committed(nodes, 3, group) == NO_OFFSET

    run(scenario)


def test_a_node_that_has_done_its_part_writes_nothing_more_while_others_are_down() -> None:
    async def scenario() -> None:
        nodes = await started(1)
        nodes.kill(3)
        await nodes.answer(nodes[1].call(delete("orders")))
        for _ in range(3):
            await nodes.tick()
        revision = nodes.shared.revision
        for _ in range(3):
            await nodes.tick()
        assert nodes.shared.revision == revision

    run(scenario)


def test_what_was_done_counts_only_for_the_same_nodes() -> None:
    """Among other nodes the groups have other coordinators."""

    async def scenario() -> None:
        nodes = await started(1)
        nodes.kill(3)
        await nodes.answer(nodes[1].call(delete("orders")))
        for _ in range(3):
            await nodes.tick()
        (deleted,) = nodes[1].cluster.catalog.deleting.values()
        assert deleted.done_of([1, 2, 3]) == (1, 2)
        assert deleted.done_of([1, 2]) == ()

    run(scenario)
