"""The partitions that a node leads: each is claimed from the storage engine when it is first used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from ottla.broker.cluster import Cluster
from ottla.broker.options import NodeOptions
from ottla.broker.partitions.opening import PartitionOpener
from ottla.broker.partitions.replay import Replay
from ottla.broker.partitions.shard import Shard
from ottla.broker.partitions.unsettled_bytes import UnsettledBytes
from ottla.core.catalog import Topic
from ottla.errors import ErrorCode
from ottla.events import EventLog
from ottla.ports import DamagedError, PartitionRef, StorageError, monotonic_ms
from ottla.ports.futures import settled

logger = EventLog(__name__)


class LedPartitions:
    """Finds, opens and gives up the partitions of one node."""

    def __init__(
        self, node_id: int, cluster: Cluster, options: NodeOptions, unsettled: UnsettledBytes
    ) -> None:
        self._node_id = node_id
        self._cluster = cluster
        self._options = options
        self._unsettled = unsettled
        self._shards: dict[tuple[str, int], Shard] = {}
        # What requests other than Fetch may use: nothing while another node may lead these partitions.
        self._usable: Mapping[tuple[str, int], Shard] = self._shards
        self._opener = PartitionOpener(cluster, self.leads, options.topic_config, self._opened)
        self._is_ended = False
        # Logs with records that the cleaner cannot read, and the epoch of the claim in which it found them.
        self.uncleanable: dict[PartitionRef, int] = {}

    # Using them.

    def shard(self, topic: str, partition: int) -> Shard | ErrorCode:
        """The partition, claimed now if it has not been used yet, or why it cannot be used here."""
        found = self._usable.get((topic, partition))
        return found if found is not None else self._claim(topic, partition)

    def readable_shard(self, topic: str, partition: int) -> Shard | ErrorCode:
        """As `shard`, for a Fetch: what it reads was committed, also if another node leads the partition by now."""
        found = self._shards.get((topic, partition))
        return found if found is not None else self._claim(topic, partition)

    def open_shard(self, topic: str, partition: int) -> Shard | None:
        """The partition, if it is in use here."""
        return self._usable.get((topic, partition))

    def open_shards(self) -> list[Shard]:
        return list(self._shards.values())

    def leads(self, topic: Topic, partition: int) -> bool:
        # A node that was lost leads nothing, although another one of the same id may be live.
        return self._cluster.leader_of(topic, partition) == self._node_id and not self._is_ended

    def leads_records_of(self, topic: Topic, partition: int) -> bool:
        """Whether this node leads the partition, and it may have records; does not open it."""
        if (topic.name, partition) in self._shards:
            return True
        if not self.leads(topic, partition):
            return False
        return self._cluster.store.has_data(PartitionRef(topic.name, partition, topic.topic_id))

    def is_replaying(self, topic: Topic, partition: int) -> bool:
        """Whether the partition is claimed and cannot be used yet."""
        return self._opener.is_replaying(PartitionRef(topic.name, partition, topic.topic_id))

    def opening(self, topic: str, partition: int) -> asyncio.Future[None] | None:
        """When a partition can be used whose engine is at work on the claim; None if it is not."""
        known = self._cluster.catalog.topics.get(topic)
        if known is None:
            return None
        return self._opener.opening(PartitionRef(topic, partition, known.topic_id))

    def reconfigure(self) -> None:
        """Gives every open partition its topic's options again."""
        topics = self._cluster.catalog.topics
        for shard in self._shards.values():
            shard.configure(self._options.topic_config(topics[shard.log.ref.topic]))

    def expire_producers(self) -> None:
        clock = self._cluster.clock
        now_ms, uptime_ms = clock.now_ms(), monotonic_ms(clock)
        expiration_ms = self._options.config.producer_id_expiration_ms
        for shard in self._shards.values():
            shard.partition.producers.expire(now_ms, expiration_ms)
            shard.partition.producers.expire_verifications(uptime_ms, expiration_ms)

    def suspend(self) -> None:
        """Lets nothing but Fetch use the partitions: another node may have taken them."""
        self._usable = {}

    def resume(self) -> None:
        self._usable = self._shards

    # Opening them.

    def _claim(self, name: str, partition: int) -> Shard | ErrorCode:
        topic = self._cluster.catalog.topics.get(name)
        if topic is None or not 0 <= partition < topic.partition_count:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not self.leads(topic, partition) or self._usable is not self._shards:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        error = self._opener.open(PartitionRef(name, partition, topic.topic_id), topic)
        return self._shards[name, partition] if error is ErrorCode.NONE else error

    def _opened(self, replay: Replay) -> None:
        ref = replay.log.ref
        config = self._options.topic_config(self._cluster.catalog.topics[ref.topic])
        shard = self._shards[ref.topic, ref.partition] = Shard(
            replay, config, self.discard, self._unsettled
        )
        self._cluster.claimed(ref, replay.log.epoch)
        # The options may have been changed during the replay.
        shard.configure(config)

    # Partitions that cannot be opened.

    def find_offline(self) -> None:
        """Takes partitions offline that the engine could not repair at its start, so that clients get an error."""
        self._opener.find_offline()

    def is_offline(self, ref: PartitionRef) -> bool:
        """Whether the last attempt to open the partition failed."""
        return self._opener.is_offline(ref)

    def offline_partitions(self) -> list[tuple[str, int]]:
        return self._opener.offline_partitions()

    def retry_offline(self) -> None:
        """Tries to open partitions whose last attempt failed some time ago."""
        self._opener.retry_offline()

    def take_offline(self, shard: Shard, error: DamagedError) -> None:
        """Stops serving a partition whose files are damaged, until the files change."""
        self.discard(shard)
        self._opener.take_offline(shard.log, error)
        shard.resign()

    # Giving them up.

    def discard(self, shard: Shard) -> None:
        """Forgets a shard that has failed: the next use claims the partition again."""
        key = (shard.log.ref.topic, shard.log.ref.partition)
        if self._shards.get(key) is shard:
            del self._shards[key]

    def resign(self, ref: PartitionRef) -> None:
        """Leaves a partition to its new leader; requests that wait for it here are answered."""
        self._opener.drop(ref)
        self.uncleanable.pop(ref, None)
        shard = self._shards.pop((ref.topic, ref.partition), None)
        if shard is not None:
            _save(shard, shard.save)
            shard.resign()

    def resign_lost(self, ref: PartitionRef) -> None:
        """Forgets a partition that another process has claimed: nothing of it can be saved any more."""
        self._opener.drop(ref)
        self.uncleanable.pop(ref, None)
        shard = self._shards.pop((ref.topic, ref.partition), None)
        if shard is not None:
            shard.resign()

    async def hand_over(self, ref: PartitionRef) -> None:
        """Ends the claim of a partition that another process will lead: everything that was appended is settled first.

        Requests find no leader here from the first moment on. Raises StorageError if the store cannot be reached.
        """
        self._opener.drop(ref)
        self.uncleanable.pop(ref, None)
        shard = self._shards.pop((ref.topic, ref.partition), None)
        if shard is None:
            return
        shard.release_waiters()
        await settled(shard.log.flush())
        try:
            await settled(shard.save())
        except StorageError as error:
            _log_unsaved(shard, error)
        shard.resign()
        await settled(shard.log.close())

    def forget_topic(self, topic: Topic) -> None:
        """Gives up the partitions of a topic that is about to be deleted."""
        for shard in self.open_shards():
            if shard.log.ref.topic_id == topic.topic_id:
                self.discard(shard)
                shard.resign()
        for partition in range(topic.partition_count):
            ref = PartitionRef(topic.name, partition, topic.topic_id)
            self._opener.drop(ref)
            self.uncleanable.pop(ref, None)
        self._options.forget_topic(topic)

    def release_waiters(self) -> None:
        """Answers every parked fetch with the records that it has."""
        for shard in self.open_shards():
            shard.release_waiters()

    def end(self) -> None:
        """Gives up all partitions as a kill would: nothing is saved."""
        self._is_ended = True
        self._opener.stop()
        shards = self.open_shards()
        self._shards.clear()
        for shard in shards:
            shard.resign()

    def close(self) -> None:
        """Saves the state of every partition; the engine then closes all of them together."""
        self._opener.stop()
        for shard in self.open_shards():
            shard.release_waiters()
            _save(shard, shard.save_at_close)
        self._shards.clear()


def _save(shard: Shard, save: Callable[[], object]) -> None:
    """Saves a snapshot for the next claim; if that fails, the claim takes longer, and nothing is lost."""
    try:
        save()
    except StorageError as error:
        _log_unsaved(shard, error)


def _log_unsaved(shard: Shard, error: StorageError) -> None:
    ref = shard.log.ref
    logger.error(
        "partition_not_saved",
        "partition %(topic)s-%(partition)d was not saved: %(reason)s",
        topic=ref.topic,
        partition=ref.partition,
        reason=str(error),
    )
