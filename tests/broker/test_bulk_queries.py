"""Retention and metrics ask the engine about many partitions at once, of however many topics."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest
from tests.broker.test_replay_in_slices import NOW_MS, batch, node_over, shard_of
from tests.storage.batches import SteppingClock

from ottla.broker.coordination import coordinators
from ottla.broker.metrics import topic_extents
from ottla.broker.partitions.compactor import PARTITIONS_PER_STEP as PARTITIONS_PASSED_OVER
from ottla.broker.partitions.compactor import Compactor
from ottla.broker.partitions.retention import PARTITIONS_PER_STEP, Retention
from ottla.core.catalog import GROUPS_TOPIC, NewTopic
from ottla.ports import PartitionRef
from ottla.storage.memory import MemoryStore

TOPICS = 100


class CountingStore(MemoryStore):
    """The memory engine, which notes the sizes of the questions."""

    def __init__(self, clock: SteppingClock) -> None:
        super().__init__(clock=clock)
        self.asked: list[int] = []

        self.looked_at: list[int] = []

    def has_data(self, ref: PartitionRef) -> bool:
        self.looked_at.append(ref.partition)
        return super().has_data(ref)

    def unclaimed(self, refs: Iterable[PartitionRef]):  # type: ignore[no-untyped-def]
        found = list(refs)
        self.asked.append(len(found))
        return super().unclaimed(found)


def test_retention_asks_once_for_many_topics() -> None:
    async def scenario() -> None:
        store = CountingStore(SteppingClock())
        node = node_over(store)
        node.topics.create([NewTopic(f"t{n}", 1, 1, {}, {}) for n in range(TOPICS)])
        await Retention(node.cluster, node.options, node.partitions).apply()
        assert len(store.asked) == -(-(TOPICS + 1) // PARTITIONS_PER_STEP)
        assert sum(store.asked) == TOPICS + 1

    asyncio.run(scenario())


def test_a_topic_of_very_many_partitions_is_looked_at_little_by_little() -> None:
    partitions = 4 * coordinators.LOOKS + 7

    async def scenario() -> None:
        store = CountingStore(SteppingClock())
        node = node_over(store)
        config = {"cleanup.policy": "compact"}
        node.topics.create([NewTopic(GROUPS_TOPIC, partitions, 1, {}, config)])
        looked_at = set()
        for _ in range(5):
            store.looked_at.clear()
            node.groups.load_soon()
            assert len(store.looked_at) == coordinators.LOOKS
            looked_at.update(store.looked_at)
        assert looked_at == set(range(partitions))
        # A partition with records is found, and its coordinator loaded.
        shard_of(node, partitions - 1, topic=GROUPS_TOPIC)
        for _ in range(5):
            node.groups.load_soon()
            await asyncio.sleep(0)
        assert node.groups.loaded(partitions - 1) is not None
        # The compactor lets requests be served in between.
        turns = 0
        cleaning = asyncio.ensure_future(Compactor(node).clean_all())
        while not cleaning.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns >= partitions // PARTITIONS_PASSED_OVER

    asyncio.run(scenario())


@pytest.mark.parametrize("slice_size", [1, 3, 7, 200])
def test_extents_of_topics_are_added_up_over_slices(
    slice_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_extents, "SLICE", slice_size)

    async def scenario() -> None:
        store = CountingStore(SteppingClock())
        node = node_over(store, partitions=5)
        node.topics.create([NewTopic(f"t{n}", n % 4 + 1, 1, {}, {}) for n in range(20)])
        for partition in range(5):
            for sequence in range(partition):
                shard_of(node, partition).append_own(batch(7, sequence), NOW_MS)
        node.partitions.discard(shard_of(node, 4))
        store.asked.clear()
        found = {
            topic.name: (extent.partitions, extent.end_offsets)
            async for topic, extent in topic_extents.topic_extents(node.cluster)
        }
        assert found == {"orders": (5, 6)} | {f"t{n}": (n % 4 + 1, 0) for n in range(20)}
        if slice_size == 200:
            assert len(store.asked) == 1

    asyncio.run(scenario())
