"""A broker of the cluster: its options, the partitions that it leads, the requests that it has parked."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping

from ottla.broker.cluster import Cluster
from ottla.broker.shard import Shard
from ottla.config.broker import BrokerConfig, DynamicOptions, topic_config, with_dynamic
from ottla.config.topic import TopicConfig
from ottla.core.catalog import INTERNAL_TOPICS, Changes, NewTopic, Refused, Topic, check_name
from ottla.core.fetch_session import FetchSessions
from ottla.core.retention import may_be_due
from ottla.errors import ConfigError, ErrorCode
from ottla.model import Endpoint
from ottla.ports import PartitionRef, StorageError

logger = logging.getLogger(__name__)


class Node:
    """What the handlers of one broker work with."""

    def __init__(self, cluster: Cluster, static_config: BrokerConfig) -> None:
        self.cluster = cluster
        self.node_id = static_config.node_id
        self.static_config = static_config
        self.config = with_dynamic(static_config, self.dynamic_options)
        self.advertised: Endpoint | None = None
        self.sessions = FetchSessions(self.config.max_incremental_fetch_session_cache_slots)
        self._shards: dict[tuple[str, int], Shard] = {}
        self._topic_configs: dict[uuid.UUID, TopicConfig] = {}
        cluster.nodes.append(self.node_id)

    # Options.

    @property
    def dynamic_options(self) -> DynamicOptions:
        altered = self.cluster.catalog.broker_configs
        return DynamicOptions(altered.get("", {}), altered.get(str(self.node_id), {}))

    def topic_config(self, topic: Topic) -> TopicConfig:
        """A topic's effective options."""
        found = self._topic_configs.get(topic.topic_id)
        if found is None:
            found = self._topic_configs[topic.topic_id] = topic_config(self.config, topic.config)
        return found

    def check_topic_config(self, config: Mapping[str, str]) -> Refused | None:
        """Whether a topic may be configured like this."""
        try:
            topic_config(self.config, config)
        except ConfigError as error:
            return Refused(ErrorCode.INVALID_CONFIG, str(error))
        return None

    def check_broker_config(self, name: str, altered: Mapping[str, str]) -> Refused | None:
        """Whether this broker, or with an empty name all brokers, may be configured like this."""
        of_cluster, of_node = self.dynamic_options
        dynamic = DynamicOptions(of_cluster, altered) if name else DynamicOptions(altered, of_node)
        try:
            with_dynamic(self.static_config, dynamic)
        except ConfigError as error:
            return Refused(ErrorCode.INVALID_CONFIG, str(error))
        return None

    def configure_topic(self, topic: Topic, config: Mapping[str, str]) -> None:
        self.cluster.commit(self.cluster.catalog.configure(topic, config))
        self._reconfigure()

    def configure_broker(self, name: str, altered: Mapping[str, str]) -> None:
        self.cluster.commit(self.cluster.catalog.configure_broker(name, altered))
        self.config = with_dynamic(self.static_config, self.dynamic_options)
        self._reconfigure()

    def _reconfigure(self) -> None:
        """Gives every open partition its options again."""
        self._topic_configs.clear()
        for shard in self._shards.values():
            shard.configure(self.topic_config(self.cluster.catalog.topics[shard.log.ref.topic]))

    # Topics.

    def decide_create(self, new: NewTopic) -> Changes | Refused:
        """What creating a topic would change."""
        refused = self.cluster.catalog.check_new_name(new.name) or self.check_topic_config(
            new.config
        )
        if refused is not None:
            return refused
        return self.cluster.catalog.create(
            new,
            self.cluster.ids.topic_id(),
            self.cluster.nodes,
            self.config.num_partitions,
            self.config.default_replication_factor,
        )

    def create_topic(self, new: NewTopic) -> Topic | Refused:
        changes = self.decide_create(new)
        if isinstance(changes, Refused):
            return changes
        self.cluster.commit(changes)
        topic = self.cluster.catalog.topics[new.name]
        logger.info("topic %s created with %d partition(s)", topic.name, topic.partition_count)
        return topic

    def topic_for_client(self, name: str, may_create: bool) -> Topic | Refused:
        """A topic that a client names; made on first use where that is switched on."""
        topic = self.cluster.catalog.topics.get(name)
        if topic is not None:
            return topic
        # Internal topics have a shape of their own, which their users give them.
        may_create = may_create and name not in INTERNAL_TOPICS
        if may_create and self.config.auto_create_topics_enable:
            try:
                return self.create_topic(NewTopic(name, -1, -1, {}, {}))
            except StorageError as error:
                return Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        unknown = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic '{name}'")
        return check_name(name) or unknown

    def delete_topic(self, topic: Topic) -> None:
        for shard in self.open_shards():
            if shard.log.ref.topic_id == topic.topic_id:
                self._discard(shard)
                shard.release_waiters()
        self.cluster.delete_topic(topic)
        self._topic_configs.pop(topic.topic_id, None)
        logger.info("topic %s deleted", topic.name)

    # Partitions.

    def shard(self, topic: str, partition: int) -> Shard | ErrorCode:
        """The partition, claimed now if it has not been used yet, or why it cannot be used here."""
        found = self._shards.get((topic, partition))
        return found if found is not None else self._claim(topic, partition)

    def _claim(self, name: str, partition: int) -> Shard | ErrorCode:
        topic = self.cluster.catalog.topics.get(name)
        if topic is None or not 0 <= partition < topic.partition_count:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self.cluster.leader_of(topic, partition) != self.node_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        config = self.topic_config(topic)
        try:
            log = self.cluster.store.claim(PartitionRef(name, partition, topic.topic_id), config)
            shard = Shard(log, config, self.cluster.clock.now_ms(), self._discard)
        except StorageError as error:
            logger.error("partition %s-%d cannot be opened: %s", name, partition, error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        self._shards[name, partition] = shard
        return shard

    def _discard(self, shard: Shard) -> None:
        key = (shard.log.ref.topic, shard.log.ref.partition)
        if self._shards.get(key) is shard:
            del self._shards[key]

    def open_shards(self) -> list[Shard]:
        return list(self._shards.values())

    async def apply_retention(self) -> None:
        """Applies retention to every partition, one at a time, between requests."""
        now_ms = self.cluster.clock.now_ms()
        for topic in list(self.cluster.catalog.topics.values()):
            for partition in range(topic.partition_count):
                if self._retention_may_be_due(topic, partition, now_ms):
                    shard = self.shard(topic.name, partition)
                    if isinstance(shard, Shard):
                        try:
                            shard.apply_retention(now_ms)
                        except StorageError as error:
                            shard.fail(error)
                await asyncio.sleep(0)

    def _retention_may_be_due(self, topic: Topic, partition: int, now_ms: int) -> bool:
        """Whether a partition is in use, or has to be: what nobody uses and is young stays unclaimed."""
        if (topic.name, partition) in self._shards:
            return True
        # It may have been deleted since the round began.
        if self.cluster.catalog.topics.get(topic.name) is not topic:
            return False
        config = self.topic_config(topic)
        try:
            idle = self.cluster.store.idle_log(PartitionRef(topic.name, partition, topic.topic_id))
        except StorageError as error:
            logger.error("partition %s-%d: %s", topic.name, partition, error)
            return False
        return (
            "delete" in config.cleanup_policy
            and idle is not None
            and may_be_due(*idle, now_ms, config.retention_ms, config.retention_bytes)
        )

    def expire_producers(self) -> None:
        now_ms = self.cluster.clock.now_ms()
        for shard in self._shards.values():
            shard.partition.producers.expire(now_ms, self.config.producer_id_expiration_ms)

    def release_waiters(self) -> None:
        """Answers every parked request with what there is."""
        for shard in self.open_shards():
            shard.release_waiters()

    def close(self) -> None:
        """Saves and closes every partition; the first failure does not keep the others from it."""
        for shard in self.open_shards():
            try:
                shard.close()
            except StorageError as error:
                ref = shard.log.ref
                logger.error("partition %s-%d did not close: %s", ref.topic, ref.partition, error)
        self._shards.clear()
