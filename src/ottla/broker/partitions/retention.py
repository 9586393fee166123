"""Applying `retention.ms` and `retention.bytes` to the partitions that a node leads."""

from __future__ import annotations

import asyncio

from ottla.broker.cluster import Cluster
from ottla.broker.options import NodeOptions
from ottla.broker.partitions.led_partitions import LedPartitions
from ottla.broker.partitions.shard import Shard
from ottla.core.catalog import Topic
from ottla.core.retention import may_be_due
from ottla.events import EventLog
from ottla.ports import PartitionRef, StorageError, StorageFullError

logger = EventLog(__name__)


class Retention:
    """Deletes old segments, one partition at a time, between requests."""

    def __init__(self, cluster: Cluster, options: NodeOptions, partitions: LedPartitions) -> None:
        self._cluster = cluster
        self._options = options
        self._partitions = partitions

    async def apply(self) -> None:
        """Looks at every partition once."""
        now_ms = self._cluster.clock.now_ms()
        for topic in list(self._cluster.catalog.topics.values()):
            for partition in range(topic.partition_count):
                if self._may_be_due(topic, partition, now_ms):
                    shard = self._partitions.shard(topic.name, partition)
                    if isinstance(shard, Shard):
                        _apply_to(shard, now_ms)
                await asyncio.sleep(0)

    def _may_be_due(self, topic: Topic, partition: int, now_ms: int) -> bool:
        """Whether a partition is in use, or has to be opened: one that is unused and young stays unclaimed."""
        if self._partitions.open_shard(topic.name, partition) is not None:
            return True
        # It may have been deleted since the round began.
        if self._cluster.catalog.topics.get(topic.name) is not topic:
            return False
        if not self._partitions.leads(topic, partition):
            return False
        config = self._options.topic_config(topic)
        ref = PartitionRef(topic.name, partition, topic.topic_id)
        try:
            idle = self._cluster.store.idle_log(ref)
        except StorageError as error:
            logger.error(
                "partition_unreadable",
                "partition %(topic)s-%(partition)d cannot be looked at: %(reason)s",
                topic=ref.topic,
                partition=ref.partition,
                reason=str(error),
            )
            return False
        return (
            "delete" in config.cleanup_policy
            and idle is not None
            and may_be_due(
                idle.size_bytes,
                idle.first_segment_max_timestamp_ms,
                now_ms,
                config.retention_ms,
                config.retention_bytes,
            )
        )


def _apply_to(shard: Shard, now_ms: int) -> None:
    try:
        shard.apply_retention(now_ms)
    except StorageFullError as error:
        ref = shard.log.ref
        logger.warning(
            "storage_full",
            "partition %(topic)s-%(partition)d: %(reason)s",
            topic=ref.topic,
            partition=ref.partition,
            reason=str(error),
        )
    except StorageError as error:
        shard.fail(error)
