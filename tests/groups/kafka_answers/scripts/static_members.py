"""Static members of the new protocol: they come back with another member id and keep their partitions."""

from __future__ import annotations

from tests.groups.kafka_answers.members import Consumer
from tests.groups.kafka_answers.script import script
from tests.groups.kafka_answers.stage import Stage


@script
def a_static_member_joins(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A", instance="i")
    member.join(topic)
    member.acknowledge()
    stage.describe()


@script
def an_instance_id_in_use_is_unreleased(stage: Stage) -> None:
    topic = stage.topic("orders")
    Consumer(stage, "A", instance="i").join(topic)
    Consumer(stage, "B", instance="i").join(topic)
    stage.describe()


@script
def a_static_member_that_left_for_a_while_is_replaced(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A", instance="i")
    member.join(topic)
    member.acknowledge()
    member.leave_for_a_while()
    stage.describe()
    again = Consumer(stage, "B", instance="i")
    again.join(topic)
    stage.describe()
    again.acknowledge()


@script
def the_member_that_was_replaced_is_fenced(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A", instance="i")
    member.join(topic)
    epoch = member.epoch
    member.leave_for_a_while()
    again = Consumer(stage, "B", instance="i")
    again.join(topic)
    member.beat(epoch=epoch)
    member.leave()
    member.leave_for_a_while()
    member.join(topic)
    # Without its instance it is nobody.
    member.beat(epoch=epoch, instance=None)
    stage.describe()


@script
def a_static_member_comes_back_under_its_own_id(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A", instance="i")
    member.join(topic)
    member.acknowledge()
    member.leave_for_a_while()
    member.join(topic)
    stage.describe()


@script
def a_static_member_joins_again_without_leaving(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A", instance="i")
    member.join(topic)
    member.join(topic)
    stage.describe()


@script
def heartbeats_of_a_static_member_that_is_away(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A", instance="i")
    member.join(topic)
    epoch = member.epoch
    member.leave_for_a_while()
    member.beat(epoch=epoch)
    member.beat(epoch=epoch, owned={topic: [0]})
    member.leave_for_a_while()
    member.leave()
    stage.describe()


@script
def a_static_member_that_leaves_for_good(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    first, second = Consumer(stage, "A", instance="i"), Consumer(stage, "B", instance="j")
    first.join(topic)
    first.acknowledge()
    second.join(topic)
    first.beat()
    first.acknowledge()
    second.beat()
    first.leave()
    second.beat()
    stage.describe()
    Consumer(stage, "C", instance="i").join(topic)


@script
def the_partitions_of_a_static_member_that_is_away_wait_for_it(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    first, second = Consumer(stage, "A", instance="i"), Consumer(stage, "B", instance="j")
    first.join(topic)
    first.acknowledge()
    second.join(topic)
    first.beat()
    first.acknowledge()
    second.beat()
    first.leave_for_a_while()
    second.beat()
    stage.describe()
    again = Consumer(stage, "C", instance="i")
    again.join(topic)
    second.beat()
    stage.describe()


@script
def a_static_member_comes_back_with_other_topics(stage: Stage) -> None:
    orders, others = stage.topic("orders", 2), stage.topic("others", 2)
    member = Consumer(stage, "A", instance="i")
    member.join(orders)
    member.acknowledge()
    member.leave_for_a_while()
    again = Consumer(stage, "B", instance="i")
    again.join(others)
    again.acknowledge()
    stage.describe()


@script
def a_static_member_goes_away_while_it_revokes(stage: Stage) -> None:
    topic = stage.topic("orders", 4)
    first, second = Consumer(stage, "A", instance="i"), Consumer(stage, "B")
    first.join(topic)
    first.acknowledge()
    second.join(topic)
    first.beat()
    first.leave_for_a_while()
    second.beat()
    stage.describe()
    again = Consumer(stage, "C", instance="i")
    again.join(topic)
    stage.describe()


@script
def the_wrong_instance_of_a_right_member(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A", instance="i")
    member.join(topic)
    member.beat(instance="j")
    member.beat(instance=None)
    member.leave(instance="j")
    stage.describe()


@script
def a_dynamic_member_names_an_instance_later(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A")
    member.join(topic)
    member.beat(instance="i")
    member.leave(instance="i")
    stage.describe()


@script
def a_static_member_leaves_without_its_instance(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A", instance="i")
    member.join(topic)
    member.leave(instance=None)
    stage.describe()
    Consumer(stage, "B", instance="i").join(topic)


@script
def a_group_whose_only_member_is_away_is_not_empty(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A", instance="i")
    member.join(topic)
    member.leave_for_a_while()
    stage.describe()
    stage.list_groups()
    stage.delete_group()


@script
def a_static_leave_of_a_dynamic_member(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A")
    member.join(topic)
    member.beat(epoch=-2, instance="i")
    member.beat()


@script
def two_static_members_swap_their_processes(stage: Stage) -> None:
    topic = stage.topic("orders", 4)
    first, second = Consumer(stage, "A", instance="i"), Consumer(stage, "B", instance="j")
    first.join(topic)
    first.acknowledge()
    second.join(topic)
    first.beat()
    first.acknowledge()
    second.beat()
    second.acknowledge()
    first.leave_for_a_while()
    second.leave_for_a_while()
    third, fourth = Consumer(stage, "C", instance="j"), Consumer(stage, "D", instance="i")
    third.join(topic)
    fourth.join(topic)
    stage.describe()
