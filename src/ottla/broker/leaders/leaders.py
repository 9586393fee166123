"""What a cluster asks about the leaders of its partitions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

from ottla.broker.members import Member
from ottla.broker.requests.gather_responses import NowOrLater
from ottla.core.catalog import Topic
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.ports import PartitionRef


class Placement(NamedTuple):
    """The leader and the replicas of a partition, as Metadata describes them."""

    error: ErrorCode
    leader_id: int
    leader_epoch: int
    replicas: list[int]
    in_sync: list[int]
    offline: list[int]


class Led(NamedTuple):
    """The leader and the leader epoch of a partition at some moment."""

    topic: Topic
    partition: int
    leader_id: int
    epoch: int


class DeletionParts(NamedTuple):
    """The numbered parts of the work that a deleted topic leaves: those of this process, and all."""

    here: list[int]
    of_all: Sequence[int]


class Leaders(Protocol):
    """Topics and partitions that it is given exist; `Cluster` checks that."""

    # Nodes.

    @property
    def registered(self) -> Collection[int]:
        """The live nodes, and those that were lost and may come back."""
        ...

    @property
    def placeable(self) -> list[int]:
        """The nodes that can be replicas of new partitions."""
        ...

    @property
    def copies(self) -> int:
        """The number of replicas that internal topics can have."""
        ...

    def rack_of(self, node_id: int) -> str | None:
        """The rack of a node, if it is in one."""
        ...

    def join(self, node: Member) -> None:
        """A node of this process is about to serve."""
        ...

    def lose(self, node: Member) -> None:
        """A node of this process has ended as by a kill; it is no member any more."""
        ...

    def unregister(self, node_id: int) -> NowOrLater[Refused | None]:
        """Forgets a registered node that is not live: it is no replica any more."""
        ...

    # Leaders.

    def leader_of(self, topic: Topic, partition: int) -> int:
        """The node that leads a partition; NO_LEADER if no node is live that can."""
        ...

    def leader_epoch(self, topic: Topic, partition: int) -> int:
        """The epoch of a partition; lower than that of its leader if another process has not told it yet."""
        ...

    def preferred_leader_of(self, topic: Topic, partition: int) -> int:
        """The node that should lead a partition if it is live."""
        ...

    def check_moves(self) -> None:
        """Raises IllegalStateError where leaders do not move."""
        ...

    def move_all(self, moves: Sequence[tuple[Topic, int, int]]) -> None:
        """Makes live nodes lead partitions: (topic, partition, node)."""
        ...

    def claimed(self, ref: PartitionRef, epoch: int) -> None:
        """A node of this process has claimed a partition."""
        ...

    # What clients see.

    def place(self, topic: Topic, partition: int) -> Placement:
        """The leader and the replicas of a partition, for a client."""
        ...

    def has_replica(self, node_id: int, topic: Topic, partition: int) -> bool:
        """Whether a node has a partition in its log directory."""
        ...

    def in_sync_count(self, topic: Topic, partition: int) -> int:
        """The number that is compared with `min.insync.replicas`."""
        ...

    # Topics.

    @property
    def deletion_parts(self) -> DeletionParts | None:
        """How the work for deleted topics is divided among processes; None if this one does it all."""
        ...

    def place_new(self, topic: Topic, first_partition: int) -> None:
        """Partitions were created, beginning with the first."""
        ...

    def forget(self, topic_id: UUID) -> None:
        """A topic is deleted."""
        ...
