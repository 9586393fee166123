"""The sizes and offsets of topics, added up over their partitions in this process without claiming any."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from ottla.broker.cluster import Cluster
from ottla.core.catalog import Topic
from ottla.ports import PartitionRef, StorageError

# The number of partitions that are counted before the loop serves requests.
SLICE: Final = 200


class TopicExtent(NamedTuple):
    """The size of a topic."""

    partitions: int
    size_bytes: int
    start_offsets: int
    end_offsets: int

    def plus(self, other: TopicExtent) -> TopicExtent:
        """Both added up."""
        return TopicExtent(*(a + b for a, b in zip(self, other, strict=True)))


class _Portion:
    """Partitions of a few topics, about which the engine is asked once."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._unopened: dict[PartitionRef, Topic] = {}
        self._found: dict[str, tuple[Topic, TopicExtent]] = {}
        self.looked_at = 0

    def add(self, topic: Topic, partitions: range) -> None:
        """Adds up open partitions; one that cannot be read now counts as empty."""
        cluster = self._cluster
        size_bytes = start_offsets = end_offsets = count = 0
        for partition in partitions:
            node = cluster.members.here.get(cluster.leader_of(topic, partition))
            if node is None and not cluster.members.are_all_here:
                continue  # the process of its leader counts it
            count += 1
            shard = None if node is None else node.partitions.open_shard(topic.name, partition)
            if shard is not None:
                size_bytes += shard.log.size_bytes
                start_offsets += shard.log.start_offset
                end_offsets += shard.partition.high_watermark
            else:
                self._unopened[PartitionRef(topic.name, partition, topic.topic_id)] = topic
        self._count(topic, TopicExtent(count, size_bytes, start_offsets, end_offsets))
        self.looked_at += len(partitions)

    def _count(self, topic: Topic, extent: TopicExtent) -> None:
        known = self._found.get(topic.name)
        self._found[topic.name] = topic, extent if known is None else known[1].plus(extent)

    def take(self) -> list[tuple[Topic, TopicExtent]]:
        """What was found since the last call."""
        for ref, log in self._cluster.store.unclaimed(self._unopened).items():
            if not isinstance(log, StorageError):
                extent = TopicExtent(0, log.size_bytes, log.start_offset, log.end_offset)
                self._count(self._unopened[ref], extent)
        found = list(self._found.values())
        self._found, self._unopened, self.looked_at = {}, {}, 0
        return found


async def topic_extents(cluster: Cluster) -> AsyncIterator[tuple[Topic, TopicExtent]]:
    """Every topic that has partitions here with their size, by name; the loop serves requests in between."""
    portion = _Portion(cluster)
    begun: TopicExtent | None = (
        None  # of the topic whose partitions were not all in the last portion
    )
    topics = sorted(cluster.catalog.topics.values(), key=lambda topic: topic.name)
    for number, topic in enumerate(topics):
        for first in range(0, topic.partition_count, SLICE):
            portion.add(topic, range(first, min(first + SLICE, topic.partition_count)))
            is_last = first + SLICE >= topic.partition_count
            if portion.looked_at < SLICE and not (is_last and number == len(topics) - 1):
                continue
            for each, extent in portion.take():
                whole = extent if begun is None else begun.plus(extent)
                begun = None
                if each is topic and not is_last:
                    begun = whole
                elif whole.partitions:
                    yield each, whole
            await asyncio.sleep(0)
