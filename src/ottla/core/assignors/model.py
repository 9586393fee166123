"""Assignors: their interface, their input (subscriptions) and their output (assignments)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

from ottla.core.assignors.java_order import hash_map_order, text_order
from ottla.model import TopicPartition

NO_GENERATION = -1
"""The generation of a member that has never been in the group, or does not say."""


class RebalanceProtocol(IntEnum):
    """Whether a member revokes its partitions before it joins again (KIP-429)."""

    EAGER = 0
    COOPERATIVE = 1


class PartitionInfo(NamedTuple):
    """A partition, and the racks of its replicas as far as they are known."""

    partition: int
    racks: tuple[str, ...] = ()


Cluster = Mapping[str, Sequence[PartitionInfo]]
"""The partitions of each topic."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member sends to the leader of its group."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int = NO_GENERATION
    rack_id: str | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """The partitions that the leader assigns to a member."""

    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None


class Assignor(Protocol):
    """Assigns partitions to the members of a group: inherit from it, or define the same methods.

    Each member has its own assignor; the leader calls `assign` of its own. `subscription_user_data` is called before
    the member joins, `on_assignment` when it has its assignment.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that the members of a group agree on."""

    @property
    def protocols(self) -> tuple[RebalanceProtocol, ...]:
        """The rebalance protocols that it works with."""
        return (RebalanceProtocol.EAGER,)

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """User data of this member for the assignor of the leader."""
        del topics
        return None

    @abstractmethod
    def assign(
        self, cluster: Cluster, subscriptions: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        """The assignment of every member, by its id."""

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        """The member has this assignment in this generation."""
        del assignment, generation_id


def members_in_order(subscriptions: Mapping[str, Subscription]) -> list[str]:
    """The ids of the members, in an order that depends only on the ids."""
    return hash_map_order(sorted(subscriptions, key=text_order))


def members_by_name(subscriptions: Mapping[str, Subscription]) -> list[str]:
    """Static members by their instance ids, then the others by their member ids."""

    # Static members keep their place, and so their partitions, when they come back with another
    # member id (KIP-345).
    def place(member: str) -> tuple[bool, bytes]:
        instance = subscriptions[member].group_instance_id
        return instance is None, text_order(member if instance is None else instance)

    return sorted(members_in_order(subscriptions), key=place)


def topics_to_assign(
    cluster: Cluster, subscriptions: Mapping[str, Subscription]
) -> dict[str, list[PartitionInfo]]:
    """The partitions of the existing topics to which a member subscribes."""
    wanted = hash_map_order(
        topic
        for member in members_in_order(subscriptions)
        for topic in subscriptions[member].topics
    )
    existing = hash_map_order(topic for topic in wanted if cluster.get(topic))
    return {topic: sorted(cluster[topic]) for topic in existing}


def assignments(shares: Mapping[str, Collection[TopicPartition]]) -> dict[str, Assignment]:
    """The assignments of an assignor without user data."""
    return {member: Assignment(tuple(shares[member])) for member in sorted(shares)}
