"""Short ways to write groups, topics and shares: `"t0-0 t0-1"` is two partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from ottla.core.assignors.model import (
    Assignment,
    Cluster,
    PartitionInfo,
    Subscription,
)
from ottla.core.assignors.registry import ASSIGNORS
from ottla.core.assignors.user_data import encode_claim, encode_generation
from ottla.model import TopicPartition

STICKY_NAMES = ("sticky", "cooperative-sticky")
GENERATION = 1


def partitions(text: str) -> tuple[TopicPartition, ...]:
    pairs = [word.rpartition("-") for word in text.split()]
    return tuple(TopicPartition(topic, int(number)) for topic, _, number in pairs)


def cluster(**counts: int) -> dict[str, tuple[PartitionInfo, ...]]:
    return {
        topic: tuple(PartitionInfo(partition) for partition in range(count))
        for topic, count in counts.items()
    }


def racked(
    counts: Mapping[str, int], replicas: int, racks: Sequence[str]
) -> dict[str, list[PartitionInfo]]:
    """One broker for each rack; partitions go round the brokers, from topic to topic."""
    first = 0
    topics: dict[str, list[PartitionInfo]] = {}
    for topic, count in counts.items():
        topics[topic] = [
            PartitionInfo(
                number, tuple(racks[(first + number + i) % len(racks)] for i in range(replicas))
            )
            for number in range(count)
        ]
        first += count
    return topics


def wants(topics: str, instance: str | None = None, rack: str | None = None) -> Subscription:
    return Subscription(tuple(topics.split()), group_instance_id=instance, rack_id=rack)


def claims(
    name: str, topics: str, owned: str, generation_id: int = GENERATION, rack: str | None = None
) -> Subscription:
    """What a member says to a sticky assignor that owns something."""
    mine = partitions(owned)
    if name == "sticky":
        user_data = encode_claim(mine, generation_id)
        return Subscription(
            tuple(topics.split()), user_data, generation_id=generation_id, rack_id=rack
        )
    user_data = encode_generation(generation_id)
    return Subscription(tuple(topics.split()), user_data, mine, generation_id, rack)


def assign(name: str, topics: Cluster, subscriptions: Mapping[str, Subscription]) -> dict[str, str]:
    """What each member gets, in the order in which it is told."""
    return texts(ASSIGNORS[name]().assign(topics, subscriptions))


def texts(shares: Mapping[str, Assignment]) -> dict[str, str]:
    return {member: " ".join(map(str, share.partitions)) for member, share in shares.items()}


def in_order(shares: Mapping[str, str]) -> dict[str, str]:
    """The same shares, where their order is of no interest."""
    return {member: " ".join(sorted(text.split())) for member, text in shares.items()}


def settled(
    name: str, topics: Cluster, subscriptions: Mapping[str, Subscription]
) -> dict[str, str]:
    """What members have when they have joined again for as long as something moves."""
    for generation_id in range(GENERATION + 1, GENERATION + 6):
        shares = assign(name, topics, subscriptions)
        after = {
            member: claims(name, " ".join(old.topics), shares[member], generation_id, old.rack_id)
            for member, old in subscriptions.items()
        }
        if name == "sticky" or assign(name, topics, after) == shares:
            return shares
        subscriptions = after
    raise AssertionError("the group does not settle")


# Group, partitions per topic, shares: what every assignor makes of groups that leave it no choice.
PLAIN_CASES = [
    pytest.param({"a": ""}, {}, {"a": ""}, id="no-topic"),
    pytest.param({"a": "t"}, {}, {"a": ""}, id="topic-does-not-exist"),
    pytest.param({"a": "t"}, {"t": 3, "u": 3}, {"a": "t-0 t-1 t-2"}, id="only-what-it-wants"),
    pytest.param({"a": "t u"}, {"t": 1, "u": 2}, {"a": "t-0 u-0 u-1"}, id="all-it-wants"),
    pytest.param({"a": "t", "b": "t"}, {"t": 1}, {"a": "t-0", "b": ""}, id="too-few"),
    pytest.param({"a": "t", "b": "t"}, {"t": 2}, {"a": "t-0", "b": "t-1"}, id="one-each"),
]
