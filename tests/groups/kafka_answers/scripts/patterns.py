"""Subscriptions by pattern (RE2), which the coordinator resolves."""

from __future__ import annotations

from tests.groups.kafka_answers.members import Consumer
from tests.groups.kafka_answers.script import script
from tests.groups.kafka_answers.stage import Stage

# The coordinator resolves a group's patterns at most so often.
REFRESH_MS = 10_200


def resolved(stage: Stage, member: Consumer) -> None:
    """A heartbeat after the coordinator has had the time to resolve a pattern."""
    stage.settle()
    stage.settle()
    member.beat()


@script
def a_pattern_is_resolved_after_the_join(stage: Stage) -> None:
    stage.topic("orders", 2)
    member = Consumer(stage, "A")
    member.join(regex=f"ord.*-{stage.suffix}")
    resolved(stage, member)
    member.acknowledge()
    stage.describe()


@script
def a_pattern_must_match_the_whole_name(stage: Stage) -> None:
    stage.topic("orders", 2)
    member = Consumer(stage, "A")
    member.join(regex="ord")
    resolved(stage, member)
    member.beat()
    stage.describe()


@script
def a_pattern_that_matches_nothing(stage: Stage) -> None:
    member = Consumer(stage, "A")
    member.join(regex=f"nothing-{stage.suffix}")
    resolved(stage, member)
    stage.describe()
    member.beat()


@script
def names_and_a_pattern_together(stage: Stage) -> None:
    stage.topic("orders", 2)
    others = stage.topic("others", 2)
    member = Consumer(stage, "A")
    member.join(others, regex=f"orders-{stage.suffix}")
    resolved(stage, member)
    member.acknowledge()
    stage.describe()


@script
def a_second_member_with_the_same_pattern(stage: Stage) -> None:
    stage.topic("orders", 2)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(regex=f"orders-{stage.suffix}")
    resolved(stage, first)
    first.acknowledge()
    second.join(regex=f"orders-{stage.suffix}")
    first.beat()
    first.acknowledge()
    second.beat()
    stage.describe()


@script
def a_second_pattern_within_ten_seconds_waits(stage: Stage) -> None:
    stage.topic("orders", 2)
    stage.topic("others", 2)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(regex=f"orders-{stage.suffix}")
    resolved(stage, first)
    second.join(regex=f"others-{stage.suffix}")
    resolved(stage, second)
    stage.wait(REFRESH_MS)
    second.beat()
    resolved(stage, second)
    stage.describe()


@script
def a_new_topic_that_matches_is_found_after_ten_seconds(stage: Stage) -> None:
    stage.topic("orders", 2)
    member = Consumer(stage, "A")
    member.join(regex=f"orders.*-{stage.suffix}")
    resolved(stage, member)
    member.acknowledge()
    stage.topic("orders-more", 2)
    resolved(stage, member)
    member.beat()
    stage.wait(REFRESH_MS)
    member.beat()
    resolved(stage, member)
    member.acknowledge()
    stage.describe()


@script
def a_matching_topic_that_is_deleted(stage: Stage) -> None:
    stage.topic("orders", 2)
    more = stage.topic("orders-more", 2)
    member = Consumer(stage, "A")
    member.join(regex=f"orders.*-{stage.suffix}")
    resolved(stage, member)
    member.acknowledge()
    stage.delete_topic(more)
    resolved(stage, member)
    member.acknowledge()
    stage.describe()


@script
def a_matching_topic_that_grows(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    member = Consumer(stage, "A")
    member.join(regex=f"orders-{stage.suffix}")
    resolved(stage, member)
    member.acknowledge()
    stage.grow(topic, 3)
    member.beat()
    stage.describe()


@script
def from_a_pattern_to_names(stage: Stage) -> None:
    stage.topic("orders", 2)
    others = stage.topic("others", 2)
    member = Consumer(stage, "A")
    member.join(regex=f"orders-{stage.suffix}")
    resolved(stage, member)
    member.acknowledge()
    member.beat(topics=[others], regex="")
    member.acknowledge()
    member.beat()
    stage.describe()


@script
def from_names_to_a_pattern(stage: Stage) -> None:
    stage.topic("orders", 2)
    others = stage.topic("others", 2)
    member = Consumer(stage, "A")
    member.join(others)
    member.acknowledge()
    member.beat(topics=[], regex=f"orders-{stage.suffix}")
    stage.settle()
    stage.settle()
    member.acknowledge()
    member.acknowledge()
    stage.describe()


@script
def from_one_pattern_to_another(stage: Stage) -> None:
    stage.topic("orders", 2)
    stage.topic("others", 2)
    member = Consumer(stage, "A")
    member.join(regex=f"orders-{stage.suffix}")
    resolved(stage, member)
    member.acknowledge()
    member.beat(regex=f"others-{stage.suffix}")
    stage.settle()
    stage.settle()
    member.acknowledge()
    resolved(stage, member)
    stage.wait(REFRESH_MS)
    member.beat()
    resolved(stage, member)
    member.acknowledge()
    stage.describe()


@script
def a_pattern_does_not_find_internal_topics(stage: Stage) -> None:
    # The group's own topic exists by now.
    member = Consumer(stage, "A")
    member.join(regex="__consumer_offsets")
    resolved(stage, member)
    stage.describe()


@script
def two_members_with_one_pattern_and_one_leaves(stage: Stage) -> None:
    stage.topic("orders", 2)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(regex=f"orders-{stage.suffix}")
    resolved(stage, first)
    second.join(regex=f"orders-{stage.suffix}")
    second.leave()
    first.beat()
    stage.describe()
    first.leave()
    stage.describe()


@script
def members_with_a_name_and_a_pattern_share_a_topic(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(topic)
    first.acknowledge()
    second.join(regex=f"orders-{stage.suffix}")
    resolved(stage, second)
    first.beat()
    first.acknowledge()
    second.beat()
    stage.describe()


@script
def an_empty_pattern_says_that_there_is_none(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    member = Consumer(stage, "A")
    member.join(topic, regex="")
    member.beat(regex="")
    stage.describe()


@script
def patterns_of_re2(stage: Stage) -> None:
    stage.topic("orders", 1)
    for name, pattern in {
        "A": f"(?i)ORDERS-{stage.suffix}",
        "B": rf"\Qorders-{stage.suffix}\E",
        "C": rf"^[a-z]+-{stage.suffix}$",
        "D": rf"\pL+-{stage.suffix}",
        "E": rf"(?P<kind>ord|oth)ers-{stage.suffix}",
    }.items():
        stage.group = stage.own_name(f"group-{name}")
        member = Consumer(stage, name)
        member.join(regex=pattern)
        resolved(stage, member)
