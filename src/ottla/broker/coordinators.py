"""The coordinators of one kind that a node runs: one for each partition of their internal topic that it leads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ottla.broker.coordinator import Coordinator, EventCodec, Machine, Settings
from ottla.broker.shard import Shard
from ottla.core.catalog import NewTopic, Refused, Topic
from ottla.core.turn import Turn
from ottla.errors import ErrorCode
from ottla.model import coordinator_partition

if TYPE_CHECKING:
    from ottla.broker.node import Node

M = TypeVar("M", bound=Machine)

MIN_REPLICAS = "min.insync.replicas"


class Kind(NamedTuple, Generic[M]):
    """What a sort of coordinator is made of; `shape` is the topic that its partitions belong to."""

    shape: NewTopic
    machine: Callable[[], M]
    codec: EventCodec
    read_bytes: int
    write_timeout_ms: int


def _nothing(coordinator: Coordinator[Any], effect: Any) -> None:
    raise AssertionError(f"nobody does {effect!r}")


class Coordinators(Generic[M]):
    """A coordinator is loaded when it is first needed, and gone when its partition is led elsewhere."""

    def __init__(
        self,
        node: Node,
        kind: Kind[M],
        perform: Callable[[Coordinator[M], Any], None] = _nothing,
    ) -> None:
        self._node = node
        self._perform = perform
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
        config = dict(shape.config)
        if MIN_REPLICAS in config:
            config[MIN_REPLICAS] = str(min(int(config[MIN_REPLICAS]), live))
        replicas = min(shape.replication_factor, live)
        fitting = shape._replace(replication_factor=replicas, config=config)
        return self._node.create_topics([fitting])[0]

    def find(self, key: str) -> Coordinator[M] | ErrorCode:
        """The coordinator of a group or transactional id, or what to tell a client that asks the wrong node."""
        topic = self.topic
        if topic is None:
            return ErrorCode.NOT_COORDINATOR
        partition = coordinator_partition(key, topic.partition_count)
        if self._lacks_replicas(topic, partition):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self._of_partition(partition)

    def _lacks_replicas(self, topic: Topic, partition: int) -> bool:
        """Whether fewer nodes are there than `min.insync.replicas` of the topic asks for."""
        wanted = self._node.topic_config(topic).min_insync_replicas
        return wanted > 1 and wanted > len(self._node.cluster.place(topic, partition).in_sync)

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
            self._perform,
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

    def loaded(self, partition: int) -> Coordinator[M] | None:
        """The coordinator of a partition, if it is there already."""
        return self._loaded.get(partition)

    def load_all(self) -> list[Coordinator[M] | ErrorCode]:
        """Every coordinator here that has something to say, or why it cannot; their replays may not be over.

        Whoever leads a partition has to load it although nobody asks: it is the one to notice that members are gone.
        """
        topic = self.topic
        if topic is None:
            return []
        return [
            self._of_partition(partition)
            for partition in range(topic.partition_count)
            if partition in self._loaded or self._node.leads_records_of(topic, partition)
        ]

    def ask_all(self, decide: Callable[[M, Turn], Any]) -> list[asyncio.Future[Any] | ErrorCode]:
        """Has every machine here decide; what comes of it is a result, or an ErrorCode, for each."""
        return [
            found if isinstance(found, ErrorCode) else found.ask_when_loaded(decide)
            for found in self.load_all()
        ]
