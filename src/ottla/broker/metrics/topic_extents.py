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


async def topic_extents(cluster: Cluster) -> AsyncIterator[tuple[Topic, TopicExtent]]:
    """Every topic that has partitions here with their size, by name; the loop serves requests in between."""
    looked_at = 0
    for topic in sorted(cluster.catalog.topics.values(), key=lambda topic: topic.name):
        found = TopicExtent(0, 0, 0, 0)
        for first in range(0, topic.partition_count, SLICE):
            partitions = range(first, min(first + SLICE, topic.partition_count))
            found = found.plus(_extent_of(cluster, topic, partitions))
            looked_at += len(partitions)
            if looked_at >= SLICE:
                looked_at = 0
                await asyncio.sleep(0)
        if found.partitions:
            yield topic, found


def _extent_of(cluster: Cluster, topic: Topic, partitions: range) -> TopicExtent:
    """Adds up partitions; one that cannot be read now counts as empty."""
    size_bytes = start_offsets = end_offsets = 0
    unopened: list[PartitionRef] = []
    count = 0
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
            unopened.append(PartitionRef(topic.name, partition, topic.topic_id))
    for found in cluster.store.unclaimed(unopened).values():
        if not isinstance(found, StorageError):
            size_bytes += found.size_bytes
            start_offsets += found.start_offset
            end_offsets += found.end_offset
    return TopicExtent(count, size_bytes, start_offsets, end_offsets)
