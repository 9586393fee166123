"""The coordinators of one kind that a node runs: one for each partition of their internal topic that it leads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from ottla.broker.coordinator import Coordinator, EventCodec, Machine, Settings
from ottla.broker.shard import Shard
from ottla.core.catalog import NewTopic, Refused, Topic
from ottla.errors import ErrorCode
from ottla.model import coordinator_partition
from ottla.ports import PartitionRef, StorageError

if TYPE_CHECKING:
    from ottla.broker.node import Node

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=Machine)


class Kind(NamedTuple, Generic[M]):
    """What a sort of coordinator is made of; `shape` is the topic that its partitions belong to."""

    shape: NewTopic
    machine: Callable[[], M]
    codec: EventCodec
    read_bytes: int
    write_timeout_ms: int


class Coordinators(Generic[M]):
    """A coordinator is loaded when it is first needed, and gone when its partition is led elsewhere."""

    def __init__(self, node: Node, kind: Kind[M]) -> None:
        self._node = node
        self._kind = kind
        self._loaded: dict[int, Coordinator[M]] = {}

    @property
    def topic_name(self) -> str:
        return self._kind.shape.name

    @property
    def topic(self) -> Topic | None:
        return self._node.cluster.catalog.topics.get(self.topic_name)

    def make_topic(self) -> Topic | Refused:
        """The internal topic, created if this is its first use."""
        topic = self.topic
        if topic is not None:
            return topic
        live = len(self._node.cluster.nodes)
        shape = self._kind.shape
        replicas = min(shape.replication_factor, live)
        return self._node.create_topics([shape._replace(replication_factor=replicas)])[0]

    def find(self, key: str) -> Coordinator[M] | ErrorCode:
        """The coordinator of a group or transactional id, or what to tell a client that asks the wrong node."""
        topic = self.topic
        if topic is None:
            return ErrorCode.NOT_COORDINATOR
        return self._of_partition(coordinator_partition(key, topic.partition_count))

    def _of_partition(self, partition: int) -> Coordinator[M] | ErrorCode:
        found = self._loaded.get(partition)
        return found if found is not None else self._load(partition)

    def _load(self, partition: int) -> Coordinator[M] | ErrorCode:
        shard = self._node.shard(self.topic_name, partition)
        if not isinstance(shard, Shard):
            offline = ErrorCode.COORDINATOR_NOT_AVAILABLE
            return offline if shard is ErrorCode.KAFKA_STORAGE_ERROR else ErrorCode.NOT_COORDINATOR
        settings = Settings(
            self._kind.codec,
            self._node.cluster.clock,
            self._node.uptime,
            self._kind.read_bytes,
            self._kind.write_timeout_ms,
        )
        made = Coordinator(shard, self._kind.machine(), settings, self._discard)
        if made.is_gone:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        self._loaded[partition] = made
        return made

    def _discard(self, coordinator: Coordinator[M]) -> None:
        partition = coordinator.shard.log.ref.partition
        if self._loaded.get(partition) is coordinator:
            del self._loaded[partition]

    def all(self) -> Iterator[Coordinator[M]]:
        """Every coordinator here that has something to say, loaded now if it was not; their replays may not be over."""
        topic = self.topic
        if topic is None:
            return
        for partition in range(topic.partition_count):
            if partition in self._loaded:
                yield self._loaded[partition]
            elif self._has_records(topic, partition):
                made = self._load(partition)
                if isinstance(made, Coordinator):
                    yield made

    def _has_records(self, topic: Topic, partition: int) -> bool:
        """Whether this node leads the partition and something is in it; an empty one is not opened for that."""
        cluster = self._node.cluster
        if cluster.leader_of(topic, partition) != self._node.node_id:
            return False
        if self._node.has_open(topic.name, partition):
            return True
        try:
            ref = PartitionRef(topic.name, partition, topic.topic_id)
            return cluster.store.idle_log(ref) is not None
        except StorageError as error:
            logger.error("partition %s-%d: %s", topic.name, partition, error)
            return False
