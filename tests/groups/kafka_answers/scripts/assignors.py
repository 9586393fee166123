"""Which assignor a group uses, and what it gives; the assignors themselves are compared in tests/core."""

from __future__ import annotations

from tests.groups.kafka_answers.members import Consumer
from tests.groups.kafka_answers.script import script
from tests.groups.kafka_answers.stage import Stage


def settled(*members: Consumer) -> None:
    """Every member acknowledges until nothing moves."""
    for _ in range(len(members)):
        for member in members:
            member.acknowledge()


@script
def uniform_is_the_default(stage: Stage) -> None:
    topic = stage.topic("orders", 5)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(topic)
    second.join(topic)
    settled(first, second)
    stage.describe()


@script
def range_gives_neighbours(stage: Stage) -> None:
    topic = stage.topic("orders", 5)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(topic, assignor="range")
    second.join(topic, assignor="range")
    settled(first, second)
    stage.describe()


@script
def range_gives_the_same_numbers_of_several_topics(stage: Stage) -> None:
    orders, others = stage.topic("orders", 3), stage.topic("others", 3)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(orders, others, assignor="range")
    second.join(orders, others, assignor="range")
    settled(first, second)
    stage.describe()


@script
def the_assignor_of_most_members_is_used(stage: Stage) -> None:
    topic = stage.topic("orders", 6)
    first, second, third = (Consumer(stage, name) for name in "ABC")
    first.join(topic, assignor="range")
    stage.describe()
    second.join(topic, assignor="uniform")
    third.join(topic, assignor="uniform")
    settled(first, second, third)
    stage.describe()


@script
def members_without_an_assignor_have_no_vote(stage: Stage) -> None:
    topic = stage.topic("orders", 6)
    first, second, third = (Consumer(stage, name) for name in "ABC")
    first.join(topic)
    second.join(topic)
    third.join(topic, assignor="range")
    settled(first, second, third)
    stage.describe()


@script
def a_member_changes_its_assignor(stage: Stage) -> None:
    topic = stage.topic("orders", 6)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(topic, assignor="uniform")
    second.join(topic, assignor="uniform")
    settled(first, second)
    first.beat(assignor="range")
    second.beat(assignor="range")
    settled(first, second)
    stage.describe()


@script
def uniform_keeps_what_members_have(stage: Stage) -> None:
    topic = stage.topic("orders", 6)
    members = [Consumer(stage, name) for name in "ABC"]
    for member in members:
        member.join(topic)
        settled(*members[: members.index(member) + 1])
    stage.describe()
    members[0].leave()
    settled(*members[1:])
    stage.describe()


@script
def range_with_more_members_than_partitions(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    members = [Consumer(stage, name) for name in "ABC"]
    for member in members:
        member.join(topic, assignor="range")
    settled(*members)
    stage.describe()


@script
def uniform_with_different_subscriptions(stage: Stage) -> None:
    orders, others = stage.topic("orders", 4), stage.topic("others", 2)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(orders, others)
    second.join(orders)
    settled(first, second)
    stage.describe()


@script
def range_with_different_subscriptions(stage: Stage) -> None:
    orders, others = stage.topic("orders", 4), stage.topic("others", 2)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(orders, others, assignor="range")
    second.join(orders, assignor="range")
    settled(first, second)
    stage.describe()


@script
def range_with_static_members(stage: Stage) -> None:
    topic = stage.topic("orders", 4)
    # The instance ids are in another order than the member ids.
    first, second = Consumer(stage, "A", instance="z"), Consumer(stage, "B", instance="y")
    first.join(topic, assignor="range")
    second.join(topic, assignor="range")
    settled(first, second)
    stage.describe()


@script
def a_second_assignment_waits_for_its_interval(stage: Stage) -> None:
    topic = stage.topic("orders", 4)
    stage.set_config({"consumer.assignment.interval.ms": "3000"})
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(topic)
    first.acknowledge()
    second.join(topic)
    first.beat()
    stage.describe()
    stage.wait(3200)
    second.beat()
    first.beat()
    first.acknowledge()
    second.beat()
    stage.describe()
