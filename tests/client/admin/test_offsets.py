"""Offsets of partitions and of groups, and records that are deleted."""

from __future__ import annotations

import threading
import time

import pytest
from tests.broker import group_requests
from tests.broker import txn_requests as ask
from tests.broker.requests import fill, produce, records_of
from tests.client.admin.stage import Stage, essential

import ottla
from ottla.admin import EpochEnd, IsolationLevel, NewTopic, OffsetSpec
from ottla.client.blocking.admin import Admin
from ottla.client.model import OffsetAndMetadata
from ottla.errors import ErrorCode, KafkaError, PartialFailureError
from ottla.model import TopicPartition
from ottla.records.batch import build_batch

READ_COMMITTED = IsolationLevel.READ_COMMITTED


def append_at(stage: Stage, topic: str, *times_ms: int) -> None:
    for time_ms in times_ms:
        data = build_batch(records_of(b"value", timestamp_ms=time_ms))
        assert produce(stage.connection, topic, data).error_code == ErrorCode.NONE


def offset(stage: Stage, topic: str, spec: OffsetSpec | int) -> int:
    return stage.admin.list_offsets({(topic, 0): spec})[TopicPartition(topic, 0)].offset


@essential
def test_offsets_are_listed_by_position_and_by_time(stage: Stage) -> None:
    # Kafka soon deletes what is older than a week.
    topic, now = stage.topic(), int(time.time() * 1000)
    append_at(stage, topic, now + 1000, now + 5000, now + 3000)
    stage.admin.delete_records({(topic, 0): 1})
    assert offset(stage, topic, OffsetSpec.EARLIEST) == 1
    assert offset(stage, topic, OffsetSpec.LATEST) == 3
    assert offset(stage, topic, now + 3000) == 1
    assert offset(stage, topic, now + 9000) == -1
    newest = stage.admin.list_offsets({(topic, 0): OffsetSpec.MAX_TIMESTAMP})[(topic, 0)]  # type: ignore[index]
    assert (newest.offset, newest.timestamp_ms) == (1, now + 5000)
    assert newest.leader_epoch is not None


