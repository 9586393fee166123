"""Offsets of groups of the new protocol: who may commit and fetch, in which version, and what others hear."""

from __future__ import annotations

import uuid

from tests.groups.kafka_answers.members import ClassicConsumer, Committer, Consumer
from tests.groups.kafka_answers.script import script
from tests.groups.kafka_answers.stage import Stage, Topic

VERSIONS = (8, 9, 10)


def joined(stage: Stage, name: str, topic: Topic) -> Consumer:
    member = Consumer(stage, name)
    member.join(topic)
    member.acknowledge()
    return member


@script
def a_member_commits_and_fetches(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = joined(stage, "A", topic)
    for version in VERSIONS:
        member.commit({topic: {0: version, 1: version}}, version=version)
        member.fetch_offsets({topic: [0, 1, 2]}, version=version)
        member.fetch_offsets(None, version=version)


@script
def a_commit_in_an_epoch_that_is_too_large(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = joined(stage, "A", topic)
    for version in VERSIONS:
        member.commit({topic: {0: 1}}, version=version, epoch=member.epoch + 1)


@script
def a_commit_in_an_epoch_before_the_partition_was_assigned(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = joined(stage, "A", topic)
    for version in VERSIONS:
        member.commit({topic: {0: 1}}, version=version, epoch=member.epoch - 1)
        member.commit({topic: {0: 1}}, version=version, epoch=0)


@script
def a_commit_in_an_older_epoch_of_a_partition_that_was_assigned_then(stage: Stage) -> None:
    topic = stage.topic("orders", 4)
    first = joined(stage, "A", topic)
    before = first.epoch
    second = Consumer(stage, "B")
    second.join(topic)
    first.beat()
    # It still has to give up some of them.
    first.commit({topic: {0: 1, 3: 1}}, epoch=before)
    first.acknowledge()
    first.commit({topic: {0: 2}}, epoch=before)
    first.commit({topic: {3: 2}}, epoch=before)
    first.commit({topic: {0: 3, 3: 3}}, epoch=before)
    first.commit({topic: {3: 4}})
    second.beat()
    second.commit({topic: {3: 5}})
    second.commit({topic: {3: 5}}, epoch=before)
    Committer(stage, "admin").fetch_offsets()


@script
def a_member_may_commit_what_it_does_not_own(stage: Stage) -> None:
    orders, others = stage.topic("orders", 2), stage.topic("others", 2)
    member = joined(stage, "A", orders)
    member.commit({others: {0: 5}})
    member.commit({orders: {7: 5}})
    member.fetch_offsets(None)


@script
def a_stranger_cannot_commit(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = joined(stage, "A", topic)
    stranger = Committer(stage, "B")
    for version in VERSIONS:
        stranger.commit({topic: {0: 1}}, version=version, member_id="B", epoch=member.epoch)
        stranger.commit({topic: {0: 1}}, version=version, member_id="B", epoch=-1)
        stranger.commit({topic: {0: 1}}, version=version)
        stranger.commit({topic: {0: 1}}, version=version, epoch=member.epoch)


@script
def an_administrator_cannot_commit_for_a_group_with_members(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = joined(stage, "A", topic)
    admin = Committer(stage, "admin")
    admin.commit({topic: {0: 1}})
    member.commit({topic: {0: 1}}, epoch=-1)
    member.leave()
    admin.commit({topic: {0: 2}})
    admin.commit({topic: {0: 3}}, version=8)
    admin.fetch_offsets({topic: [0]})


@script
def a_commit_to_an_empty_consumer_group_as_a_member(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = joined(stage, "A", topic)
    epoch = member.epoch
    member.leave()
    for version in VERSIONS:
        member.commit({topic: {0: 1}}, version=version, epoch=epoch)
        member.commit({topic: {0: 1}}, version=version, epoch=-1)


@script
def a_commit_to_no_group(stage: Stage) -> None:
    topic = stage.topic("orders")
    someone = Committer(stage, "A")
    for version in VERSIONS:
        someone.commit({topic: {0: 1}}, version=version, member_id="A", epoch=1)
    stage.list_groups()
    someone.commit({topic: {0: 1}})
    stage.list_groups()


@script
def a_commit_to_topics_that_do_not_exist(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = joined(stage, "A", topic)
    nowhere = Topic("no-such-topic", uuid.UUID(int=7), "nowhere")
    for version in VERSIONS:
        member.commit({nowhere: {0: 1}, topic: {0: 1}}, version=version)
        member.fetch_offsets({nowhere: [0], topic: [0]}, version=version)
    zero = Topic("zero", uuid.UUID(int=0), "zero")
    member.commit({zero: {0: 1}})
    member.fetch_offsets({zero: [0]})


@script
def a_commit_of_a_partition_that_does_not_exist(stage: Stage) -> None:
    topic = stage.topic("orders", 1)
    member = joined(stage, "A", topic)
    for version in VERSIONS:
        member.commit({topic: {0: 1, 5: 1, -1: 1}}, version=version)
        member.fetch_offsets({topic: [0, 5, -1]}, version=version)


@script
def metadata_that_is_too_long(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = joined(stage, "A", topic)
    member.commit({topic: {0: 1}}, metadata="m" * 4097)
    member.commit({topic: {0: 1}}, metadata="m" * 4096)
    member.commit({topic: {0: 2}}, metadata=None)
    member.fetch_offsets({topic: [0]})


@script
def offsets_of_a_topic_that_was_deleted_and_made_again(stage: Stage) -> None:
    topic = stage.topic("orders", 1)
    member = joined(stage, "A", topic)
    member.commit({topic: {0: 5}})
    stage.delete_topic(topic)
    stage.settle()
    member.fetch_offsets({topic: [0]})
    again = stage.topic("orders", 1)
    member.fetch_offsets({again: [0]})
    member.fetch_offsets({topic: [0]})
    member.fetch_offsets({again: [0]}, version=9)
    member.fetch_offsets(None)


@script
def a_fetch_in_a_wrong_epoch(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = joined(stage, "A", topic)
    member.commit({topic: {0: 1}})
    for version in (9, 10):
        member.fetch_offsets({topic: [0]}, version=version, epoch=member.epoch - 1)
        member.fetch_offsets({topic: [0]}, version=version, epoch=member.epoch + 1)
        member.fetch_offsets(None, version=version, epoch=member.epoch + 1)
        member.fetch_offsets({topic: [0]}, version=version, epoch=-1)


@script
def a_fetch_by_a_stranger(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = joined(stage, "A", topic)
    member.commit({topic: {0: 1}})
    stranger = Committer(stage, "B")
    for version in (9, 10):
        stranger.fetch_offsets({topic: [0]}, version=version, member_id="B", epoch=member.epoch)
        stranger.fetch_offsets({topic: [0]}, version=version, member_id="", epoch=-1)
        stranger.fetch_offsets({topic: [0]}, version=version, member_id=None, epoch=member.epoch)
        stranger.fetch_offsets({topic: [0]}, version=version, member_id="", epoch=member.epoch)
        stranger.fetch_offsets({topic: [0]}, version=version)


@script
def a_fetch_from_no_group(stage: Stage) -> None:
    topic = stage.topic("orders")
    someone = Committer(stage, "A")
    for version in VERSIONS:
        someone.fetch_offsets({topic: [0]}, version=version)
        someone.fetch_offsets(None, version=version)
    someone.fetch_offsets({topic: [0]}, member_id="A", epoch=1)
    someone.fetch_offsets(None, member_id="A", epoch=1, version=9)


@script
def offsets_stay_when_the_members_are_gone(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = joined(stage, "A", topic)
    member.commit({topic: {0: 7}})
    member.leave()
    admin = Committer(stage, "admin")
    admin.fetch_offsets()
    again = joined(stage, "B", topic)
    again.fetch_offsets({topic: [0]})


@script
def offsets_of_subscribed_topics_cannot_be_deleted(stage: Stage) -> None:
    orders, others = stage.topic("orders"), stage.topic("others")
    member = joined(stage, "A", orders)
    member.commit({orders: {0: 1}, others: {0: 1}})
    stage.delete_offsets(orders, 0)
    stage.delete_offsets(others, 0)
    stage.delete_offsets(others, 0, 7)
    member.leave()
    stage.delete_offsets(orders, 0)
    Committer(stage, "admin").fetch_offsets()


@script
def offsets_of_topics_that_match_a_pattern_cannot_be_deleted(stage: Stage) -> None:
    orders = stage.topic("orders")
    member = Consumer(stage, "A")
    member.join(regex=f"orders-{stage.suffix}")
    stage.settle()
    stage.settle()
    member.beat()
    member.commit({orders: {0: 1}})
    stage.delete_offsets(orders, 0)
    member.leave()
    stage.delete_offsets(orders, 0)


@script
def offsets_of_no_group_cannot_be_deleted(stage: Stage) -> None:
    orders = stage.topic("orders")
    stage.delete_offsets(orders, 0)


@script
def a_member_that_is_revoking_commits_what_it_gives_up(stage: Stage) -> None:
    topic = stage.topic("orders", 4)
    first, second = joined(stage, "A", topic), Consumer(stage, "B")
    second.join(topic)
    first.beat()
    first.commit({topic: {0: 1, 1: 1, 2: 1, 3: 1}})
    first.fetch_offsets({topic: [0, 3]})
    second.commit({topic: {3: 9}})
    second.fetch_offsets({topic: [3]})


@script
def a_static_member_that_is_away_cannot_commit(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A", instance="i")
    member.join(topic)
    epoch = member.epoch
    member.leave_for_a_while()
    member.commit({topic: {0: 1}}, epoch=epoch)
    member.commit({topic: {0: 1}}, epoch=-2)
    member.fetch_offsets({topic: [0]}, epoch=epoch)
    member.fetch_offsets({topic: [0]}, epoch=-2)
    again = Consumer(stage, "B", instance="i")
    again.join(topic)
    member.commit({topic: {0: 1}}, epoch=epoch)
    again.commit({topic: {0: 2}}, instance="j")
    again.commit({topic: {0: 3}}, instance=None)
    again.fetch_offsets({topic: [0]})


@script
def classic_commits_to_a_classic_group_in_all_versions(stage: Stage) -> None:
    topic = stage.topic("orders")
    classic = ClassicConsumer(stage, "C")
    classic.join_fully(topic)
    classic.sync({classic: {topic: [0, 1, 2]}})
    for version in VERSIONS:
        classic.commit({topic: {0: version}}, version=version)
        classic.commit({topic: {0: 1}}, version=version, epoch=9)
        classic.commit({topic: {0: 1}}, version=version, member_id="B")
        classic.commit({topic: {0: 1}}, version=version, epoch=-1, member_id="")
        classic.fetch_offsets({topic: [0]}, version=version)
        classic.fetch_offsets({topic: [0]}, version=version, epoch=9)
        classic.fetch_offsets({topic: [0]}, version=version, member_id="B", epoch=1)


@script
def classic_members_of_a_consumer_group_commit(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    member = joined(stage, "A", topic)
    classic = ClassicConsumer(stage, "C")
    classic.join_fully(topic)
    classic.sync()
    for version in VERSIONS:
        classic.commit({topic: {0: version}}, version=version)
        classic.commit({topic: {0: 1}}, version=version, epoch=classic.generation + 1)
        classic.commit({topic: {0: 1}}, version=version, epoch=classic.generation - 1)
        classic.fetch_offsets({topic: [0]}, version=version)
        classic.fetch_offsets({topic: [0]}, version=version, epoch=classic.generation + 1)
    member.beat()
    member.acknowledge()
    classic.beat()
    classic.commit({topic: {1: 1}})
