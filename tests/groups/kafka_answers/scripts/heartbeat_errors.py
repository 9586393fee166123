"""Heartbeats that the coordinator refuses before it looks at the group, and with which words."""

from __future__ import annotations

from tests.groups.kafka_answers.members import JOIN, LEAVE, LEAVE_FOR_A_WHILE, Consumer
from tests.groups.kafka_answers.script import script
from tests.groups.kafka_answers.stage import Stage


@script
def a_member_id_is_required_since_v1(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A")
    member.join(topic, member_id="", version=1)
    stage.describe()


@script
def v0_gives_a_member_id_to_a_member_that_has_none(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A")
    member.member_id = ""
    member.join(topic, version=0)
    member.acknowledge(version=0)
    stage.describe()


@script
def v0_takes_a_member_id_of_the_members_own(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A")
    member.join(topic, version=0)
    stage.describe(version=0)


@script
def v0_requires_a_member_id_after_the_join(stage: Stage) -> None:
    member = Consumer(stage, "A")
    member.beat(epoch=1, member_id="", version=0)
    member.beat(epoch=LEAVE, member_id="", version=0)
    member.beat(epoch=LEAVE_FOR_A_WHILE, member_id="", version=0)


@script
def v1_requires_a_member_id_at_every_epoch(stage: Stage) -> None:
    member = Consumer(stage, "A")
    member.beat(epoch=1, member_id="")
    member.beat(epoch=LEAVE, member_id="")
    member.beat(epoch=LEAVE_FOR_A_WHILE, member_id="", instance="i")


@script
def a_group_id_must_not_be_empty(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A")
    member.join(topic, group="")
    member.beat(epoch=1, group="")
    member.beat(epoch=LEAVE, group="")


@script
def an_instance_id_must_not_be_empty(stage: Stage) -> None:
    topic = stage.topic("orders")
    Consumer(stage, "A").join(topic, instance="")


@script
def a_rack_must_not_be_empty(stage: Stage) -> None:
    topic = stage.topic("orders")
    Consumer(stage, "A").join(topic, rack="")


@script
def a_join_needs_a_rebalance_timeout(stage: Stage) -> None:
    topic = stage.topic("orders")
    Consumer(stage, "A").join(topic, rebalance_timeout_ms=-1)
    stage.describe()


@script
def a_join_needs_owned_partitions(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A")
    member.beat(epoch=JOIN, topics=[topic], rebalance_timeout_ms=1000)


@script
def a_join_must_own_nothing(stage: Stage) -> None:
    topic = stage.topic("orders")
    Consumer(stage, "A").join(topic, owned={topic: [0]})


@script
def a_join_must_own_nothing_even_of_no_partitions(stage: Stage) -> None:
    topic = stage.topic("orders")
    Consumer(stage, "A").join(topic, owned={topic: []})


@script
def a_join_needs_topics_or_a_pattern(stage: Stage) -> None:
    member = Consumer(stage, "A")
    member.beat(epoch=JOIN, owned={}, rebalance_timeout_ms=1000)
    member.beat(epoch=JOIN, owned={}, rebalance_timeout_ms=1000, version=0)


@script
def a_join_may_subscribe_to_nothing(stage: Stage) -> None:
    Consumer(stage, "A").join()
    stage.describe()


@script
def a_join_may_have_an_empty_pattern(stage: Stage) -> None:
    Consumer(stage, "A").join(regex="")
    stage.describe()


@script
def a_rebalance_timeout_of_zero_is_taken(stage: Stage) -> None:
    topic = stage.topic("orders")
    Consumer(stage, "A").join(topic, rebalance_timeout_ms=0)


@script
def a_rebalance_timeout_below_minus_one_at_a_join(stage: Stage) -> None:
    topic = stage.topic("orders")
    Consumer(stage, "A").join(topic, rebalance_timeout_ms=-5)


@script
def a_static_leave_needs_an_instance_id(stage: Stage) -> None:
    Consumer(stage, "A").beat(epoch=LEAVE_FOR_A_WHILE)


@script
def an_epoch_below_minus_two_is_invalid(stage: Stage) -> None:
    member = Consumer(stage, "A")
    member.beat(epoch=-3)
    member.beat(epoch=-3, version=0)
    member.beat(epoch=-(2**31))


@script
def an_unknown_assignor_is_unsupported(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A")
    member.join(topic, assignor="sticky")
    member.join(topic, assignor="")
    member.join(topic, assignor="Uniform")
    stage.describe()


@script
def an_unknown_assignor_is_refused_from_a_member_too(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A")
    member.join(topic)
    member.beat(assignor="roundrobin")
    member.beat(assignor="range")
    stage.describe()


@script
def the_first_error_of_several_is_told(stage: Stage) -> None:
    member = Consumer(stage, "A")
    member.beat(epoch=JOIN, member_id="", group="")
    member.beat(epoch=JOIN, group="", instance="")
    member.beat(epoch=JOIN, instance="", rack="")
    member.beat(epoch=JOIN, rack="")
    member.beat(epoch=JOIN, assignor="none")
    member.beat(epoch=JOIN, rebalance_timeout_ms=5, assignor="none")
    member.beat(epoch=-7, assignor="none")


@script
def a_heartbeat_of_no_group(stage: Stage) -> None:
    member = Consumer(stage, "A")
    member.beat(epoch=1)
    member.beat(epoch=1, version=0)
    member.beat(epoch=5, instance="i")


@script
def a_leave_of_no_group(stage: Stage) -> None:
    member = Consumer(stage, "A")
    member.beat(epoch=LEAVE)
    member.beat(epoch=LEAVE, instance="i")
    member.beat(epoch=LEAVE_FOR_A_WHILE, instance="i")


@script
def a_stranger_in_a_group(stage: Stage) -> None:
    topic = stage.topic("orders")
    Consumer(stage, "A").join(topic)
    stranger = Consumer(stage, "B")
    stranger.beat(epoch=1)
    stranger.beat(epoch=LEAVE)
    stranger.beat(epoch=1, instance="i")
    stranger.beat(epoch=LEAVE, instance="i")
    stranger.beat(epoch=LEAVE_FOR_A_WHILE, instance="i")


@script
def a_pattern_that_is_no_pattern(stage: Stage) -> None:
    member = Consumer(stage, "A")
    member.join(regex="(orders")
    member.join(regex="[")
    member.join(regex="*")
    member.join(regex="a**")
    member.join(regex="(?<name>a)(?=b)")
    member.join(regex="a{1,2000}")
    member.join(regex="\\")
    stage.describe()


@script
def a_member_that_changes_to_a_wrong_pattern_keeps_its_old_one(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A")
    member.join(topic)
    member.beat(regex="(orders")
    member.beat()
    stage.describe()
