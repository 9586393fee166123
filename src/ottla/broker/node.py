"""A broker of the cluster: its options, the partitions that it leads, the requests that it has parked."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from ottla.broker.cluster import Cluster
from ottla.broker.coordinators import Coordinators
from ottla.broker.groups import forget_deleted, group_kind
from ottla.broker.markers import MarkerSender
from ottla.broker.shard import Shard
from ottla.broker.transactions import transaction_kind
from ottla.broker.uptime import Uptime
from ottla.config.broker import BrokerConfig, DynamicOptions, topic_config, with_dynamic
from ottla.config.topic import TopicConfig
from ottla.core.catalog import (
    INTERNAL_TOPICS,
    Changes,
    NewTopic,
    Refused,
    Topic,
    check_name,
    collision,
    folded_name,
)
from ottla.core.fetch_session import FetchSessions
from ottla.core.retention import may_be_due
from ottla.errors import ConfigError, ErrorCode
from ottla.events import EventLog
from ottla.model import Endpoint
from ottla.ports import PartitionRef, StorageError, StorageFullError
from ottla.records.errors import CorruptRecordsError

logger = EventLog(__name__)

# How long a partition that could not be opened is left alone; the time doubles with every failure.
FIRST_RETRY_MS = 1000
LAST_RETRY_MS = 60_000


class Offline(NamedTuple):
    """A partition that could not be opened; it is left alone until the monotonic clock says so."""

    retry_at_ms: int
    wait_ms: int


class Node:
    """What the handlers of one broker work with."""

    def __init__(self, cluster: Cluster, static_config: BrokerConfig) -> None:
        self.cluster = cluster
        self.node_id = static_config.node_id
        self.static_config = static_config
        self.config = with_dynamic(static_config, self.dynamic_options)
        # Where it listens, and what clients are told instead of that.
        self.endpoint: Endpoint | None = None
        self.advertised: Endpoint | None = None
        self.sessions = FetchSessions(self.config.max_incremental_fetch_session_cache_slots)
        self._shards: dict[tuple[str, int], Shard] = {}
        self._offline: dict[PartitionRef, Offline] = {}
        self.uptime = Uptime(cluster.clock.monotonic_seconds)
        self.groups = Coordinators(
            self, group_kind(self.config), prepare=partial(forget_deleted, self)
        )
        self.markers = MarkerSender(self)
        self.transactions = Coordinators(
            self, transaction_kind(self.config), perform=self.markers.send
        )
        self._topic_configs: dict[uuid.UUID, TopicConfig] = {}
        self.check_topics_under(self.config)

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
        if not config:
            return None
        try:
            topic_config(self.config, config)
        except ConfigError as error:
            return Refused(ErrorCode.INVALID_CONFIG, str(error))
        return None

    def check_broker_config(self, name: str, altered: Mapping[str, str]) -> Refused | None:
        """Whether this broker, or with an empty name all brokers, may be configured like this."""
        for node in [self] if name else self.cluster.nodes.values():
            of_cluster, of_node = node.dynamic_options
            dynamic = (
                DynamicOptions(of_cluster, altered) if name else DynamicOptions(altered, of_node)
            )
            try:
                node.check_topics_under(with_dynamic(node.static_config, dynamic))
            except ConfigError as error:
                return Refused(ErrorCode.INVALID_CONFIG, str(error))
        return None

    def check_topics_under(self, config: BrokerConfig) -> None:
        """Whether the options that topics have set go together with a broker's."""
        for topic in self.cluster.catalog.topics.values():
            try:
                topic_config(config, topic.config)
            except ConfigError as error:
                raise ConfigError(f"topic '{topic.name}': {error}") from error

    def configure_topic(self, topic: Topic, config: Mapping[str, str]) -> None:
        changed = _changes(topic.config, config)
        self.cluster.commit(self.cluster.catalog.configure(topic, config))
        self.cluster.reconfigure()
        text = "topic %(topic)s configured: %(changes)s"
        logger.info("topic_configured", text, topic=topic.name, changes=changed)

    def configure_broker(self, name: str, altered: Mapping[str, str]) -> None:
        changed = _changes(self.cluster.catalog.broker_configs.get(name, {}), altered)
        self.cluster.commit(self.cluster.catalog.configure_broker(name, altered))
        self.cluster.reconfigure()
        text = "broker %(broker)s configured: %(changes)s"
        logger.info("broker_configured", text, broker=name or "(all)", changes=changed)

    def reconfigure(self) -> None:
        """Takes what is in the catalog now, and gives every open partition its options again."""
        self.config = with_dynamic(self.static_config, self.dynamic_options)
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
            list(self.cluster.nodes),
            self.config.num_partitions,
            self.config.default_replication_factor,
        )

    def create_topics(self, wanted: Sequence[NewTopic]) -> list[Topic | Refused]:
        """Creates topics, all of them in one step; two that differ only in '.' and '_' collide."""
        decided: list[Changes | Refused] = []
        together: Changes = {}
        taken: dict[str, str] = {}
        for new in wanted:
            other = taken.get(folded_name(new.name))
            changes = self.decide_create(new) if other is None else collision(new.name, other)
            if not isinstance(changes, Refused):
                taken[folded_name(new.name)] = new.name
                together |= changes
            decided.append(changes)
        if together:
            try:
                self.cluster.commit(together)
            except StorageError as error:
                failed = Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
                return [one if isinstance(one, Refused) else failed for one in decided]
        return [
            one if isinstance(one, Refused) else self._created(new.name)
            for new, one in zip(wanted, decided, strict=True)
        ]

    def _created(self, name: str) -> Topic:
        topic = self.cluster.catalog.topics[name]
        self.cluster.place_new(topic)
        logger.info(
            "topic_created",
            "topic %(topic)s created with %(partitions)d partition(s)",
            topic=name,
            partitions=topic.partition_count,
        )
        return topic

    def create_on_first_use(self, names: Iterable[str]) -> dict[str, Refused]:
        """Makes the topics among these that do not exist, where that is switched on; says which could not be."""
        if not self.config.auto_create_topics_enable:
            return {}
        # Internal topics have a shape of their own, which their users give them.
        missing = [
            name
            for name in dict.fromkeys(names)
            if name not in self.cluster.catalog.topics and name not in INTERNAL_TOPICS
        ]
        made = self.create_topics([NewTopic(name, -1, -1, {}, {}) for name in missing])
        return {
            name: one for name, one in zip(missing, made, strict=True) if isinstance(one, Refused)
        }

    def find_topic(self, name: str) -> Topic | Refused:
        """A topic that a client names."""
        topic = self.cluster.catalog.topics.get(name)
        if topic is not None:
            return topic
        unknown = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic '{name}'")
        return check_name(name) or unknown

    def delete_topic(self, topic: Topic) -> None:
        self.cluster.delete_topic(topic)
        logger.info("topic_deleted", "topic %(topic)s deleted", topic=topic.name)

    def forget_topic(self, topic: Topic) -> None:
        """Lets go of everything of a topic that is about to be deleted."""
        for shard in self.open_shards():
            if shard.log.ref.topic_id == topic.topic_id:
                self._discard(shard)
                shard.release_waiters()
        self._topic_configs.pop(topic.topic_id, None)

    # Partitions.

    def shard(self, topic: str, partition: int) -> Shard | ErrorCode:
        """The partition, claimed now if it has not been used yet, or why it cannot be used here."""
        found = self._shards.get((topic, partition))
        return found if found is not None else self._claim(topic, partition)

    def open_shard(self, topic: str, partition: int) -> Shard | None:
        """The partition, if it is in use here."""
        return self._shards.get((topic, partition))

    def leads_records_of(self, topic: Topic, partition: int) -> bool:
        """Whether this node leads the partition and may find something in it; it is not opened for that."""
        if (topic.name, partition) in self._shards:
            return True
        if not self._leads(topic, partition):
            return False
        return self.cluster.store.keeps(PartitionRef(topic.name, partition, topic.topic_id))

    def _claim(self, name: str, partition: int) -> Shard | ErrorCode:
        topic = self.cluster.catalog.topics.get(name)
        if topic is None or not 0 <= partition < topic.partition_count:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not self._leads(topic, partition):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        ref = PartitionRef(name, partition, topic.topic_id)
        now_ms = self.cluster.clock.now_ms()
        if self.is_offline(ref) and self._monotonic_ms() < self._offline[ref].retry_at_ms:
            return ErrorCode.KAFKA_STORAGE_ERROR
        config = self.topic_config(topic)
        try:
            log = self.cluster.store.claim(ref, config)
            shard = Shard(log, config, now_ms, self._discard)
        except (StorageError, CorruptRecordsError) as error:
            self._take_offline(ref, error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self._offline.pop(ref, None) is not None:
            logger.info(
                "partition_online",
                "partition %(topic)s-%(partition)d is online again",
                topic=name,
                partition=partition,
            )
        self._shards[name, partition] = shard
        return shard

    def _leads(self, topic: Topic, partition: int) -> bool:
        # A node that was lost leads nothing, although one of the same id may be back in its place.
        return (
            self.cluster.leader_of(topic, partition) == self.node_id
            and self.cluster.nodes.get(self.node_id) is self
        )

    def resign(self, ref: PartitionRef) -> None:
        """Leaves a partition to another node; everybody who waits for it here is told."""
        self._offline.pop(ref, None)
        shard = self._shards.pop((ref.topic, ref.partition), None)
        if shard is not None:
            _save(shard)
            shard.resign()

    def end(self) -> None:
        """Leaves everything as a kill would: nothing is saved."""
        shards = self.open_shards()
        self._shards.clear()
        for shard in shards:
            shard.resign()

    def _monotonic_ms(self) -> int:
        """Time for waits: the wall clock may be set back, and no partition should wait until it catches up."""
        return int(self.cluster.clock.monotonic_seconds() * 1000)

    def _take_offline(self, ref: PartitionRef, error: Exception) -> None:
        known = self._offline.get(ref)
        wait_ms = FIRST_RETRY_MS if known is None else min(2 * known.wait_ms, LAST_RETRY_MS)
        self._offline[ref] = Offline(self._monotonic_ms() + wait_ms, wait_ms)
        _tell_trouble("partition_offline", ref, "is offline", error)

    def find_offline(self) -> None:
        """Takes note of what the engine could not put in order at its start, so that clients are told."""
        retry_at_ms = self._monotonic_ms() + FIRST_RETRY_MS
        for ref in self.cluster.store.offline():
            topic = self.cluster.catalog.topics_by_id.get(ref.topic_id)
            if topic is not None and self._leads(topic, ref.partition):
                self._offline[ref] = Offline(retry_at_ms, FIRST_RETRY_MS)

    def is_offline(self, ref: PartitionRef) -> bool:
        """Whether the partition could not be opened when that was last tried."""
        return bool(self._offline) and ref in self._offline

    def offline_partitions(self) -> list[tuple[str, int]]:
        return [(ref.topic, ref.partition) for ref in self._offline]

    def retry_offline(self) -> None:
        """Tries to open partitions that could not be opened; clients that see no leader do not ask."""
        now_ms = self._monotonic_ms()
        due = [ref for ref, offline in self._offline.items() if offline.retry_at_ms <= now_ms]
        for ref in due:
            topic = self.cluster.catalog.topics_by_id.get(ref.topic_id)
            if topic is None or not self._leads(topic, ref.partition):
                del self._offline[ref]
            else:
                self.shard(ref.topic, ref.partition)

    def tick(self) -> None:
        """Does what nobody asks for; to be called about once a second."""
        self.uptime.now_ms()
        self.retry_offline()
        self.groups.load_soon()
        self.transactions.load_soon()

    def _discard(self, shard: Shard) -> None:
        key = (shard.log.ref.topic, shard.log.ref.partition)
        if self._shards.get(key) is shard:
            del self._shards[key]

    def open_shards(self) -> list[Shard]:
        return list(self._shards.values())

    async def apply_retention(self) -> None:
        """Applies retention to every partition that it leads, one at a time, between requests."""
        now_ms = self.cluster.clock.now_ms()
        for topic in list(self.cluster.catalog.topics.values()):
            for partition in range(topic.partition_count):
                if self._retention_may_be_due(topic, partition, now_ms):
                    shard = self.shard(topic.name, partition)
                    if isinstance(shard, Shard):
                        try:
                            shard.apply_retention(now_ms)
                        except StorageFullError as error:
                            logger.warning(
                                "storage_full",
                                "partition %(topic)s-%(partition)d: %(reason)s",
                                topic=topic.name,
                                partition=partition,
                                reason=str(error),
                            )
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
        if not self._leads(topic, partition):
            return False
        config = self.topic_config(topic)
        ref = PartitionRef(topic.name, partition, topic.topic_id)
        try:
            idle = self.cluster.store.idle_log(ref)
        except StorageError as error:
            _tell_trouble("partition_unreadable", ref, "cannot be looked at", error)
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

    def expire_producers(self) -> None:
        now_ms = self.cluster.clock.now_ms()
        for shard in self._shards.values():
            shard.partition.producers.expire(now_ms, self.config.producer_id_expiration_ms)

    def release_waiters(self) -> None:
        """Answers every parked request with what there is."""
        for shard in self.open_shards():
            shard.release_waiters()

    def close(self) -> None:
        """Saves the state of every partition; the engine then closes all of them together."""
        for shard in self.open_shards():
            shard.release_waiters()
            _save(shard)
        self._shards.clear()


def _save(shard: Shard) -> None:
    """Spares the next claim a replay; without it that takes longer, and nothing is lost."""
    try:
        shard.save()
    except StorageError as error:
        _tell_trouble("partition_not_saved", shard.log.ref, "was not saved", error)


def _tell_trouble(event: str, ref: PartitionRef, what: str, error: Exception) -> None:
    text = f"partition %(topic)s-%(partition)d {what}: %(reason)s"
    logger.error(event, text, topic=ref.topic, partition=ref.partition, reason=str(error))


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """What was set and what was removed, for the log."""
    made = [f"{name}={value}" for name, value in after.items() if before.get(name) != value]
    return ", ".join(made + [f"{name} removed" for name in before if name not in after])
