"""Offsets that members of the new protocol commit in transactions."""

from __future__ import annotations

import uuid

from tests.groups.kafka_answers.members import (
    ClassicConsumer,
    Committer,
    Consumer,
    TransactionalProducer,
)
from tests.groups.kafka_answers.script import script
from tests.groups.kafka_answers.stage import Stage, Topic

VERSIONS = (3, 4, 5)


@script
def offsets_count_after_the_commit(stage: Stage) -> None:
    topic = stage.topic("orders")
    member, producer = Consumer(stage, "A"), TransactionalProducer(stage, "P")
    member.join(topic)
    producer.commit_offsets({topic: {0: 5}}, member=member)
    member.fetch_offsets({topic: [0]})
    member.fetch_offsets({topic: [0, 1]}, require_stable=True)
    member.fetch_offsets(None, require_stable=True, version=9)
    producer.end()
    member.fetch_offsets({topic: [0]}, require_stable=True)


@script
def offsets_of_an_aborted_transaction_do_not_count(stage: Stage) -> None:
    topic = stage.topic("orders")
    member, producer = Consumer(stage, "A"), TransactionalProducer(stage, "P")
    member.join(topic)
    member.commit({topic: {0: 1}})
    producer.commit_offsets({topic: {0: 5}}, member=member)
    producer.end(commits=False)
    member.fetch_offsets({topic: [0]}, require_stable=True)


@script
def a_transactional_commit_in_wrong_epochs(stage: Stage) -> None:
    topic = stage.topic("orders")
    member, producer = Consumer(stage, "A"), TransactionalProducer(stage, "P")
    member.join(topic)
    for version in VERSIONS:
        producer.commit_offsets({topic: {0: 5}}, member=member, version=version)
        producer.commit_offsets(
            {topic: {0: 5}}, member=member, epoch=member.epoch + 1, version=version
        )
        producer.commit_offsets(
            {topic: {0: 5}}, member=member, epoch=member.epoch - 1, version=version
        )
        producer.end(commits=False)


@script
def a_transactional_commit_of_a_stranger(stage: Stage) -> None:
    topic = stage.topic("orders")
    member, producer = Consumer(stage, "A"), TransactionalProducer(stage, "P")
    member.join(topic)
    producer.commit_offsets({topic: {0: 5}}, member_id="B", epoch=member.epoch)
    producer.commit_offsets({topic: {0: 5}}, member_id="B", epoch=-1)
    producer.commit_offsets({topic: {0: 5}}, member_id="", epoch=member.epoch)
    producer.commit_offsets({topic: {0: 5}}, instance="i")
    producer.end(commits=False)


@script
def a_transactional_commit_that_says_nothing_of_a_member(stage: Stage) -> None:
    topic = stage.topic("orders")
    member, producer = Consumer(stage, "A"), TransactionalProducer(stage, "P")
    member.join(topic)
    producer.commit_offsets({topic: {0: 5}})
    producer.end()
    member.fetch_offsets({topic: [0]}, require_stable=True)


@script
def a_transactional_commit_to_no_group(stage: Stage) -> None:
    topic = stage.topic("orders")
    producer = TransactionalProducer(stage, "P")
    producer.commit_offsets({topic: {0: 5}}, member_id="A", epoch=1)
    producer.commit_offsets({topic: {0: 5}})
    producer.end()
    stage.list_groups()
    Committer(stage, "admin").fetch_offsets({topic: [0]}, require_stable=True)


@script
def a_transactional_commit_in_an_older_epoch_of_the_partition(stage: Stage) -> None:
    topic = stage.topic("orders", 4)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    producer = TransactionalProducer(stage, "P")
    first.join(topic)
    first.acknowledge()
    before = first.epoch
    second.join(topic)
    first.beat()
    first.acknowledge()
    producer.commit_offsets({topic: {0: 5}}, member=first, epoch=before)
    producer.commit_offsets({topic: {3: 5}}, member=first, epoch=before)
    nowhere = Topic("no-such-topic", uuid.UUID(int=7), "nowhere")
    producer.commit_offsets({nowhere: {0: 5}}, member=first, epoch=before)
    producer.commit_offsets({nowhere: {0: 5}}, member=first)
    producer.end()
    first.fetch_offsets(None, require_stable=True)


@script
def pending_offsets_keep_a_group_from_nothing(stage: Stage) -> None:
    topic = stage.topic("orders")
    member, producer = Consumer(stage, "A"), TransactionalProducer(stage, "P")
    member.join(topic)
    producer.commit_offsets({topic: {0: 5}}, member=member)
    member.leave()
    stage.delete_group()
    stage.describe()
    producer.end()
    Committer(stage, "admin").fetch_offsets({topic: [0]}, require_stable=True)


@script
def metadata_that_is_too_long_in_a_transaction(stage: Stage) -> None:
    topic = stage.topic("orders")
    member, producer = Consumer(stage, "A"), TransactionalProducer(stage, "P")
    member.join(topic)
    producer.commit_offsets({topic: {0: 5}}, member=member, metadata="m" * 4097)
    producer.end(commits=False)


@script
def a_classic_member_of_a_consumer_group_commits_in_a_transaction(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    member, producer = Consumer(stage, "A"), TransactionalProducer(stage, "P")
    classic = ClassicConsumer(stage, "C")
    member.join(topic)
    member.acknowledge()
    classic.join_fully(topic)
    classic.sync()
    for version in VERSIONS:
        producer.commit_offsets({topic: {0: 5}}, member=classic, version=version)
        producer.commit_offsets(
            {topic: {0: 5}}, member=classic, epoch=classic.generation + 1, version=version
        )
        producer.end(commits=False)
