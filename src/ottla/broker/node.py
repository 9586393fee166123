"""A broker of the cluster: its options, the partitions that it leads, the requests that it has parked."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial

from ottla.broker.cluster import Cluster
from ottla.broker.coordination.coordinators import Coordinators
from ottla.broker.coordination.groups import forget_deleted, group_kind
from ottla.broker.coordination.transaction_markers import MarkerSender
from ottla.broker.coordination.transactions import transaction_kind
from ottla.broker.loop.pause_aware_clock import Uptime
from ottla.broker.partitions.opening import PartitionOpener
from ottla.broker.partitions.replay import Replay
from ottla.broker.partitions.shard import Shard
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
from ottla.ports import DamagedError, PartitionRef, StorageError, StorageFullError, monotonic_ms
from ottla.ports.futures import settled

logger = EventLog(__name__)

NAMES_PER_STEP = 16
# Of so many partitions retention asks the engine at once.
RETENTION_SLICE = 32


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
        self._opener = PartitionOpener(cluster, self._leads, self.topic_config, self._opened)
        # Logs with records that the cleaner cannot read, and the epoch of the claim in which it found out.
        self.uncleanable: dict[PartitionRef, int] = {}
        self.uptime = Uptime(cluster.clock.monotonic_seconds)
        self.groups = Coordinators(
            self, group_kind(self.config, cluster.catalog), prepare=partial(forget_deleted, self)
        )
        self.markers = MarkerSender(self)
        self.transactions = Coordinators(
            self, transaction_kind(self.config, cluster), perform=self.markers.send
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

    def configure_topics(self, wanted: Sequence[tuple[Topic, Mapping[str, str]]]) -> None:
        """Gives topics their options, all of them in one step."""
        together: Changes = {}
        for topic, config in wanted:
            together |= self.cluster.catalog.configure(topic, config)
        self.cluster.commit(together)
        self.cluster.reconfigure()
        for topic, config in wanted:
            text = "topic %(topic)s configured: %(changes)s"
            changed = _changes(topic.config, config)
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

    def create_on_first_use(
        self, names: Iterable[str], most: int
    ) -> Generator[None, None, dict[str, Refused]]:
        """Makes the topics among these that do not exist, where that is switched on; says which could not be.

        Only so many are made: the names of the others are to be asked for again.
        """
        refused: dict[str, Refused] = {}
        if not self.config.auto_create_topics_enable:
            return refused
        later = Refused(
            ErrorCode.LEADER_NOT_AVAILABLE, f"one request makes at most {most} topics: try again"
        )
        catalog = self.cluster.catalog
        wanted: list[NewTopic] = []
        for number, name in enumerate(names):
            if not number % NAMES_PER_STEP:
                yield
            # Internal topics have a shape of their own, which their users give them.
            if name in catalog.topics or name in INTERNAL_TOPICS:
                continue
            reason = later if len(wanted) == most else catalog.check_new_name(name)
            if reason is None:
                wanted.append(NewTopic(name, -1, -1, {}, {}))
            else:
                refused[name] = reason
        # Somebody else may have made one of them in the meantime.
        wanted = [new for new in wanted if new.name not in catalog.topics]
        for new, one in zip(wanted, self.create_topics(wanted), strict=True):
            if isinstance(one, Refused):
                refused[new.name] = one
        return refused

    def find_topic(self, name: str) -> Topic | Refused:
        """A topic that a client names."""
        topic = self.cluster.catalog.topics.get(name)
        if topic is not None:
            return topic
        unknown = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic '{name}'")
        return check_name(name) or unknown

    def delete_topics(self, topics: Sequence[Topic]) -> Generator[None, None, None]:
        """Deletes topics; what is returned removes their data."""
        removal = self.cluster.delete_topics(topics)
        for topic in topics:
            logger.info("topic_deleted", "topic %(topic)s deleted", topic=topic.name)
        return removal

    def forget_topic(self, topic: Topic) -> None:
        """Lets go of everything of a topic that is about to be deleted."""
        for shard in self.open_shards():
            if shard.log.ref.topic_id == topic.topic_id:
                self._discard(shard)
                shard.release_waiters()
        for partition in range(topic.partition_count):
            ref = PartitionRef(topic.name, partition, topic.topic_id)
            self._opener.drop(ref)
            self.uncleanable.pop(ref, None)
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
        return self.cluster.store.has_data(PartitionRef(topic.name, partition, topic.topic_id))

    def _claim(self, name: str, partition: int) -> Shard | ErrorCode:
        topic = self.cluster.catalog.topics.get(name)
        if topic is None or not 0 <= partition < topic.partition_count:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not self._leads(topic, partition):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        error = self._opener.open(PartitionRef(name, partition, topic.topic_id), topic)
        return self._shards[name, partition] if error is ErrorCode.NONE else error

    def _opened(self, replay: Replay) -> None:
        """Serves a partition from now on."""
        ref = replay.log.ref
        config = self.topic_config(self.cluster.catalog.topics[ref.topic])
        shard = self._shards[ref.topic, ref.partition] = Shard(replay, config, self._discard)
        # They may have been changed during the replay.
        shard.configure(config)

    def is_replaying(self, topic: Topic, partition: int) -> bool:
        """Whether the partition is claimed and cannot be used yet."""
        return self._opener.is_replaying(PartitionRef(topic.name, partition, topic.topic_id))

    def _leads(self, topic: Topic, partition: int) -> bool:
        # A node that was lost leads nothing, although one of the same id may be back in its place.
        return (
            self.cluster.leader_of(topic, partition) == self.node_id
            and self.cluster.nodes.get(self.node_id) is self
        )

    def resign(self, ref: PartitionRef) -> None:
        """Leaves a partition to another node; everybody who waits for it here is told."""
        self._opener.drop(ref)
        self.uncleanable.pop(ref, None)
        shard = self._shards.pop((ref.topic, ref.partition), None)
        if shard is not None:
            _save(shard, shard.save)
            shard.resign()

    def take_offline(self, shard: Shard, error: DamagedError) -> None:
        """Serves a partition no longer whose files are damaged, until they are others."""
        self._discard(shard)
        self._opener.take_offline(shard.log, error)
        shard.resign()

    def end(self) -> None:
        """Leaves everything as a kill would: nothing is saved."""
        self._opener.stop()
        shards = self.open_shards()
        self._shards.clear()
        for shard in shards:
            shard.resign()

    def find_offline(self) -> None:
        """Takes note of what the engine could not put in order at its start, so that clients are told."""
        self._opener.find_offline()

    def is_offline(self, ref: PartitionRef) -> bool:
        """Whether the partition could not be opened when that was last tried."""
        return self._opener.is_offline(ref)

    def offline_partitions(self) -> list[tuple[str, int]]:
        return self._opener.offline_partitions()

    def tick(self) -> None:
        """Does what nobody asks for; to be called about once a second."""
        self.uptime.now_ms()
        self._opener.retry_offline()
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
            for first in range(0, topic.partition_count, RETENTION_SLICE):
                partitions = range(first, min(first + RETENTION_SLICE, topic.partition_count))
                for partition in self._retention_may_be_due(topic, partitions, now_ms):
                    if self.cluster.catalog.topics.get(topic.name) is topic:
                        await self._apply_retention_to(topic, partition, now_ms)
                    await asyncio.sleep(0)
                await asyncio.sleep(0)

    async def _apply_retention_to(self, topic: Topic, partition: int, now_ms: int) -> None:
        shard = self.shard(topic.name, partition)
        if not isinstance(shard, Shard):
            return
        try:
            await settled(shard.apply_retention(now_ms))
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

    def _retention_may_be_due(self, topic: Topic, partitions: range, now_ms: int) -> list[int]:
        """The partitions that are open, or have to be opened: retention has nothing to do in the others."""
        if self.cluster.catalog.topics.get(topic.name) is not topic:
            return []  # it was deleted since the round began
        config = self.topic_config(topic)
        due = [number for number in partitions if (topic.name, number) in self._shards]
        unopened = [
            PartitionRef(topic.name, number, topic.topic_id)
            for number in partitions
            if (topic.name, number) not in self._shards and self._leads(topic, number)
        ]
        for ref, found in self.cluster.store.unclaimed(unopened).items():
            if isinstance(found, StorageError):
                _tell_trouble("partition_unreadable", ref, "cannot be looked at", found)
            elif "delete" in config.cleanup_policy and may_be_due(
                found.size_bytes,
                found.first_segment_max_timestamp_ms,
                now_ms,
                config.retention_ms,
                config.retention_bytes,
            ):
                due.append(ref.partition)
        return due

    def expire_producers(self) -> None:
        now_ms, uptime_ms = self.cluster.clock.now_ms(), monotonic_ms(self.cluster.clock)
        expiration_ms = self.config.producer_id_expiration_ms
        for shard in self._shards.values():
            shard.partition.producers.expire(now_ms, expiration_ms)
            shard.partition.producers.expire_verifications(uptime_ms, expiration_ms)

    def release_waiters(self) -> None:
        """Answers every parked request with what there is."""
        for shard in self.open_shards():
            shard.release_waiters()

    def close(self) -> None:
        """Saves the state of every partition; the engine then closes all of them together."""
        self._opener.stop()
        for shard in self.open_shards():
            shard.release_waiters()
            _save(shard, shard.save_at_close)
        self._shards.clear()


def _save(shard: Shard, save: Callable[[], object]) -> None:
    """Spares the next claim a replay; without it that takes longer, and nothing is lost."""
    try:
        save()
    except StorageError as error:
        _tell_trouble("partition_not_saved", shard.log.ref, "was not saved", error)


def _tell_trouble(event: str, ref: PartitionRef, what: str, error: Exception) -> None:
    text = f"partition %(topic)s-%(partition)d {what}: %(reason)s"
    logger.error(event, text, topic=ref.topic, partition=ref.partition, reason=str(error))


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """What was set and what was removed, for the log."""
    made = [f"{name}={value}" for name, value in after.items() if before.get(name) != value]
    return ", ".join(made + [f"{name} removed" for name in before if name not in after])
