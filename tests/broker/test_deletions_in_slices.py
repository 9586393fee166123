"""Deletions of topics with many partitions: the loop serves others while their data is removed."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from tests.storage.batches import SteppingClock

from ottla.broker.clock import SystemIds
from ottla.broker.cluster import Cluster
from ottla.broker.handlers import delete_topics
from ottla.broker.loop.loop_share import SLICE_SECONDS, UNTIMED_STEPS
from ottla.broker.node import Node
from ottla.broker.partitions.shard import Shard
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.caller import Caller
from ottla.config.broker import BrokerConfig
from ottla.core.catalog import NewTopic, Topic
from ottla.model import Endpoint
from ottla.ports import PartitionRef, StorageError
from ottla.storage.memory import MemoryStore
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

WIDE, NARROW = "wide", "narrow"
PARTITIONS = 100
HERE = Endpoint("127.0.0.1", 1)
CONTEXT = RequestContext(6, "test", Caller(HERE, HERE))


class SlowStore(MemoryStore):
    """One that takes a while to remove a partition, and fails if it is told to."""

    def __init__(self, clock: SteppingClock) -> None:
        super().__init__(clock=clock)
        self._stepping = clock
        self.removed = 0
        self.failing = False
        self.is_unsynced = False

    def sync_deletions(self) -> None:
        if self.is_unsynced:
            raise StorageError("a test")

    def delete(self, ref: PartitionRef) -> None:
        if self.failing:
            raise StorageError("a test")
        self._stepping.value_ms += round(1000 * SLICE_SECONDS / 2 + 0.5)
        self.removed += 1
        super().delete(ref)


class Broker:
    """A node without a network, with a topic of many partitions that are all in use and one of a few."""

    def __init__(self) -> None:
        clock = SteppingClock()
        self.store = SlowStore(clock)
        self.cluster = Cluster(self.store, clock, SystemIds())
        self.node = Node(self.cluster, BrokerConfig(node_id=1))
        self.cluster.join(self.node)
        for name, partitions in ((WIDE, PARTITIONS), (NARROW, UNTIMED_STEPS - 1)):
            (made,) = self.node.topics.create([NewTopic(name, partitions, 1, {}, {})])
            assert isinstance(made, Topic)
            for partition in range(partitions):
                assert isinstance(self.node.partitions.shard(name, partition), Shard)

    def delete(self, name: str) -> Any:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1000)
        return delete_topics.handle(self.node, request, CONTEXT)

    @property
    def is_clean(self) -> bool:
        return not self.cluster.catalog.deleting


def test_the_data_of_a_wide_topic_is_removed_in_slices() -> None:
    async def scenario() -> None:
        broker = Broker()
        answer = asyncio.ensure_future(broker.delete(WIDE))
        assert WIDE not in broker.cluster.catalog.topics
        assert broker.node.partitions.open_shard(WIDE, 0) is None
        turns = []
        while not answer.done():
            turns.append(broker.store.removed)
            await asyncio.sleep(0)
        assert max(b - a for a, b in itertools.pairwise(turns)) <= 4
        assert answer.result().responses[0].error_code == 0
        assert broker.is_clean
        assert {ref.topic for ref in broker.store.partitions()} == {NARROW}

    asyncio.run(scenario())


def test_the_data_of_a_narrow_topic_is_removed_at_once() -> None:
    async def scenario() -> None:
        broker = Broker()
        assert broker.delete(NARROW).responses[0].error_code == 0
        assert broker.is_clean

    asyncio.run(scenario())


def test_a_removal_that_is_given_up_is_finished_later() -> None:
    async def scenario() -> None:
        broker = Broker()
        answer = asyncio.ensure_future(broker.delete(WIDE))
        await asyncio.sleep(0)
        # While it is at work, nobody else removes the same.
        await broker.cluster.deletion.finish()
        assert broker.store.removed < PARTITIONS / 2
        answer.cancel()
        await asyncio.gather(answer, return_exceptions=True)
        assert not broker.is_clean
        broker.store.failing = True
        await broker.cluster.deletion.finish()
        assert not broker.is_clean
        broker.store.failing = False
        await broker.cluster.deletion.finish()
        assert broker.is_clean

    asyncio.run(scenario())


def test_data_is_removed_once_however_long_its_end_takes() -> None:
    """It may be offsets in an open transaction that wait: the store is not asked again every second."""

    async def scenario() -> None:
        broker = Broker()
        broker.store.is_unsynced = True
        broker.delete(NARROW)
        removed = broker.store.removed
        assert removed == UNTIMED_STEPS - 1
        for _ in range(3):
            await broker.cluster.deletion.finish()
        assert broker.cluster.catalog.deleting
        assert broker.store.removed == removed
        broker.store.is_unsynced = False
        await broker.cluster.deletion.finish()
        assert broker.is_clean
        assert broker.store.removed == removed

    asyncio.run(scenario())


def test_a_topic_that_is_made_again_during_the_removal_keeps_its_own_data() -> None:
    async def scenario() -> None:
        broker = Broker()
        answer = asyncio.ensure_future(broker.delete(WIDE))
        (made,) = broker.node.topics.create([NewTopic(WIDE, PARTITIONS, 1, {}, {})])
        assert isinstance(made, Topic)
        last = broker.node.partitions.shard(WIDE, PARTITIONS - 1)
        assert isinstance(last, Shard)
        await answer
        assert broker.is_clean
        assert last.log.is_open
        assert {ref.topic_id for ref in broker.store.partitions() if ref.topic == WIDE} == {
            made.topic_id
        }

    asyncio.run(scenario())
