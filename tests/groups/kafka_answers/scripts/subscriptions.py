"""What members subscribe to changes, and so do the topics."""

from __future__ import annotations

from tests.groups.kafka_answers.members import Consumer
from tests.groups.kafka_answers.script import script
from tests.groups.kafka_answers.stage import Stage


@script
def a_member_subscribes_to_one_more_topic(stage: Stage) -> None:
    orders, others = stage.topic("orders"), stage.topic("others", 2)
    member = Consumer(stage, "A")
    member.join(orders)
    member.beat(topics=[orders, others])
    member.acknowledge()
    stage.describe()


@script
def a_member_unsubscribes_from_a_topic(stage: Stage) -> None:
    orders, others = stage.topic("orders"), stage.topic("others", 2)
    member = Consumer(stage, "A")
    member.join(orders, others)
    member.acknowledge()
    member.beat(topics=[orders])
    stage.describe()
    member.acknowledge()
    stage.describe()


@script
def a_member_unsubscribes_from_everything(stage: Stage) -> None:
    orders = stage.topic("orders")
    member = Consumer(stage, "A")
    member.join(orders)
    member.acknowledge()
    member.beat(topics=[])
    member.acknowledge()
    stage.describe()
    member.beat(topics=[orders])


@script
def a_member_says_the_same_topics_again(stage: Stage) -> None:
    orders, others = stage.topic("orders"), stage.topic("others")
    member = Consumer(stage, "A")
    member.join(orders, others)
    member.acknowledge()
    member.beat(topics=[others, orders])
    member.beat(topics=[others, orders, orders])
    stage.describe()


@script
def members_with_different_topics(stage: Stage) -> None:
    orders, others = stage.topic("orders", 2), stage.topic("others", 2)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(orders)
    second.join(others)
    first.beat()
    stage.describe()


@script
def a_topic_that_does_not_exist_gives_nothing(stage: Stage) -> None:
    member = Consumer(stage, "A")
    member.join(stage.own_name("later"))
    member.beat()
    stage.describe()


@script
def a_topic_that_is_created_is_assigned_at_the_next_heartbeat(stage: Stage) -> None:
    later = stage.own_name("later")
    member = Consumer(stage, "A")
    member.join(later)
    topic = stage.topic("later", 2)
    member.beat()
    member.acknowledge()
    assert topic.name == later
    stage.describe()


@script
def a_topic_that_grows_is_assigned_at_the_next_heartbeat(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(topic)
    first.acknowledge()
    second.join(topic)
    first.beat()
    first.acknowledge()
    second.beat()
    stage.grow(topic, 4)
    stage.describe()
    second.beat()
    first.beat()
    stage.describe()


@script
def a_topic_that_is_deleted_is_taken_away_at_the_next_heartbeat(stage: Stage) -> None:
    orders, others = stage.topic("orders", 2), stage.topic("others", 2)
    member = Consumer(stage, "A")
    member.join(orders, others)
    member.acknowledge()
    stage.delete_topic(others)
    member.beat()
    member.acknowledge()
    stage.describe()


@script
def a_topic_that_is_deleted_and_made_again(stage: Stage) -> None:
    orders = stage.topic("orders", 2)
    member = Consumer(stage, "A")
    member.join(orders)
    member.acknowledge()
    stage.delete_topic(orders)
    again = stage.topic("orders", 2)
    member.beat()
    member.acknowledge()
    member.beat()
    assert again.name == orders.name
    stage.describe()


@script
def a_topic_that_nobody_subscribes_to_changes_nothing(stage: Stage) -> None:
    orders = stage.topic("orders", 2)
    member = Consumer(stage, "A")
    member.join(orders)
    others = stage.topic("others", 2)
    member.beat()
    stage.grow(others, 3)
    stage.delete_topic(others)
    member.beat()
    stage.describe()


@script
def a_member_that_changes_its_topics_while_it_revokes(stage: Stage) -> None:
    orders, others = stage.topic("orders", 2), stage.topic("others", 2)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(orders, others, assignor="range")
    first.acknowledge()
    second.join(orders, others)
    first.beat()
    first.beat(topics=[orders])
    first.beat(owned={orders: [0], others: [0]})
    first.acknowledge()
    first.beat()
    second.beat()
    stage.describe()


@script
def an_internal_topic_can_be_subscribed_to_by_name(stage: Stage) -> None:
    member = Consumer(stage, "A")
    member.join("__consumer_offsets")
    stage.describe()
