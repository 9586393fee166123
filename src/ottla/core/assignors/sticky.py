"""The sticky assignors: the best balance, and of those assignments the one with the fewest moves (KIP-54, KIP-429).

Their answers are Kafka's, except where Kafka breaks the rule that every partition goes to exactly one member that
subscribes to its topic: the comments here and in `claims.py` say where, and `test_against_kafka.py` checks them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ottla.core.assignors.claims import settle
from ottla.core.assignors.constrained import ConstrainedAssignment
from ottla.core.assignors.general import GeneralAssignment
from ottla.core.assignors.model import (
    NO_GENERATION,
    Assignment,
    Assignor,
    Cluster,
    RebalanceProtocol,
    Subscription,
    assignments,
    members_in_order,
    topics_to_assign,
)
from ottla.core.assignors.racks import Racks
from ottla.core.assignors.user_data import (
    Claim,
    decode_claim,
    decode_generation,
    encode_claim,
    encode_generation,
)
from ottla.model import TopicPartition


class StickyAssignor(Assignor):
    """Eager: members revoke all partitions before they join, so their claims are in the user data."""

    name = "sticky"

    def __init__(self) -> None:
        self._partitions: tuple[TopicPartition, ...] | None = None
        self._generation_id = NO_GENERATION

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        del topics
        if self._partitions is None:
            return None
        return encode_claim(self._partitions, self._generation_id)

    def assign(
        self, cluster: Cluster, subscriptions: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        return assign_sticky(cluster, subscriptions)

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        self._partitions = assignment.partitions
        self._generation_id = generation_id


class CooperativeStickyAssignor(Assignor):
    """Members keep their partitions while they join; one rebalance revokes those that move, the next assigns them."""

    name = "cooperative-sticky"
    protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def __init__(self) -> None:
        self._generation_id = NO_GENERATION

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        del topics
        return encode_generation(self._generation_id)

    def assign(
        self, cluster: Cluster, subscriptions: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        return assign_cooperative_sticky(cluster, subscriptions)

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        del assignment
        self._generation_id = generation_id


def assign_sticky(
    cluster: Cluster, subscriptions: Mapping[str, Subscription]
) -> dict[str, Assignment]:
    """Kafka's sticky assignment."""
    claims = {
        member: decode_claim(subscriptions[member].user_data)
        for member in members_in_order(subscriptions)
    }
    shares, _ = _assign(cluster, subscriptions, claims)
    return assignments(shares)


def assign_cooperative_sticky(
    cluster: Cluster, subscriptions: Mapping[str, Subscription]
) -> dict[str, Assignment]:
    """Kafka's cooperative-sticky assignment: a partition that another member has to revoke is not assigned yet."""
    claims = {
        member: _cooperative_claim(subscriptions[member])
        for member in members_in_order(subscriptions)
    }
    shares, transferred = _assign(cluster, subscriptions, claims)
    return assignments(
        {
            member: [partition for partition in share if transferred.get(partition) != member]
            for member, share in shares.items()
        }
    )


def _cooperative_claim(subscription: Subscription) -> Claim:
    # Since version 2 of the subscription the generation is a field of it.
    if subscription.generation_id >= 0:
        return Claim(subscription.owned_partitions, subscription.generation_id)
    return Claim(subscription.owned_partitions, decode_generation(subscription.user_data))


Shares = Mapping[str, Collection[TopicPartition]]


def _assign(
    cluster: Cluster, subscriptions: Mapping[str, Subscription], claims: Mapping[str, Claim]
) -> tuple[Shares, Mapping[TopicPartition, str]]:
    """The share of every member, and the partitions in them that other members still have."""
    if not subscriptions:
        return {}, {}
    topics = topics_to_assign(cluster, subscriptions)
    racks = Racks(topics, subscriptions)
    owned = settle(topics, subscriptions, claims)
    if _want_the_same([subscriptions[member].topics for member in claims]):
        constrained = ConstrainedAssignment(topics, racks, owned)
        constrained.run()
        return constrained.shares, constrained.transferred
    general = GeneralAssignment(topics, subscriptions, racks, owned)
    general.run()
    return general.shares, _transferred(subscriptions, general.shares)


def _want_the_same(wanted: Sequence[tuple[str, ...]]) -> bool:
    # Kafka compares in another way, and assigns partitions to members that did not subscribe: to one without topics if
    # its hash map lists it first, to one that names a topic twice instead of another one.
    first = frozenset(wanted[0])
    return all(frozenset(topics) == first for topics in wanted)


def _transferred(
    subscriptions: Mapping[str, Subscription], shares: Shares
) -> dict[TopicPartition, str]:
    """The partitions that move from one member to another, with the new owner."""
    given: dict[TopicPartition, str] = {}
    taken: dict[TopicPartition, None] = {}
    for member, share in shares.items():
        owned = dict.fromkeys(subscriptions[member].owned_partitions)
        assigned = dict.fromkeys(share)
        given.update((partition, member) for partition in assigned if partition not in owned)
        taken.update((partition, None) for partition in owned if partition not in assigned)
    return {partition: member for partition, member in given.items() if partition in taken}
