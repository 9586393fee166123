"""Groups of the new protocol described, listed, deleted and found in all their states."""

from __future__ import annotations

from tests.broker.group_requests import SHARE_KEY
from tests.groups.kafka_answers.members import ClassicConsumer, Committer, Consumer
from tests.groups.kafka_answers.script import script
from tests.groups.kafka_answers.stage import Stage


@script
def a_group_that_is_not_there(stage: Stage) -> None:
    stage.describe(version=0)
    stage.describe(version=1)
    stage.describe_classic(version=5)
    stage.describe_classic(version=6)
    stage.delete_group()
    stage.list_groups()


@script
def a_group_without_a_name(stage: Stage) -> None:
    stage.describe("")
    stage.describe_classic("")
    stage.delete_group("")


@script
def several_groups_in_one_request(stage: Stage) -> None:
    topic = stage.topic("orders")
    Consumer(stage, "A").join(topic)
    stage.describe(stage.group, "no-such-group", stage.group)
    stage.describe("no-such-group", "")
    stage.describe_classic(stage.group, "no-such-group")
    stage.delete_group(stage.group, "no-such-group")


@script
def a_group_without_topics_is_not_in_a_list_of_other_states(stage: Stage) -> None:
    Consumer(stage, "A").join()
    stage.list_groups(states=["no such state"])


@script
def a_classic_group_is_no_consumer_group(stage: Stage) -> None:
    topic = stage.topic("orders")
    classic = ClassicConsumer(stage, "C")
    classic.join_fully(topic)
    stage.describe()
    classic.sync({classic: {topic: [0]}})
    stage.describe()
    classic.leave()
    stage.describe()


@script
def a_consumer_group_is_no_classic_group(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A")
    member.join(topic)
    for version in (0, 3, 5, 6):
        stage.describe_classic(version=version)
    member.leave()
    stage.describe_classic()


@script
def a_group_with_offsets_only_is_described(stage: Stage) -> None:
    topic = stage.topic("orders")
    Committer(stage, "admin").commit({topic: {0: 1}})
    stage.describe()
    stage.describe_classic()
    stage.list_groups()
    stage.delete_group()
    stage.list_groups()


@script
def a_group_is_listed_in_each_state(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    states = ["Empty", "stable", "RECONCILING", "Assigning", "Dead", "PreparingRebalance"]
    first.join(topic)
    first.acknowledge()
    for state in states:
        stage.list_groups(states=[state])
    second.join(topic)
    for state in states:
        stage.list_groups(states=[state])
    first.leave()
    second.leave()
    for state in states:
        stage.list_groups(states=[state])


@script
def a_group_is_listed_by_its_type(stage: Stage) -> None:
    topic = stage.topic("orders")
    Consumer(stage, "A").join(topic)
    for types in (["consumer"], ["Consumer", "classic"], ["CLASSIC"], ["share"], ["streams"]):
        stage.list_groups(types=types)
    stage.list_groups(states=["Stable"], types=["consumer"])
    stage.list_groups(states=["Empty"], types=["consumer"])


@script
def a_group_is_listed_in_old_versions(stage: Stage) -> None:
    topic = stage.topic("orders")
    Consumer(stage, "A").join(topic)
    for version in (0, 3, 4, 5):
        stage.list_groups(version=version)


@script
def unknown_types_and_states_in_a_list(stage: Stage) -> None:
    topic = stage.topic("orders")
    Consumer(stage, "A").join(topic)
    stage.list_groups(types=["no such type"])
    stage.list_groups(types=["no such type", "consumer"])
    stage.list_groups(states=["no such state"])
    stage.list_groups(types=[""])


@script
def an_assigning_group_is_described(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    stage.set_config({"consumer.assignment.interval.ms": "15000"})
    first.join(topic)
    second.join(topic)
    stage.describe()
    stage.list_groups()
    stage.list_groups(states=["assigning"])


@script
def a_group_after_a_member_left_is_assigning(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(topic)
    second.join(topic)
    second.leave()
    stage.describe()
    first.beat()
    stage.describe()


@script
def a_group_with_members_cannot_be_deleted(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A")
    member.join(topic)
    for version in (0, 1, 2):
        stage.delete_group(version=version)
    member.beat()


@script
def an_empty_group_is_deleted_with_its_offsets(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A")
    member.join(topic)
    member.commit({topic: {0: 1}})
    member.leave()
    stage.delete_group()
    stage.describe()
    stage.list_groups()
    stage.delete_group()
    Committer(stage, "admin").fetch_offsets({topic: [0]})


@script
def a_deleted_group_begins_again(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A")
    member.join(topic)
    member.leave()
    member.join(topic)
    member.leave()
    stage.delete_group()
    member.join(topic)
    stage.describe()


@script
def coordinators_are_found(stage: Stage) -> None:
    for version in (0, 3, 4, 5, 6):
        stage.find_coordinator(version=version)
    stage.find_coordinator(key_type=SHARE_KEY)
    stage.find_coordinator(key_type=7)
    stage.find_coordinator("")
