"""Applying `retention.ms` and `retention.bytes` to the partitions that a node leads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import islice
from typing import Final

from ottla.broker.cluster import Cluster
from ottla.broker.options import NodeOptions
from ottla.broker.partitions.led_partitions import LedPartitions
from ottla.broker.partitions.shard import Shard
from ottla.broker.partitions.work_rounds import WorkRounds
from ottla.core.catalog import Topic
from ottla.core.retention import may_be_due
from ottla.events import EventLog
from ottla.ports import PartitionRef, StorageError, StorageFullError
from ottla.ports.futures import settled

logger = EventLog(__name__)

# The engine is asked about this many unopened partitions at once, of however many topics.
PARTITIONS_PER_STEP: Final = 32


class Retention:
    """Deletes old segments, one partition at a time, between requests."""

    def __init__(self, cluster: Cluster, options: NodeOptions, partitions: LedPartitions) -> None:
        self._cluster = cluster
        self._options = options
        self._partitions = partitions
        self.rounds = WorkRounds(cluster.clock)

    async def apply(self) -> None:
        """Looks at every partition once."""
        with self.rounds.round():
            await self._apply()

    async def _apply(self) -> None:
        now_ms = self._cluster.clock.now_ms()
        partitions = (
            (topic, partition)
            for topic in list(self._cluster.catalog.topics.values())
            for partition in range(topic.partition_count)
        )
        while portion := list(islice(partitions, PARTITIONS_PER_STEP)):
            for topic, partition in self._due(portion, now_ms):
                if self._exists(topic):
                    shard = self._partitions.shard(topic.name, partition)
                    if isinstance(shard, Shard):
                        await _apply_to(shard, now_ms)
                await asyncio.sleep(0)
            await asyncio.sleep(0)

    def _exists(self, topic: Topic) -> bool:
        """Whether a topic has not been deleted since the round began."""
        return self._cluster.catalog.topics.get(topic.name) is topic

    def _due(self, partitions: Sequence[tuple[Topic, int]], now_ms: int) -> list[tuple[Topic, int]]:
        """Those that are open, or have to be opened; an unused one without old records stays unclaimed."""
        due: list[tuple[Topic, int]] = []
        unopened: dict[PartitionRef, Topic] = {}
        for topic, partition in partitions:
            if not self._exists(topic):
                continue
            if self._partitions.open_shard(topic.name, partition) is not None:
                due.append((topic, partition))
            elif self._partitions.leads(topic, partition):
                unopened[PartitionRef(topic.name, partition, topic.topic_id)] = topic
        for ref, found in self._cluster.store.unclaimed(unopened).items():
            if isinstance(found, StorageError):
                logger.error(
                    "partition_unreadable",
                    "partition %(topic)s-%(partition)d cannot be looked at: %(reason)s",
                    topic=ref.topic,
                    partition=ref.partition,
                    reason=str(found),
                )
                continue
            config = self._options.topic_config(unopened[ref])
            if "delete" in config.cleanup_policy and may_be_due(
                found.size_bytes,
                found.first_segment_max_timestamp_ms,
                now_ms,
                config.retention_ms,
                config.retention_bytes,
            ):
                due.append((unopened[ref], ref.partition))
        return due


async def _apply_to(shard: Shard, now_ms: int) -> None:
    try:
        await settled(shard.apply_retention(now_ms))
    except StorageFullError as error:
        shard.log_full(error)
    except StorageError as error:
        shard.fail(error)
