"""Markers of a transaction whose partitions nodes in other processes lead, which may not have heard of a topic yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.broker.separate_nodes.processes_of_nodes import Process, SeparateNodes
from tests.broker.separate_nodes.test_catalog_changes import create, delete

from ottla.broker.coordination.transaction_markers import Errand, MarkerSender
from ottla.broker.partitions.shard import Shard
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest

NONE = ErrorCode.NONE
NAME = "the-transaction"


def run(scenario: Callable[[], Any]) -> None:
    asyncio.run(scenario())


class Transaction:
    """A transaction of version 1, by the requests of its producer to its coordinator."""

    def __init__(self, nodes: SeparateNodes) -> None:
        self.nodes = nodes

    async def begin(self) -> None:
        nodes = self.nodes
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[NAME])
        (found,) = (await nodes.answer(nodes[1].call(request))).coordinators
        self.coordinator: Process = nodes[found.node_id]
        for _ in range(100):
            init = InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=60_000)
            made = await nodes.answer(self.coordinator.call(init))
            if made.error_code == NONE:
                break
            assert made.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self.producer_id, self.epoch = made.producer_id, made.producer_epoch

    async def add(self, topic: str, *partitions: int) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=NAME,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
        )
        answer = await self.nodes.answer(self.coordinator.call(request, 3))
        for each in answer.results_by_topic_v3_and_below[0].results_by_partition:
            assert each.partition_error_code == NONE

    async def end(self) -> None:
        request = EndTxnRequest(
            transactional_id=NAME,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=True,
        )
        answer = await self.nodes.answer(self.coordinator.call(request, 4))
        assert answer.error_code == NONE

    async def state(self) -> str:
        request = DescribeTransactionsRequest(transactional_ids=[NAME])
        answer = await self.nodes.answer(self.coordinator.call(request))
        state: str = answer.transaction_states[0].transaction_state
        return state

    async def until_complete(self) -> None:
        for _ in range(200):
            if await self.state() == "CompleteCommit":
                return
            await asyncio.sleep(0.01)
        raise TimeoutError("the markers are not written")


def led(nodes: SeparateNodes, topic: str, node_id: int) -> int:
    cluster = nodes[node_id].cluster
    found = cluster.catalog.topics[topic]
    return next(
        partition
        for partition in range(found.partition_count)
        if cluster.leader_of(found, partition) == node_id
    )


@pytest.mark.parametrize("seed", range(5))
def test_a_leader_that_does_not_know_the_topic_yet_gets_its_marker_later(seed: int) -> None:
    async def scenario() -> None:
        nodes = await SeparateNodes(seed).start()
        transaction = Transaction(nodes)
        await transaction.begin()
        home = transaction.coordinator.node.node_id
        other = home % 3 + 1
        nodes.shared.held.add(nodes[other].catalog_copy)
        creating = asyncio.ensure_future(transaction.coordinator.call(create("new", partitions=6)))
        while "new" not in transaction.coordinator.cluster.catalog.topics:
            nodes.shared.deliver()
            await asyncio.sleep(0)
        assert "new" not in nodes[other].cluster.catalog.topics
        topic = transaction.coordinator.cluster.catalog.topics["new"]
        partition = next(
            each
            for each in range(6)
            if transaction.coordinator.cluster.leader_of(topic, each) == other
        )
        await transaction.add("new", partition)
        await transaction.end()
        for _ in range(20):
            await asyncio.sleep(0.005)
        assert await transaction.state() == "PrepareCommit", "no marker is written yet"
        nodes.shared.held.clear()
        (made,) = await nodes.answers(creating)
        assert made.topics[0].error_code == NONE
        await transaction.until_complete()
        shard = nodes[other].node.partitions.shard("new", partition)
        assert isinstance(shard, Shard)
        assert shard.log.end_offset == 1, "the marker"

    run(scenario)


@pytest.mark.parametrize("seed", range(5))
def test_a_transaction_ends_without_the_markers_of_a_topic_that_was_deleted(seed: int) -> None:
    async def scenario() -> None:
        nodes = await SeparateNodes(seed).start()
        transaction = Transaction(nodes)
        await transaction.begin()
        home = transaction.coordinator.node.node_id
        other = home % 3 + 1
        await nodes.answer(nodes[1].call(create("doomed", partitions=6)))
        partition = led(nodes, "doomed", other)
        await transaction.add("doomed", partition)
        # The leader knows of the deletion before the coordinator does.
        nodes.shared.held.add(transaction.coordinator.catalog_copy)
        deleting = asyncio.ensure_future(nodes[other].call(delete("doomed")))
        while "doomed" in nodes[other].cluster.catalog.topics:
            nodes.shared.deliver()
            await asyncio.sleep(0)
        await transaction.end()
        for _ in range(20):
            await asyncio.sleep(0.005)
        assert await transaction.state() == "PrepareCommit", "nothing is proven yet"
        nodes.shared.held.clear()
        await nodes.answers(deleting)
        await transaction.until_complete()

    run(scenario)


def test_a_coordinator_that_is_started_again_sends_the_markers_that_are_missing() -> None:
    async def scenario() -> None:
        nodes = await SeparateNodes(4).start()
        transaction = Transaction(nodes)
        await transaction.begin()
        home = transaction.coordinator.node.node_id
        other = home % 3 + 1
        await nodes.answer(nodes[1].call(create("orders", partitions=6)))
        partition = led(nodes, "orders", other)
        await transaction.add("orders", partition)
        nodes.kill(other)
        await transaction.end()
        assert await transaction.state() == "PrepareCommit"
        nodes.kill(home)
        nodes.begin(other)
        transaction.coordinator = nodes.begin(home)
        transaction.coordinator.node.tick()
        await transaction.until_complete()
        shard = nodes[other].node.partitions.shard("orders", partition)
        assert isinstance(shard, Shard)
        assert shard.log.end_offset == 1

    run(scenario)


def test_a_broker_that_takes_an_unknown_topic_for_a_written_marker_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle_errors = MarkerSender._handle_errors

    def believe_unknown(
        self: MarkerSender, errand: Errand, errors: dict[TopicPartition, int]
    ) -> None:
        believed = {
            partition: NONE if error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else error
            for partition, error in errors.items()
        }
        handle_errors(self, errand, believed)

    monkeypatch.setattr(MarkerSender, "_handle_errors", believe_unknown)
    with pytest.raises(AssertionError, match="no marker is written yet"):
        test_a_leader_that_does_not_know_the_topic_yet_gets_its_marker_later(0)
