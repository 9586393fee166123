"""Leaders among brokers that share a store: who holds the lease of a partition leads it.

Any broker can lead any partition. Which one should is in `ottla.core.leader_balance`; `lease_keeper.py` claims and
releases partitions accordingly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol
from uuid import UUID

from ottla.broker.leaders.leader_epochs import UNKNOWN_EPOCH
from ottla.broker.leaders.leaders import DeletionParts, Placement
from ottla.broker.members import BrokerRegistration, Member, Members
from ottla.broker.requests.gather_responses import NowOrLater
from ottla.core.catalog import GROUPS_TOPIC, Catalog, Topic
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.events import EventLog
from ottla.model import NO_LEADER, Endpoint
from ottla.ports import PartitionRef, StorageError
from ottla.ports.leases import Holding, Leases

logger = EventLog(__name__)


class InsideAddresses(Protocol):
    """Addresses, in this process, of brokers of other processes."""

    def endpoint(self, node_id: int, kind: str) -> Endpoint: ...


class LeasedLeaders:
    """Implements Leaders. This process has one node; what the others are and hold, the leases tell."""

    def __init__(self, leases: Leases, members: Members, catalog: Catalog) -> None:
        self.leases = leases
        self._members = members
        self._catalog = catalog
        # As of the last change of members: responses with many partitions ask for them again and again.
        self._known: list[int] = []
        self._live: list[int] = []
        self._racks: dict[int, str | None] = {}
        # Partitions that this node is about to release.
        self.leaving: set[PartitionRef] = set()
        # Called when partitions were created, and asked to have others lead some.
        self.grown: Callable[[], None] = lambda: None
        # Where clients of this process find other brokers, by the kind of client.
        self.inside: Mapping[str, InsideAddresses] = {}
        self.give: Callable[[Sequence[tuple[PartitionRef, int]]], None] = lambda moves: None

    def members_changed(self) -> None:
        """Tells clients' side of the cluster which brokers there are."""
        members = self.leases.members()
        self._known = [each.node_id for each in members]
        self._live = [each.node_id for each in members if each.is_live]
        self._racks = {each.node_id: each.rack for each in members}
        self._members.register(
            BrokerRegistration(
                each.node_id,
                each.addresses.endpoints,
                {**each.addresses.advertised, **self._inside(each.node_id)},
                each.is_live,
            )
            for each in members
            if each.node_id != self.leases.node_id
        )

    def _inside(self, node_id: int) -> dict[str, Endpoint]:
        return {kind: found.endpoint(node_id, kind) for kind, found in self.inside.items()}

    # Nodes.

    @property
    def registered(self) -> Collection[int]:
        return self._known

    @property
    def placeable(self) -> list[int]:
        return list(self._live)

    @property
    def copies(self) -> int:
        return max(1, len(self._live))

    def rack_of(self, node_id: int) -> str | None:
        return self._racks.get(node_id)

    def join(self, node: Member) -> None:
        assert node.node_id == self.leases.node_id
        self._members.add(node)

    def lose(self, node: Member) -> None:
        node.partitions.end()

    def unregister(self, node_id: int) -> NowOrLater[Refused | None]:
        if self._members.is_present(node_id):
            return Refused(
                ErrorCode.INVALID_REQUEST, f"Broker ID {node_id} is running: stop it first"
            )
        return asyncio.ensure_future(self._forget(node_id))

    async def _forget(self, node_id: int) -> Refused | None:
        try:
            is_forgotten = await self.leases.forget_node(node_id)
        except StorageError as error:
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        if not is_forgotten:
            return Refused(ErrorCode.INVALID_REQUEST, f"Broker ID {node_id} is running again")
        logger.info("broker_unregistered", "broker %(broker)d is unregistered", broker=node_id)
        return None

    # Leaders.

    def _holding(self, topic: Topic, partition: int) -> Holding | None:
        return self.leases.holding(PartitionRef(topic.name, partition, topic.topic_id))

    def leader_of(self, topic: Topic, partition: int) -> int:
        ref = PartitionRef(topic.name, partition, topic.topic_id)
        holding = self.leases.holding(ref)
        if holding is None or not holding.is_held:
            return NO_LEADER
        if holding.node_id == self.leases.node_id:
            return holding.node_id if holding.is_own and ref not in self.leaving else NO_LEADER
        return holding.node_id

    def leader_epoch(self, topic: Topic, partition: int) -> int:
        holding = self._holding(topic, partition)
        return UNKNOWN_EPOCH if holding is None else holding.epoch

    def preferred_leader_of(self, topic: Topic, partition: int) -> int:
        """The first live replica that a client chose, else the leader that there is."""
        chosen = topic.assignments[partition] if partition < len(topic.assignments) else ()
        live = (node_id for node_id in chosen if self._members.is_present(node_id))
        return next(live, self.leader_of(topic, partition))

    def check_moves(self) -> None:
        """Every broker can lead every partition."""

    def move_all(self, moves: Sequence[tuple[Topic, int, int]]) -> None:
        """Releases partitions of this node for others; each broker does that with its own."""
        self.give(
            [
                (PartitionRef(topic.name, partition, topic.topic_id), node_id)
                for topic, partition, node_id in moves
                if self.leader_of(topic, partition) == self.leases.node_id
            ]
        )

    def claimed(self, ref: PartitionRef, epoch: int) -> None:
        """The others learn it from the leases."""

    # What clients see.

    def place(self, topic: Topic, partition: int) -> Placement:
        """The leader comes first. The store has the copies, so every live broker is in sync."""
        ref = PartitionRef(topic.name, partition, topic.topic_id)
        leader_id = self.leader_of(topic, partition)
        epoch = self.leader_epoch(topic, partition)
        replicas = self._replicas(topic, partition, leader_id)
        here = self._members.here.get(leader_id)
        if leader_id == NO_LEADER or (here is not None and here.partitions.is_offline(ref)):
            error = ErrorCode.LEADER_NOT_AVAILABLE
            return Placement(error, NO_LEADER, epoch, replicas, replicas, replicas)
        in_sync = [node_id for node_id in replicas if self._members.is_present(node_id)]
        offline = [node_id for node_id in replicas if node_id not in in_sync]
        return Placement(ErrorCode.NONE, leader_id, epoch, replicas, in_sync, offline)

    def _replicas(self, topic: Topic, partition: int, leader_id: int) -> list[int]:
        chosen = topic.assignments[partition] if partition < len(topic.assignments) else ()
        known, live = self._known, self._live
        first = partition % max(1, len(live))
        order = [
            *([leader_id] if leader_id != NO_LEADER else ()),
            *(node_id for node_id in chosen if node_id in known),
            *live[first:],
            *live[:first],
            *known,
        ]
        return list(dict.fromkeys(order))[: topic.replication_factor]

    def has_replica(self, node_id: int, topic: Topic, partition: int) -> bool:
        return self.leader_of(topic, partition) == node_id

    def in_sync_count(self, topic: Topic, partition: int) -> int:
        """What is appended is durable in the store, however many brokers are live."""
        return topic.replication_factor

    # Topics.

    @property
    def deletion_parts(self) -> DeletionParts | None:
        """Groups forget a topic partition by partition of their topic, since a coordinator may move meanwhile."""
        groups = self._catalog.topics.get(GROUPS_TOPIC)
        if groups is None:
            return DeletionParts([], ())
        own_id = self.leases.node_id
        numbers = range(groups.partition_count)
        return DeletionParts(
            [each for each in numbers if self.leader_of(groups, each) == own_id], numbers
        )

    def place_new(self, topic: Topic, first_partition: int) -> None:
        self.grown()

    def forget(self, topic_id: UUID) -> None:
        self.leaving = {ref for ref in self.leaving if ref.topic_id != topic_id}
