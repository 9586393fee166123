"""Leaders among nodes of one process, which share one store: any node can lead any partition."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from uuid import UUID

from ottla.broker.leaders.leaders import DeletionParts, Led, Placement
from ottla.broker.members import Member, Members
from ottla.core.catalog import Catalog, Topic
from ottla.core.leadership import Leadership
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.events import EventLog
from ottla.model import NO_LEADER
from ottla.ports import LogStore, PartitionRef, StorageError

logger = EventLog(__name__)


class LeadersOfOneProcess:
    """Implements Leaders."""

    def __init__(self, store: LogStore, members: Members, catalog: Catalog) -> None:
        self._store = store
        self._members = members
        self._catalog = catalog
        self._leadership = Leadership()

    # Nodes.

    @property
    def registered(self) -> Collection[int]:
        return self._leadership.known

    @property
    def placeable(self) -> list[int]:
        return list(self._members.here)

    @property
    def copies(self) -> int:
        return len(self._members.here)

    def rack_of(self, node_id: int) -> str | None:
        return None

    def join(self, node: Member) -> None:
        """Lets a node lead its share; at the start all nodes join before the first serves requests."""

        def add() -> None:
            self._leadership.add(node.node_id, self._catalog.topics.values())
            self._members.add(node)

        if self._leadership.known:
            self._hand_over(self._led(), add)
        else:
            add()

    def lose(self, node: Member) -> None:
        """Other nodes lead the partitions of a node that was killed."""

        def remove() -> None:
            self._leadership.remove(node.node_id)
            node.partitions.end()

        self._hand_over(self._led(), remove)

    def unregister(self, node_id: int) -> Refused | None:
        if self._members.is_present(node_id):
            return Refused(
                ErrorCode.INVALID_REQUEST, f"Broker ID {node_id} is running: stop it first"
            )
        self._leadership.retire(node_id, self._catalog.topics.values())
        logger.info("broker_unregistered", "broker %(broker)d is unregistered", broker=node_id)
        return None

    # Leaders.

    def leader_of(self, topic: Topic, partition: int) -> int:
        return self._leadership.leader_of(topic, partition)

    def leader_epoch(self, topic: Topic, partition: int) -> int:
        return self._store.epoch_of(PartitionRef(topic.name, partition, topic.topic_id))

    def preferred_leader_of(self, topic: Topic, partition: int) -> int:
        return self._leadership.preferred_leader_of(topic, partition)

    def check_moves(self) -> None:
        """Every node can lead every partition."""

    def move_all(self, moves: Sequence[tuple[Topic, int, int]]) -> None:
        """Moves leaders; the epochs of all of them rise, and the old leaders resign."""
        before = [self._led_now(topic, partition) for topic, partition, _ in moves]

        def move() -> None:
            for topic, partition, node_id in moves:
                self._leadership.move(topic, partition, node_id)

        self._hand_over(before, move)

    def claimed(self, ref: PartitionRef, epoch: int) -> None:
        """The store has the epochs of all nodes."""

    # What clients see.

    def place(self, topic: Topic, partition: int) -> Placement:
        ref = PartitionRef(topic.name, partition, topic.topic_id)
        leader_id, replica_ids = self._leadership.place(topic, partition)
        replicas = list(replica_ids)
        epoch = self._store.epoch_of(ref)
        nodes = self._members.here
        if leader_id == NO_LEADER or nodes[leader_id].partitions.is_offline(ref):
            error = ErrorCode.LEADER_NOT_AVAILABLE
            return Placement(error, NO_LEADER, epoch, replicas, replicas, replicas)
        if len(nodes) == len(self._leadership.known):
            return Placement(ErrorCode.NONE, leader_id, epoch, replicas, replicas, [])
        in_sync = [node_id for node_id in replicas if node_id in nodes]
        offline = [node_id for node_id in replicas if node_id not in nodes]
        return Placement(ErrorCode.NONE, leader_id, epoch, replicas, in_sync, offline)

    def has_replica(self, node_id: int, topic: Topic, partition: int) -> bool:
        return node_id in self.place(topic, partition).replicas

    def in_sync_count(self, topic: Topic, partition: int) -> int:
        """The live replicas; where there is one node, its copy stands for all.

        So a folder that several nodes have served can be served by one.
        """
        if len(self.registered) == 1:
            return topic.replication_factor
        return len(self.place(topic, partition).in_sync)

    # Topics.

    @property
    def deletion_parts(self) -> DeletionParts | None:
        return None

    def place_new(self, topic: Topic, first_partition: int) -> None:
        self._leadership.place_new(topic, first_partition)

    def forget(self, topic_id: UUID) -> None:
        self._leadership.forget(topic_id)

    # Changes of leaders.

    def _led_now(self, topic: Topic, partition: int) -> Led:
        leader_id = self.leader_of(topic, partition)
        return Led(topic, partition, leader_id, self.leader_epoch(topic, partition))

    def _led(self) -> list[Led]:
        return [
            self._led_now(topic, partition)
            for topic in self._catalog.topics.values()
            for partition in range(topic.partition_count)
        ]

    def _hand_over(self, before: Iterable[Led], change: Callable[[], None]) -> None:
        """Makes a change, has the old leaders of moved partitions resign, and raises all their epochs in one step.

        Clients accept a new leader only if its epoch is higher. The new leader claims a partition that is in use; the
        others get the higher epoch with their first claim.
        """
        change()
        moved = [led for led in before if self.leader_of(led.topic, led.partition) != led.leader_id]
        for led in moved:
            if led.leader_id in self._members.here:
                ref = PartitionRef(led.topic.name, led.partition, led.topic.topic_id)
                self._members.here[led.leader_id].partitions.resign(ref)
        unraised = [led for led in moved if self._has_old_epoch(led)]
        if unraised:
            refs = [
                PartitionRef(led.topic.name, led.partition, led.topic.topic_id) for led in unraised
            ]
            try:
                self._store.raise_epochs(refs)
            except StorageError as error:
                logger.error(
                    "leader_epoch_not_raised",
                    "clients may not learn of new leaders soon: %(reason)s",
                    reason=str(error),
                )
        for led in moved:
            leader_id = self.leader_of(led.topic, led.partition)
            logger.info(
                "leader_changed",
                "partition %(topic)s-%(partition)d: node %(leader)d leads it after %(leader_before)d",
                topic=led.topic.name,
                partition=led.partition,
                leader=leader_id,
                leader_before=led.leader_id,
            )
            if leader_id in self._members.here and self._has_old_epoch(led):
                self._members.here[leader_id].partitions.shard(led.topic.name, led.partition)

    def _has_old_epoch(self, led: Led) -> bool:
        return self.leader_epoch(led.topic, led.partition) <= led.epoch
