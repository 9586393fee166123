"""The coordinators of one kind that a node runs: one for each partition of their internal topic that it leads."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from ottla.broker.cluster import Cluster
from ottla.broker.coordination.coordinator import (
    Coordinator,
    Parked,
    Settings,
    When,
    unchanged,
)
from ottla.broker.coordination.machine_log import EventCodec, Machine
from ottla.broker.loop.pause_aware_clock import Uptime
from ottla.broker.options import NodeOptions
from ottla.broker.partitions.led_partitions import LedPartitions
from ottla.broker.partitions.shard import Shard
from ottla.broker.requests.gather_responses import NowOrLater, then
from ottla.broker.topics import Topics
from ottla.core.catalog import NewTopic, Topic
from ottla.core.outcomes import Refused
from ottla.core.turn import Ticket, Turn
from ottla.errors import ErrorCode
from ottla.model import TopicPartition, coordinator_partition
from ottla.ports import DamagedError, monotonic_ms

M = TypeVar("M", bound=Machine)
T = TypeVar("T")
R = TypeVar("R")

MIN_REPLICAS = "min.insync.replicas"
# The first and the longest wait before a coordinator is loaded again whose log could not be read or written.
FIRST_REST_MS = 500
LAST_REST_MS = 8000
# The most partitions that `load_soon` looks at each time: a millisecond or two. Few topics have as many.
LOOKS = 1000


class Kind(NamedTuple, Generic[M]):
    """A kind of coordinators; `shape` is the internal topic that their partitions belong to."""

    shape: NewTopic
    machine: Callable[[], M]
    codec: EventCodec
    read_bytes: int
    write_timeout_ms: int


class Rest(NamedTuple):
    """The wait of a coordinator after a failure."""

    until_ms: int
    wait_ms: int


def _no_effects(coordinator: Coordinator[Any], effect: Any) -> None:
    raise AssertionError(f"no effects are expected, but here is {effect!r}")


def _partition_of(key: str, topic: Topic | Refused) -> TopicPartition | Refused:
    if isinstance(topic, Refused):
        return topic
    return TopicPartition(topic.name, coordinator_partition(key, topic.partition_count))


class Coordinators(Generic[M]):
    """A coordinator is loaded when it is first needed, and ends when its partition is led elsewhere."""

    def __init__(
        self,
        kind: Kind[M],
        *,
        cluster: Cluster,
        topics: Topics,
        partitions: LedPartitions,
        options: NodeOptions,
        uptime: Uptime,
        check_lease: Callable[[], None] = lambda: None,
        perform: Callable[[Coordinator[M], Any], None] = _no_effects,
        prepare: Callable[[Coordinator[M]], None] = lambda coordinator: None,
    ) -> None:
        """`prepare` is called with every coordinator before its first request.

        `check_lease` calls `suspend` or `resume` if the lease of the node has passed or was renewed.
        """
        self._cluster = cluster
        self._topics = topics
        self._partitions = partitions
        self._options = options
        self._uptime = uptime
        self._check_lease = check_lease
        self._perform = perform
        self._prepare = prepare
        self._kind = kind
        self.event_counts: Counter[str] = Counter()
        self._loaded: dict[int, Coordinator[M]] = {}
        # Those that may be asked: none while another node may have taken their partitions.
        self._usable: Mapping[int, Coordinator[M]] = self._loaded
        self._rests: dict[int, Rest] = {}
        # Partitions whose log cannot be replayed, and the epoch of the claim in which that was found.
        self._failed: dict[int, int] = {}
        self._to_load: deque[int] = deque()
        self._looked_at = 0  # where `load_soon` goes on

    @property
    def topic_name(self) -> str:
        return self._kind.shape.name

    @property
    def topic(self) -> Topic | None:
        return self._cluster.catalog.topics.get(self.topic_name)

    def partition_of(self, key: str) -> NowOrLater[TopicPartition | Refused]:
        """The partition that has a group or transactional id; its topic is created if this is the first use."""
        topic = self.topic
        if topic is not None:
            return _partition_of(key, topic)
        return then(self._make_topic(), partial(_partition_of, key))

    def _make_topic(self) -> NowOrLater[Topic | Refused]:
        live = self._cluster.copies
        shape = self._kind.shape
        config = dict(shape.config)
        if MIN_REPLICAS in config:
            config[MIN_REPLICAS] = str(min(int(config[MIN_REPLICAS]), live))
        replicas = min(shape.replication_factor, live)
        fitting = shape._replace(replication_factor=replicas, config=config)
        return then(self._topics.create([fitting]), self._made)

    def _made(self, created: list[Topic | Refused]) -> Topic | Refused:
        """The topic, which another node may have created meanwhile."""
        (made,) = created
        return made if isinstance(made, Topic) else self.topic or made

    def ask(
        self,
        key: str,
        decide: Callable[[M, Turn, Ticket], T | Refused | Parked],
        respond: Callable[[T | Refused], R],
        when: When = When.SOON,
    ) -> NowOrLater[R]:
        """Lets the coordinator of a group or transactional id decide, if it is on this node (`Coordinator.ask`)."""
        coordinator = self.find(key)
        if isinstance(coordinator, Refused):
            return respond(coordinator)
        return coordinator.ask(decide, respond, when)

    def find(self, key: str) -> Coordinator[M] | Refused:
        """The coordinator of a group or transactional id, or the error for a client that asks the wrong node."""
        topic = self.topic
        if topic is None:
            return Refused(ErrorCode.NOT_COORDINATOR)
        partition = coordinator_partition(key, topic.partition_count)
        if self._lacks_replicas(topic, partition):
            return Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self._of_partition(partition)

    def _lacks_replicas(self, topic: Topic, partition: int) -> bool:
        """Whether fewer nodes are live than `min.insync.replicas` of the topic asks for."""
        wanted = self._options.topic_config(topic).min_insync_replicas
        return wanted > 1 and wanted > self._cluster.in_sync_count(topic, partition)

    def _of_partition(self, partition: int) -> Coordinator[M] | Refused:
        found = self._usable.get(partition)
        return found if found is not None else self._load(partition)

    def suspend(self) -> None:
        """Has no coordinator answer: another node may have other answers by now."""
        self._usable = {}

    def resume(self) -> None:
        self._usable = self._loaded
        # What has become due meanwhile.
        asyncio.get_running_loop().call_soon(self.wake)

    def _may_decide(self) -> bool:
        # A process that stood still may get here first when it goes on.
        self._check_lease()
        return self._usable is self._loaded

    def _load(self, partition: int) -> Coordinator[M] | Refused:
        if self._usable is not self._loaded:
            return Refused(ErrorCode.NOT_COORDINATOR)
        rest = self._rests.get(partition)
        if rest is not None and self._now_ms() < rest.until_ms:
            return Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        shard = self._partitions.shard(self.topic_name, partition)
        if not isinstance(shard, Shard):
            topic = self.topic
            if topic is not None and self._partitions.is_replaying(topic, partition):
                return Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            is_offline = shard is ErrorCode.KAFKA_STORAGE_ERROR
            return Refused(
                ErrorCode.COORDINATOR_NOT_AVAILABLE if is_offline else ErrorCode.NOT_COORDINATOR
            )
        if self._failed.get(partition) == shard.partition.leader_epoch:
            return Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        settings = Settings(
            self._kind.codec,
            self._cluster.clock,
            self._uptime,
            self._kind.read_bytes,
            self._kind.write_timeout_ms,
            self.event_counts,
            self._perform,
            self._rest,
            self._fail,
            self._may_decide,
            self._take_offline,
        )
        made = Coordinator(shard, self._kind.machine(), settings, self._discard)
        if made.is_gone:
            return Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self._loaded[partition] = made
        self._prepare(made)
        return made

    def _rest(self, coordinator: Coordinator[M]) -> None:
        """Loads the coordinator only after a wait, which grows with repeated failures."""
        partition = coordinator.shard.log.ref.partition
        now_ms = self._now_ms()
        last = self._rests.get(partition)
        wait_ms = FIRST_REST_MS
        if last is not None and now_ms < last.until_ms + LAST_REST_MS:
            wait_ms = min(2 * last.wait_ms, LAST_REST_MS)
        self._rests[partition] = Rest(now_ms + wait_ms, wait_ms)

    def _fail(self, coordinator: Coordinator[M]) -> None:
        """Does not load the coordinator before its partition is claimed again: the log stays the same until then."""
        self._failed[coordinator.shard.log.ref.partition] = coordinator.epoch

    def _take_offline(self, coordinator: Coordinator[M], error: DamagedError) -> None:
        self._partitions.take_offline(coordinator.shard, error)

    @property
    def failed(self) -> list[int]:
        """The partitions whose coordinator cannot be loaded, which is not tried again."""
        shards = {key: self._partitions.open_shard(self.topic_name, key) for key in self._failed}
        return [
            partition
            for partition, shard in shards.items()
            if shard is not None and shard.partition.leader_epoch == self._failed[partition]
        ]

    def _now_ms(self) -> int:
        return monotonic_ms(self._cluster.clock)

    def _discard(self, coordinator: Coordinator[M]) -> None:
        partition = coordinator.shard.log.ref.partition
        if self._loaded.get(partition) is coordinator:
            del self._loaded[partition]

    def loaded(self, partition: int) -> Coordinator[M] | None:
        """The coordinator of a partition, if it was made already."""
        return self._loaded.get(partition)

    def loaded_for(self, key: str) -> Coordinator[M] | None:
        """The coordinator of a group or transactional id, if it was made already and may be asked."""
        topic = self.topic
        if topic is None:
            return None
        return self._usable.get(coordinator_partition(key, topic.partition_count))

    def machines(self) -> list[M]:
        """The machines of all loaded coordinators."""
        return [loaded.machine for loaded in self._loaded.values() if loaded.is_loaded]

    def wake(self) -> None:
        """Has every coordinator do what is due (`Coordinator.wake`)."""
        for coordinator in list(self._loaded.values()):
            coordinator.wake()

    def load_soon(self) -> None:
        """Loads the coordinators of partitions that this node leads, one after the other between requests.

        They are needed before the first request: only a coordinator notices that members are gone.
        """
        topic = self.topic
        if self._to_load or topic is None:
            return
        count = topic.partition_count
        for partition in range(self._looked_at, self._looked_at + min(count, LOOKS)):
            if partition % count not in self._loaded and self._partitions.leads_records_of(
                topic, partition % count
            ):
                self._to_load.append(partition % count)
        self._looked_at = (self._looked_at + LOOKS) % count if count > LOOKS else 0
        if self._to_load:
            asyncio.get_running_loop().call_soon(self._load_next)

    def _load_next(self) -> None:
        partition = self._to_load.popleft()
        if self._to_load:
            asyncio.get_running_loop().call_soon(self._load_next)
        if partition not in self._loaded:
            self._load(partition)

    def load_all(self) -> list[Coordinator[M] | Refused]:
        """Every coordinator of this node whose log has records, or why it cannot be loaded; replays may not be over."""
        return [self._of_partition(partition) for partition in self._led()]

    def _led(self) -> list[int]:
        topic = self.topic
        if topic is None:
            return []
        return [
            partition
            for partition in range(topic.partition_count)
            if partition in self._loaded or self._partitions.leads_records_of(topic, partition)
        ]

    def ask_all(self, decide: Callable[[M, Turn], T]) -> list[NowOrLater[T | Refused]]:
        """Lets the machine of every coordinator of this node decide; returns a result or a `Refused` for each."""
        return [
            found
            if isinstance(found, Refused)
            else found.ask(lambda machine, turn, _: decide(machine, turn), unchanged, When.LOADED)
            for found in self.load_all()
        ]
