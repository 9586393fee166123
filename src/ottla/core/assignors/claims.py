"""The partitions that members owned before, where their claims contradict each other or the topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.core.assignors.model import NO_GENERATION, PartitionInfo, Subscription
from ottla.core.assignors.user_data import Claim
from ottla.model import TopicPartition

Topics = Mapping[str, list[PartitionInfo]]


@dataclass(slots=True)
class Owned:
    """The claims of the members that are accepted."""

    partitions: dict[str, dict[TopicPartition, None]] = field(default_factory=dict)
    """By member: no other member claims them, or only one of an older generation."""

    contested: dict[TopicPartition, None] = field(default_factory=dict)
    """Claimed by two members of one generation: neither owns them."""

    previous: dict[TopicPartition, str] = field(default_factory=dict)
    """The latest of the members that claimed a partition in an older generation than the last."""


def settle(
    topics: Topics, subscriptions: Mapping[str, Subscription], claims: Mapping[str, Claim]
) -> Owned:
    """Decides which claims are accepted; `claims` has the members in order."""
    existing = {
        TopicPartition(topic, info.partition): None for topic in topics for info in topics[topic]
    }
    owned = Owned({member: {} for member in claims})
    owners: dict[TopicPartition, str] = {}
    for member, claim in claims.items():
        generation_id = _generation(claim)
        mine = owned.partitions[member]
        for partition in claim.partitions:
            # Unlike Kafka, which only checks that the topic exists: if it was created again with fewer partitions,
            # Kafka assigns some of these to two members.
            if partition not in existing:
                continue
            other = owners.get(partition)
            # Kafka takes the other's generation from its subscription, even if the user data has a later one.
            theirs = NO_GENERATION
            if other is not None:
                theirs = max(NO_GENERATION, subscriptions[other].generation_id)
            if other is None:
                mine[partition] = None
                owners[partition] = member
            elif generation_id == theirs:
                owned.contested[partition] = None
                owned.partitions[other].pop(partition, None)
                owners[partition] = member
            elif generation_id > theirs:
                owned.partitions[other].pop(partition, None)
                mine[partition] = None
                owners[partition] = member
    owned.previous = _previous_owners(existing, subscriptions, claims)
    return owned


def _previous_owners(
    existing: Mapping[TopicPartition, None],
    subscriptions: Mapping[str, Subscription],
    claims: Mapping[str, Claim],
) -> dict[TopicPartition, str]:
    """The members that claim a partition in a generation before the latest of all claims."""
    generations = {member: _generation(claim) for member, claim in claims.items()}
    # Kafka's assignor also remembers the last generation of earlier rebalances, even of a group that was deleted
    # since. Here the answer depends on the arguments only.
    last = max(NO_GENERATION, *generations.values())
    previous: dict[TopicPartition, str] = {}
    for member, claim in claims.items():
        if generations[member] >= last:
            continue
        wanted = frozenset(subscriptions[member].topics)
        for partition in claim.partitions:
            # Unlike Kafka, which returns a partition even to a member that no longer subscribes to its topic.
            if partition.topic not in wanted or partition not in existing:
                continue
            earlier = previous.get(partition)
            if earlier is None or generations[member] > generations[earlier]:
                previous[partition] = member
    return previous


def _generation(claim: Claim) -> int:
    return NO_GENERATION if claim.generation_id is None else claim.generation_id
