"""Assignors: the rebalance protocol of a member, and what the leader of a group assigns from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from ottla.client.state.metadata import ClusterMetadata
from ottla.core.assignors import model as assigning
from ottla.core.assignors.model import Assignment, Assignor, RebalanceProtocol, Subscription
from ottla.core.assignors.protocol import decode_assignment, decode_subscription
from ottla.core.assignors.ranges import RangeAssignor
from ottla.core.assignors.round_robin import RoundRobinAssignor
from ottla.core.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from ottla.errors import ConfigError, ErrorCode, FatalError, IllegalStateError
from ottla.model import TopicPartition
from ottla.wire.messages.join_group import JoinGroupResponseMember
from ottla.wire.types import MalformedMessageError

# They assign only topics that members subscribe to, so that the leader need not follow further topics.
_BUILT_IN: Final = (
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    CooperativeStickyAssignor,
)

# The shortest assignment is its version number.
_SHORTEST_ASSIGNMENT_BYTES: Final = 2

Racks = tuple[frozenset[str], ...]
"""The racks of the replicas of each partition of a topic."""


def rebalance_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """The most advanced protocol that all assignors work with (KIP-429)."""
    shared = [
        protocol
        for protocol in RebalanceProtocol
        if all(protocol in _protocols(assignor) for assignor in assignors)
    ]
    if not assignors or not shared:
        names = ", ".join(assignor.name for assignor in assignors) or "nothing"
        raise ConfigError(
            f"partition.assignment.strategy names {names}: "
            "there must be an assignor, and a rebalance protocol that all of them work with"
        )
    return max(shared)


def _protocols(assignor: Assignor) -> Collection[RebalanceProtocol]:
    # An assignor of the program need not have all methods of Assignor.
    return getattr(assignor, "protocols", (RebalanceProtocol.EAGER,))


def user_data_of(assignor: Assignor) -> Callable[[Collection[str]], bytes | None]:
    """The function that makes the user data of a subscription."""
    return getattr(assignor, "subscription_user_data", lambda topics: None)


def on_assignment_of(assignor: Assignor) -> Callable[[Assignment, int], None]:
    """The function that the assignor wants called after an assignment."""
    return getattr(assignor, "on_assignment", lambda assignment, generation_id: None)


def elected_assignor(assignors: Sequence[Assignor], name: str | None) -> Assignor:
    """The assignor that the coordinator has chosen; FatalError if this consumer does not have it."""
    for assignor in assignors:
        if assignor.name == name:
            return assignor
    ours = ", ".join(assignor.name for assignor in assignors)
    raise FatalError(
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        f"The group uses the assignor {name!r}, and this consumer has {ours}: "
        "add it to partition.assignment.strategy.",
        {"api": "JoinGroup"},
    )


def subscriptions_of(members: Sequence[JoinGroupResponseMember]) -> dict[str, Subscription]:
    """The subscriptions of all members, by member id."""
    found = {}
    for member in members:
        try:
            found[member.member_id] = decode_subscription(member.metadata, member.group_instance_id)
        except (MalformedMessageError, ValueError) as error:
            raise FatalError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"The subscription of member {member.member_id} cannot be read: {error}",
                {"api": "JoinGroup"},
            ) from error
    return found


def topics_of(subscriptions: Mapping[str, Subscription]) -> list[str]:
    """The topics of all members."""
    return list(dict.fromkeys(topic for each in subscriptions.values() for topic in each.topics))


def topics_to_watch(
    assignor: Assignor, shares: Mapping[str, Assignment], topics: Collection[str]
) -> list[str]:
    """The topics of the group, and topics that an assignor of the program has assigned in addition."""
    if isinstance(assignor, _BUILT_IN):
        return list(topics)
    assigned = (tp.topic for share in shares.values() for tp in share.partitions)
    return list(dict.fromkeys([*topics, *assigned]))


def assignable(cluster: ClusterMetadata) -> dict[str, list[assigning.PartitionInfo]]:
    """The topics of the cluster, as assignors take them."""
    return {
        topic.name: [
            assigning.PartitionInfo(state.partition, _racks(cluster, state.replicas))
            for state in topic.partitions
        ]
        for topic in cluster.topics.values()
    }


def _racks(cluster: ClusterMetadata, replicas: Sequence[int]) -> tuple[str, ...]:
    nodes = (cluster.nodes.get(replica) for replica in replicas)
    return tuple(dict.fromkeys(node.rack for node in nodes if node is not None and node.rack))


def snapshot(
    cluster: ClusterMetadata, topics: Collection[str], client_rack: str | None
) -> dict[str, Racks]:
    """The part of the metadata that an assignment depends on: if it changes, the leader joins again (KIP-881)."""
    found: dict[str, Racks] = {}
    for name in topics:
        topic = cluster.topics.get(name)
        if topic is not None:
            found[name] = tuple(
                frozenset(_racks(cluster, state.replicas) if client_rack else ())
                for state in topic.partitions
            )
    return found


def check_cooperative(
    subscriptions: Mapping[str, Subscription], shares: Mapping[str, Assignment]
) -> None:
    """Raise if a partition gets a new owner while its old owner still has it (KIP-429)."""
    taken: dict[TopicPartition, None] = {}
    added: dict[TopicPartition, None] = {}
    for member, share in shares.items():
        owned = subscriptions[member].owned_partitions if member in subscriptions else ()
        taken.update(dict.fromkeys(tp for tp in owned if tp not in share.partitions))
        added.update(dict.fromkeys(tp for tp in share.partitions if tp not in owned))
    moved = [str(partition) for partition in added if partition in taken]
    if moved:
        raise IllegalStateError(
            "the assignor works with the cooperative protocol and assigns partitions to new owners at once, "
            f"while others still have them: {', '.join(moved)}"
        )


def read_assignment(group_id: str, data: bytes) -> Assignment:
    """The assignment of this member."""
    if len(data) < _SHORTEST_ASSIGNMENT_BYTES:
        raise IllegalStateError(
            f"the leader of group {group_id} gave this member no assignment at all: "
            "its assignor has to answer for every member"
        )
    return decode_assignment(data)
