"""The round-robin assignor: all partitions in order, to the members in the order of their names."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.core.assignors.java_order import text_order
from ottla.core.assignors.model import (
    Assignment,
    Assignor,
    Cluster,
    Subscription,
    assignments,
    members_by_name,
    topics_to_assign,
)
from ottla.model import TopicPartition


class RoundRobinAssignor(Assignor):
    """Assigns partitions in turn; a member that does not subscribe to the topic is skipped."""

    name = "roundrobin"

    def assign(
        self, cluster: Cluster, subscriptions: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        return assign_round_robin(cluster, subscriptions)


def assign_round_robin(
    cluster: Cluster, subscriptions: Mapping[str, Subscription]
) -> dict[str, Assignment]:
    """Kafka's round-robin assignment."""
    topics = topics_to_assign(cluster, subscriptions)
    members = members_by_name(subscriptions)
    wanted = {member: frozenset(subscriptions[member].topics) for member in members}
    shares: dict[str, list[TopicPartition]] = {member: [] for member in members}
    turn = 0
    for topic in sorted(topics, key=text_order):
        for info in topics[topic]:
            while topic not in wanted[members[turn]]:
                turn = (turn + 1) % len(members)
            shares[members[turn]].append(TopicPartition(topic, info.partition))
            turn = (turn + 1) % len(members)
    return assignments(shares)
