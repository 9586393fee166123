"""Leaders among nodes that have a store and a process each: a partition is led by the node whose store has it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from ottla.broker.leaders.leader_epochs import UNKNOWN_EPOCH, LeaderEpochs
from ottla.broker.leaders.leaders import DeletionParts, Placement
from ottla.broker.members import Member, Members
from ottla.core.catalog import Topic
from ottla.core.leadership import Owners
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode, IllegalStateError
from ottla.model import NO_LEADER
from ottla.ports import LogStore, PartitionRef


class LeadersWithOwnStores:
    """Implements Leaders. This process has one of the nodes; what the others are, and their epochs, it is told."""

    def __init__(self, store: LogStore, members: Members, owners: Owners) -> None:
        self._members = members
        self._owners = owners
        self.epochs = LeaderEpochs(store)

    # Nodes.

    @property
    def registered(self) -> Collection[int]:
        return self._owners.node_ids

    @property
    def placeable(self) -> list[int]:
        return list(self._owners.node_ids)

    @property
    def copies(self) -> int:
        return 1

    def rack_of(self, node_id: int) -> str | None:
        return None

    def join(self, node: Member) -> None:
        assert node.node_id in self._owners.node_ids
        self._members.add(node)

    def lose(self, node: Member) -> None:
        node.partitions.end()

    def unregister(self, node_id: int) -> Refused | None:
        return Refused(
            ErrorCode.INVALID_REQUEST,
            f"Broker ID {node_id} is a worker: its partitions wait until it is started again",
        )

    # Leaders.

    def _owner_of(self, topic: Topic, partition: int) -> int:
        return self._owners.owner_of(topic.name, partition, topic.assignments)

    def leader_of(self, topic: Topic, partition: int) -> int:
        owner = self._owner_of(topic, partition)
        return owner if self._members.is_present(owner) else NO_LEADER

    def leader_epoch(self, topic: Topic, partition: int) -> int:
        ref = PartitionRef(topic.name, partition, topic.topic_id)
        owner = self._owner_of(topic, partition)
        if owner in self._members.here:
            return self.epochs.of_own(ref)
        return self.epochs.of_node(owner, ref)

    def preferred_leader_of(self, topic: Topic, partition: int) -> int:
        return self._owner_of(topic, partition)

    def check_moves(self) -> None:
        raise IllegalStateError("a partition stays with its worker, which has its data")

    def move_all(self, moves: Sequence[tuple[Topic, int, int]]) -> None:
        assert not moves, "the preferred leader is the only one that there can be"

    def claimed(self, ref: PartitionRef, epoch: int) -> None:
        self.epochs.claimed(ref, epoch)

    # What clients see.

    def place(self, topic: Topic, partition: int) -> Placement:
        """An owner that is started again stays the leader: its clients wait at its port, and go on when it serves."""
        owner, replica_ids = self._owners.place(topic, partition)
        ref = PartitionRef(topic.name, partition, topic.topic_id)
        replicas = list(replica_ids)
        epoch = self.leader_epoch(topic, partition)
        here = self._members.here.get(owner)
        is_offline = here is not None and here.partitions.is_offline(ref)
        if is_offline or epoch == UNKNOWN_EPOCH or not self._members.is_present(owner):
            error = ErrorCode.LEADER_NOT_AVAILABLE
            return Placement(error, NO_LEADER, epoch, replicas, replicas, replicas)
        # The others have no data that could be out of sync.
        return Placement(ErrorCode.NONE, owner, epoch, replicas, replicas, [])

    def has_replica(self, node_id: int, topic: Topic, partition: int) -> bool:
        return self._owner_of(topic, partition) == node_id

    def in_sync_count(self, topic: Topic, partition: int) -> int:
        """All replicas are one copy."""
        return topic.replication_factor

    # Topics.

    @property
    def deletion_parts(self) -> DeletionParts | None:
        """Each node removes the data of its store, and has its groups forget."""
        return DeletionParts(list(self._members.here), self._owners.node_ids)

    def place_new(self, topic: Topic, first_partition: int) -> None:
        """Owners follow from the name of the topic."""

    def forget(self, topic_id: UUID) -> None:
        self.epochs.forget(topic_id)
