"""Members of the new protocol come and go: epochs, fencing, lost answers."""

from __future__ import annotations

from tests.groups.kafka_answers.members import Consumer
from tests.groups.kafka_answers.script import script
from tests.groups.kafka_answers.stage import Stage


@script
def a_member_alone_gets_everything_at_once(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A")
    member.join(topic)
    stage.describe()
    member.acknowledge()
    member.beat()
    stage.describe()


@script
def a_group_is_empty_after_its_last_member_left(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A")
    member.join(topic)
    member.leave()
    stage.describe()
    member.beat(epoch=1)
    member.leave()


@script
def a_group_goes_on_at_its_epoch_after_it_was_empty(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A")
    member.join(topic)
    member.leave()
    member.join(topic)
    stage.describe()


@script
def a_second_member_waits_for_partitions_that_the_first_revokes(stage: Stage) -> None:
    topic = stage.topic("orders", 4)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(topic)
    first.acknowledge()
    second.join(topic)
    stage.describe()
    first.beat()
    stage.describe()
    second.beat()
    first.acknowledge()
    stage.describe()
    second.beat()
    second.acknowledge()
    first.beat()
    stage.describe()


@script
def a_member_that_does_not_say_what_it_owns_does_not_progress(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(topic)
    second.join(topic)
    first.beat()
    first.beat()
    first.beat(owned={topic: [0, 1]})
    first.acknowledge()
    second.beat()


@script
def partitions_that_a_member_never_owned_are_free_at_once(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(topic)
    second.join(topic)
    # It says at once that it owns none of what is to be revoked.
    first.beat(owned={})
    second.beat()
    first.beat()
    stage.describe()


@script
def three_members_one_after_the_other(stage: Stage) -> None:
    topic = stage.topic("orders", 6)
    members = [Consumer(stage, name) for name in "ABC"]
    for member in members:
        member.join(topic)
    for _ in range(3):
        for member in members:
            member.acknowledge()
    stage.describe()


@script
def members_that_all_leave_but_one_give_it_everything(stage: Stage) -> None:
    topic = stage.topic("orders", 6)
    members = [Consumer(stage, name) for name in "ABC"]
    for member in members:
        member.join(topic)
    for _ in range(3):
        for member in members:
            member.acknowledge()
    members[0].leave()
    members[2].leave()
    members[1].beat()
    stage.describe()
    members[1].acknowledge()
    stage.describe()


@script
def more_members_than_partitions(stage: Stage) -> None:
    topic = stage.topic("orders", 1)
    first, second, third = (Consumer(stage, name) for name in "ABC")
    first.join(topic)
    second.join(topic)
    third.join(topic)
    first.beat()
    stage.describe()


@script
def an_epoch_that_is_too_large_is_fenced(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A")
    member.join(topic)
    member.beat(epoch=member.epoch + 1)
    member.beat(epoch=2**31 - 1)
    member.beat()


@script
def an_epoch_that_is_too_small_is_fenced(stage: Stage) -> None:
    topic = stage.topic("orders")
    member, other = Consumer(stage, "A"), Consumer(stage, "B")
    member.join(topic)
    oldest = member.epoch
    other.join(topic)
    member.beat(owned={})
    third = Consumer(stage, "C")
    third.join(topic)
    member.beat(owned={})
    member.beat(epoch=oldest)
    member.beat(epoch=oldest, owned={})
    member.beat(epoch=1, owned={})
    member.beat()


@script
def a_fenced_member_joins_again_with_its_id(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A")
    member.join(topic)
    member.acknowledge()
    member.beat(epoch=9)
    member.join(topic)
    stage.describe()


@script
def a_lost_answer_to_a_join(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A")
    member.join(topic)
    member.join(topic)
    member.join(topic)
    stage.describe()


@script
def the_epoch_before_is_taken_with_a_subset_of_what_is_assigned(stage: Stage) -> None:
    topic = stage.topic("orders", 4)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(topic)
    first.acknowledge()
    second.join(topic)
    first.beat()
    kept, before = dict(first.assigned), first.epoch
    first.acknowledge()
    # The answer with the new epoch was lost.
    first.beat(epoch=before, owned=kept)
    first.beat(epoch=before, owned={topic: kept[topic][:1]})
    first.beat(epoch=before, owned={})


@script
def the_epoch_before_is_fenced_with_more_than_what_is_assigned(stage: Stage) -> None:
    topic = stage.topic("orders", 4)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(topic)
    first.acknowledge()
    second.join(topic)
    first.beat()
    before = first.epoch
    first.acknowledge()
    first.beat(epoch=before, owned={topic: [0, 1, 2, 3]})
    first.beat(epoch=before)
    other = stage.topic("others")
    first.beat(epoch=before, owned={other: [0]})


@script
def a_lost_answer_is_asked_for_again_in_full(stage: Stage) -> None:
    topic = stage.topic("orders", 4)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(topic)
    first.acknowledge()
    second.join(topic)
    first.full(topic)
    first.full(topic, owned={topic: [0, 1, 2, 3]})
    first.full(topic)
    first.full(topic)


@script
def a_full_heartbeat_is_always_answered_with_the_assignment(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A")
    member.join(topic)
    member.beat(topics=[topic])
    member.beat(rebalance_timeout_ms=1000)
    member.beat(owned={topic: [0, 1, 2]}, topics=[topic])
    member.beat(owned={topic: [0, 1, 2]}, rebalance_timeout_ms=1000)
    member.full(topic)
    member.full(topic, owned={})


@script
def a_member_joins_again_while_it_is_revoking(stage: Stage) -> None:
    topic = stage.topic("orders", 4)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(topic)
    first.acknowledge()
    second.join(topic)
    first.beat()
    first.join(topic)
    second.beat()
    stage.describe()


@script
def a_member_leaves_while_it_is_revoking(stage: Stage) -> None:
    topic = stage.topic("orders", 4)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(topic)
    first.acknowledge()
    second.join(topic)
    first.beat()
    first.leave()
    second.beat()
    stage.describe()


@script
def the_waiting_member_leaves_before_it_got_anything(stage: Stage) -> None:
    topic = stage.topic("orders", 4)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(topic)
    first.acknowledge()
    second.join(topic)
    first.beat()
    second.leave()
    first.beat()
    first.acknowledge()
    stage.describe()


@script
def another_rebalance_during_a_revocation(stage: Stage) -> None:
    topic = stage.topic("orders", 6)
    first, second, third = (Consumer(stage, name) for name in "ABC")
    first.join(topic)
    first.acknowledge()
    second.join(topic)
    first.beat()
    third.join(topic)
    first.acknowledge()
    second.beat()
    third.beat()
    for _ in range(2):
        for member in (first, second, third):
            member.acknowledge()
    stage.describe()


@script
def the_rack_and_the_client_are_described(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A", instance="i")
    member.join(topic, rack="here")
    stage.describe(version=0)
    member.beat(rack="there")
    stage.describe()


@script
def owned_partitions_of_unknown_topics_are_ignored(stage: Stage) -> None:
    topic, other = stage.topic("orders"), stage.topic("others")
    member = Consumer(stage, "A")
    member.join(topic)
    member.beat(owned={topic: [0, 1, 2], other: [0]})
    member.beat(owned={other: [5]})
    member.beat(owned={topic: [77]})
    stage.describe()


@script
def a_group_name_may_be_anything(stage: Stage) -> None:
    topic = stage.topic("orders")
    stage.group = stage.own_name("a group/with: spaces, ü and 中")
    Consumer(stage, "A").join(topic)
    stage.describe()
    stage.list_groups()