def test_leaders_are_looked_up_once(ottla_broker: ottla.Broker, stage: Stage) -> None:
    topic = stage.topic(3)
    partitions = [(topic, number) for number in range(3)]
    with Admin(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
        admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
        asked = admin.metrics()["request-total{api=Metadata}"]
        for _ in range(3):
            admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
        admin.delete_records({partitions[0]: 0})
        assert admin.metrics()["request-total{api=Metadata}"] == asked


@essential
def test_a_topic_that_was_deleted_is_not_found_where_its_leader_was(stage: Stage) -> None:
    topic = stage.topic()
    stage.admin.delete_topics([topic])
    assert stage.comes_true(lambda: topic not in stage.admin.list_topics())
    with pytest.raises(KafkaError) as error:
        stage.admin.list_offsets({(topic, 0): OffsetSpec.LATEST}, timeout=9)
    assert error.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@essential
def test_the_end_is_the_last_stable_offset_for_who_reads_committed(stage: Stage) -> None:
    topic, transactional_id = stage.topic(), ask.new_id()
    fill(stage.connection, topic, b"plain")
    ask.await_coordinator(stage.connection, transactional_id)
    who = ask.become(stage.connection, transactional_id)
    assert ask.send(stage.connection, transactional_id, who, topic) is ErrorCode.NONE
    key = TopicPartition(topic, 0)
    latest = {key: OffsetSpec.LATEST}
    assert stage.admin.list_offsets(latest)[key].offset == 2
    assert stage.admin.list_offsets(latest, isolation_level=READ_COMMITTED)[key].offset == 1
    stage.admin.fence_producers([transactional_id])
    assert ask.is_healed(stage.connection, topic)


@essential
def test_partitions_that_do_not_exist_fail_alone_and_soon(stage: Stage) -> None:
    topic, missing = stage.topic(), stage.new_name()
    with pytest.raises(PartialFailureError) as error:
        stage.admin.list_offsets({(topic, 0): 0, (topic, 7): 0, (missing, 0): 0}, timeout=9)
    assert list(error.value.results) == [(topic, 0)]
    codes = {key: one.code for key, one in error.value.errors.items()}
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == {(topic, 7): unknown, (missing, 0): unknown}


def test_a_number_below_all_specs_is_refused(stage: Stage) -> None:
    with pytest.raises(ValueError, match="-7"):
        stage.admin.list_offsets({("any", 0): -7})


@essential
def test_leader_epochs_end_somewhere(stage: Stage) -> None:
    topic = stage.topic()
    fill(stage.connection, topic, b"a", b"b")
    (partition,) = stage.admin.describe_topics([topic])[topic].partitions
    assert partition.leader_epoch is not None
    found = stage.admin.offsets_for_leader_epochs({(topic, 0): partition.leader_epoch})
    assert found == {TopicPartition(topic, 0): EpochEnd(partition.leader_epoch, 2)}


@essential
def test_records_before_an_offset_are_deleted(stage: Stage) -> None:
    topic = stage.topic(2)
    fill(stage.connection, topic, b"a", b"b", b"c")
    fill(stage.connection, topic, b"d", partition=1)
    found = stage.admin.delete_records({(topic, 0): 2, (topic, 1): -1})
    assert found == {TopicPartition(topic, 0): 2, TopicPartition(topic, 1): 1}
    with pytest.raises(KafkaError) as error:
        stage.admin.delete_records({(topic, 0): 9})
    assert error.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


@essential
def test_groups_offsets_are_set_listed_and_forgotten(stage: Stage) -> None:
    topic, group = stage.topic(2), stage.new_name()
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    kept = OffsetAndMetadata(7, "a note", 0)
    stage.admin.alter_consumer_group_offsets(group, {first: kept, second: 3})
    found = stage.admin.list_consumer_group_offsets(group)
    assert found == {group: {first: kept, second: OffsetAndMetadata(3)}}
    stage.admin.delete_consumer_group_offsets(group, [second])
    assert stage.admin.list_consumer_group_offsets([group]) == {group: {first: kept}}
    some = stage.admin.list_consumer_group_offsets({group: [second]}, require_stable=True)
    assert some == {group: {second: None}}


@essential
def test_offsets_of_many_groups_come_in_one_call(stage: Stage) -> None:
    topic = stage.topic(2)
    groups = [stage.new_name() for _ in range(4)]
    for number, group in enumerate(groups):
        stage.admin.alter_consumer_group_offsets(group, {(topic, 0): number, (topic, 1): number})
    found = stage.admin.list_consumer_group_offsets(
        {groups[0]: None, groups[1]: [(topic, 1)], groups[2]: [(topic, 0)], groups[3]: []}
    )
    assert [list(one) for one in found.values()] == [
        [(topic, 0), (topic, 1)],
        [(topic, 1)],
        [(topic, 0)],
        [],
    ]


@essential
def test_a_partition_that_cannot_be_committed_fails_alone(stage: Stage) -> None:
    topic, group = stage.topic(), stage.new_name()
    good, bad = TopicPartition(topic, 0), TopicPartition(stage.new_name(), 0)
    with pytest.raises(PartialFailureError) as error:
        stage.admin.alter_consumer_group_offsets(group, {good: 1, bad: 1})
    assert list(error.value.results) == [good]
    assert error.value.errors[bad].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert stage.admin.list_consumer_group_offsets(group)[group] == {good: OffsetAndMetadata(1)}


@essential
def test_a_group_with_members_keeps_its_offsets(stage: Stage) -> None:
    topic, group = stage.topic(), stage.new_name()
    group_requests.await_coordinator(stage.connection, group)
    member = group_requests.enter(stage.connection, group)
    with pytest.raises(KafkaError) as error:
        stage.admin.alter_consumer_group_offsets(group, {(topic, 0): 1})
    assert error.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    group_requests.leave(stage.connection, group, (member.member_id, None))


@essential
def test_offsets_of_a_group_that_does_not_exist(stage: Stage) -> None:
    topic, group = stage.topic(), stage.new_name()
    assert stage.admin.list_consumer_group_offsets([group]) == {group: {}}
    with pytest.raises(KafkaError) as error:
        stage.admin.delete_consumer_group_offsets(group, [(topic, 0)])
    assert error.value.code is ErrorCode.GROUP_ID_NOT_FOUND


@essential
def test_stable_offsets_wait_for_the_transaction(stage: Stage) -> None:
    topic, group, transactional_id = stage.topic(), stage.new_name(), ask.new_id()
    stage.admin.alter_consumer_group_offsets(group, {(topic, 0): 1})
    ask.await_coordinator(stage.connection, transactional_id)
    who = ask.become(stage.connection, transactional_id)
    ask.add_offsets(stage.connection, transactional_id, who, group)
    ask.commit_offsets(stage.connection, transactional_id, who, group, {(topic, 0): 5})
    list_offsets = stage.admin.list_consumer_group_offsets
    assert list_offsets(group)[group] == {(topic, 0): OffsetAndMetadata(1)}
    with pytest.raises(KafkaError, match="UNSTABLE_OFFSET_COMMIT"):
        list_offsets(group, require_stable=True, timeout=1.5)
    timer = threading.Timer(0.2, lambda: stage.admin.fence_producers([transactional_id]))
    timer.start()
    assert list_offsets(group, require_stable=True)[group] == {(topic, 0): OffsetAndMetadata(1)}
    timer.join()


def test_partitions_of_all_leaders_are_asked_together(
    three: ottla.Broker, admin_of_three: Admin
) -> None:
    admin_of_three.create_topics([NewTopic("by-leader", 9)])
    partitions = [TopicPartition("by-leader", number) for number in range(9)]
    before = admin_of_three.metrics().get("request-total{api=ListOffsets}", 0)
    found = admin_of_three.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    assert list(found) == partitions
    assert admin_of_three.metrics()["request-total{api=ListOffsets}"] == before + 3
    assert admin_of_three.delete_records(dict.fromkeys(partitions, -1)) == dict.fromkeys(
        partitions, 0
    )
    groups = [f"together-{number}" for number in range(9)]
    for group in groups:
        admin_of_three.alter_consumer_group_offsets(group, {partitions[0]: 1})
    before = admin_of_three.metrics().get("request-total{api=OffsetFetch}", 0)
    assert list(admin_of_three.list_consumer_group_offsets(groups)) == groups
    assert admin_of_three.metrics()["request-total{api=OffsetFetch}"] <= before + 3
