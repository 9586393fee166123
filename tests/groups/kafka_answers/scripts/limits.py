"""A group is full: `group.consumer.max.size` and `group.max.size` are 2 here."""

from __future__ import annotations

from tests.groups.kafka_answers.brokers import SMALL
from tests.groups.kafka_answers.members import ClassicConsumer, Consumer
from tests.groups.kafka_answers.script import script_on
from tests.groups.kafka_answers.stage import Stage


@script_on(SMALL)
def a_third_member_does_not_fit(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    first, second, third = (Consumer(stage, name) for name in "ABC")
    first.join(topic)
    second.join(topic)
    third.join(topic)
    third.beat(epoch=1)
    third.join(topic, version=0, member_id="")
    stage.describe()
    first.leave()
    third.join(topic)


@script_on(SMALL)
def members_of_a_full_group_join_again(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(topic)
    second.join(topic)
    first.join(topic)
    first.beat()
    second.beat()


@script_on(SMALL)
def a_static_member_cannot_come_back_to_a_full_group_under_a_new_id(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    first, second = Consumer(stage, "A", instance="i"), Consumer(stage, "B")
    first.join(topic)
    second.join(topic)
    first.leave_for_a_while()
    Consumer(stage, "C", instance="i").join(topic)
    first.join(topic)
    stage.describe()


@script_on(SMALL)
def a_stranger_in_a_full_group(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(topic)
    second.join(topic)
    stranger = Consumer(stage, "C")
    stranger.beat(epoch=1)
    stranger.leave()


@script_on(SMALL)
def a_classic_member_does_not_fit_into_a_full_consumer_group(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    first, second, classic = Consumer(stage, "A"), Consumer(stage, "B"), ClassicConsumer(stage, "C")
    first.join(topic)
    second.join(topic)
    classic.join(topic)
    classic.join(topic, member_id="C")
    second.leave()
    classic.join_fully(topic)


@script_on(SMALL)
def a_new_member_does_not_fit_into_a_full_classic_group(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    first, second = ClassicConsumer(stage, "C"), ClassicConsumer(stage, "D")
    first.join_fully(topic)
    second.join(topic)
    second.send_join(topic)
    first.join(topic)
    second.receive_join()
    second.send_sync()
    first.sync({first: {topic: [0]}, second: {topic: [1]}})
    second.receive_sync()
    Consumer(stage, "A").join(topic)
    stage.list_groups()
    stage.describe_classic()
