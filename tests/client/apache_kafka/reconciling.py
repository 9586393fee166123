"""What a consumer with group.protocol=consumer (KIP-848) has to do with any Kafka that has the protocol."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
from tests.client.apache_kafka.consuming import WAIT, fill
from tests.client.apache_kafka.stage import Case, Stage, numbers, read, read_until
from tests.waiting import in_time

import ottla
from ottla.admin import MemberToRemove
from ottla.errors import CommitFailedError, ErrorCode, KafkaError
from ottla.model import TopicPartition

EVERYTHING = [0, 1, 2, 3]
RECONCILING: list[Case] = []


def case(body: Any) -> Any:
    """A case; they are all for Kafka 4.0 and later."""
    RECONCILING.append(Case(body, (4, 0)))
    return body


class Told:
    """A listener that writes down what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int]]] = []
        self.threads: set[int] = set()

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._tell("revoked", partitions)

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._tell("assigned", partitions)

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._tell("lost", partitions)

    def _tell(self, what: str, partitions: Sequence[TopicPartition]) -> None:
        self.threads.add(threading.get_ident())
        if partitions:
            self.calls.append((what, numbers(partitions)))


def consumer(stage: Stage, group: str, **options: Any) -> ottla.Consumer:
    chosen = {"auto_offset_reset": "earliest", "group_protocol": "consumer", **options}
    return ottla.Consumer(bootstrap_servers=stage.address, group_id=group, **chosen)


def has(one: ottla.Consumer, count: int) -> bool:
    return len(one.assignment()) == count


@case
def test_members_share_the_partitions_and_read_every_record_once(stage: Stage) -> None:
    topic, group = stage.topic(4), stage.new_name("group")
    told, told_second = Told(), Told()
    values = fill(stage, topic, 4, 50)
    found: list[Any] = []
    with consumer(stage, group) as first:
        first.subscribe([topic], told)
        read_until([first], found, lambda: len(found) == 200)
        with consumer(stage, group) as second:
            second.subscribe([topic], told_second)
            both = [first, second]
            read_until(both, found, lambda: has(first, 2) and has(second, 2))
            assert not first.assignment() & second.assignment()
            values += fill(stage, topic, 4, 5)
            read_until(both, found, lambda: len(found) == 220)
        read_until([first], found, lambda: has(first, 4))
        values += fill(stage, topic, 4, 5)
        read_until([first], found, lambda: len(found) == 240)
    # Automatic commits: the other member went on with what one gave up.
    assert sorted(record.value for record in found) == sorted(values)
    described = stage.admin.list_consumer_group_offsets(group)[group]
    assert {place.offset for place in described.values() if place} == {60}
    moved = told_second.calls[0][1]
    assert told.calls == [
        ("assigned", EVERYTHING),
        ("revoked", moved),
        ("assigned", moved),
        ("revoked", EVERYTHING),
    ]
    assert told_second.calls == [("assigned", moved), ("revoked", moved)]
    assert told.threads == {threading.get_ident()}


@case
def test_offsets_are_committed_with_the_epoch_of_the_member(stage: Stage) -> None:
    topic, group = stage.topic(2), stage.new_name("group")
    fill(stage, topic, 2, 10)
    with consumer(stage, group, enable_auto_commit=False) as one:
        one.subscribe([topic])
        read(one, 20)
        one.commit({(topic, 0): ottla.OffsetAndMetadata(4, "words")})
        done: list[Any] = []
        one.commit_async({(topic, 1): 6}, lambda *outcome: done.append(outcome))
        read_until([one], [], lambda: bool(done))
        assert done[0][1] is None
        member = one.group_metadata()
        assert member.generation_id > 0
        # Only members of the group commit for it while it has any.
        with ottla.Consumer(bootstrap_servers=stage.address, group_id=group) as stranger:
            stranger.assign([(topic, 0)])
            with pytest.raises(CommitFailedError):
                stranger.commit({(topic, 0): 1}, WAIT)
    with consumer(stage, group, enable_auto_commit=False) as one:
        one.subscribe([topic])
        found = read(one, 10)
        assert {record.offset for record in found if record.partition == 0} == set(range(4, 10))
        assert one.committed([(topic, 0)]) == {
            TopicPartition(topic, 0): ottla.OffsetAndMetadata(4, "words")
        }


@case
def test_a_listener_commits_what_it_gives_up(stage: Stage) -> None:
    class Committing(Told):
        def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            super().on_partitions_revoked(partitions)
            first.commit({each: first.position(each) for each in partitions})

    topic, group = stage.topic(2), stage.new_name("group")
    fill(stage, topic, 2, 5)
    found: list[Any] = []
    with consumer(stage, group, enable_auto_commit=False) as first:
        first.subscribe([topic], Committing())
        read_until([first], found, lambda: len(found) == 10)
        with consumer(stage, group, enable_auto_commit=False) as second:
            second.subscribe([topic])
            read_until([first, second], found, lambda: has(first, 1) and has(second, 1))
            (moved,) = second.assignment()
            assert second.position(moved) == 5
    assert len(found) == 10


@case
def test_a_static_member_comes_back_to_its_partitions(stage: Stage) -> None:
    topic, group = stage.topic(2), stage.new_name("group")
    with consumer(stage, group) as other:
        other.subscribe([topic])
        with consumer(stage, group, group_instance_id="one") as static:
            static.subscribe([topic])
            read_until([other, static], [], lambda: has(other, 1) and has(static, 1))
            before, member = static.assignment(), static.group_metadata()
        told = Told()
        with consumer(stage, group, group_instance_id="one") as static:
            static.subscribe([topic], told)
            read_until([other, static], [], lambda: has(static, 1))
            assert static.assignment() == before
            after = static.group_metadata()
            assert (after.group_instance_id, after.generation_id) == ("one", member.generation_id)
            assert after.member_id != member.member_id
            with consumer(stage, group, group_instance_id="one") as impostor:
                impostor.subscribe([topic])
                with pytest.raises(KafkaError) as refused:
                    read_until([impostor], [], lambda: False)
                assert refused.value.code is ErrorCode.UNRELEASED_INSTANCE_ID
        assert has(other, 1)


@case
def test_the_broker_finds_topics_of_a_pattern(stage: Stage) -> None:
    topic = stage.topic()
    fill(stage, topic, 1, 1)
    group = stage.new_name("group")
    with consumer(stage, group, metadata_max_age_ms=300_000) as one:
        told = Told()
        one.subscribe(ottla.SubscriptionPattern(f"{topic}.*"), told)
        read(one, 1)
        assert one.subscription() == {topic}
        one.unsubscribe()
        one.subscribe(ottla.SubscriptionPattern("(["))
        with pytest.raises(KafkaError) as refused:
            read_until([one], [], lambda: False)
        assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert told.calls == [("assigned", [0]), ("revoked", [0])]


@case
def test_the_client_finds_topics_of_its_own_patterns(stage: Stage) -> None:
    topic, group = stage.topic(), stage.new_name("group")
    fill(stage, topic, 1, 1)
    with consumer(stage, group, metadata_max_age_ms=200) as one:
        one.subscribe(re.compile(f"{topic}.*"))
        read(one, 1)
        later = f"{topic}-later"
        stage.admin.create_topics([ottla.admin.NewTopic(later, 2, 1)])
        read_until([one], [], lambda: has(one, 3))
        assert one.subscription() == {topic, later}


@case
def test_partitions_that_are_added_are_assigned(stage: Stage) -> None:
    topic, group = stage.topic(), stage.new_name("group")
    with consumer(stage, group, metadata_max_age_ms=300_000) as one:
        one.subscribe([topic])
        read_until([one], [], lambda: has(one, 1))
        stage.admin.create_partitions({topic: 3})
        read_until([one], [], lambda: has(one, 3))
        fill(stage, topic, 3, 1)
        assert len(read(one, 3)) == 3


@case
def test_another_subscription_replaces_the_first(stage: Stage) -> None:
    old, new, group = stage.topic(2), stage.topic(3), stage.new_name("group")
    with consumer(stage, group) as one:
        told = Told()
        one.subscribe([old], told)
        read_until([one], [], lambda: has(one, 2))
        one.subscribe([new], told)
        read_until([one], [], lambda: {each.topic for each in one.assignment()} == {new})
        assert has(one, 3)
        assert told.calls == [("assigned", [0, 1]), ("revoked", [0, 1]), ("assigned", [0, 1, 2])]


@case
def test_the_assignor_is_the_one_of_the_option(stage: Stage) -> None:
    topic, group = stage.topic(4), stage.new_name("group")
    with (
        consumer(stage, group, group_remote_assignor="range") as first,
        consumer(stage, group, group_remote_assignor="range") as second,
    ):
        first.subscribe([topic])
        second.subscribe([topic])
        read_until([first, second], [], lambda: has(first, 2) and has(second, 2))
        shares = sorted(numbers(one.assignment()) for one in (first, second))
        assert shares == [[0, 1], [2, 3]]
    with consumer(stage, stage.new_name("group"), group_remote_assignor="best") as one:
        one.subscribe([topic])
        with pytest.raises(KafkaError) as refused:
            read_until([one], [], lambda: False)
        assert refused.value.code is ErrorCode.UNSUPPORTED_ASSIGNOR


@case
def test_a_consumer_that_does_not_poll_leaves_and_comes_back(stage: Stage) -> None:
    topic, group = stage.topic(1), stage.new_name("group")
    with consumer(stage, group, max_poll_interval_ms=500, enable_auto_commit=False) as one:
        told = Told()
        one.subscribe([topic], told)
        read_until([one], [], lambda: has(one, 1))
        deadline = time.monotonic() + WAIT
        with consumer(stage, group) as other:
            other.subscribe([topic])
            while not other.assignment():
                in_time(deadline, "the partition did not move")
                other.poll(0.1)
            with pytest.raises(CommitFailedError, match=r"max\.poll\.interval\.ms"):
                one.commit({(topic, 0): 1})
        read_until([one], [], lambda: len(told.calls) == 3)
        assert told.calls == [("assigned", [0]), ("lost", [0]), ("assigned", [0])]


@case
def test_a_member_that_an_administrator_removed_joins_again(stage: Stage) -> None:
    topic, group = stage.topic(2), stage.new_name("group")
    with consumer(stage, group, group_instance_id="one", enable_auto_commit=False) as one:
        told = Told()
        one.subscribe([topic], told)
        read_until([one], [], lambda: has(one, 2))
        member = one.group_metadata()
        stage.admin.remove_members_from_consumer_group(group, [MemberToRemove("one")])
        read_until([one], [], lambda: len(told.calls) == 3)
        assert told.calls == [("assigned", [0, 1]), ("lost", [0, 1]), ("assigned", [0, 1])]
        assert one.group_metadata().member_id == member.member_id


@case
def test_offsets_of_a_member_that_was_removed_are_refused_in_transactions(stage: Stage) -> None:
    topic, group = stage.topic(1), stage.new_name("group")
    with (
        stage.transactional() as producer,
        consumer(stage, group, group_instance_id="one", enable_auto_commit=False) as one,
    ):
        one.subscribe([topic])
        read_until([one], [], lambda: has(one, 1))
        member = one.group_metadata()
        with producer.transaction():
            producer.send_offsets_to_transaction({(topic, 0): 1}, member)
        stage.admin.remove_members_from_consumer_group(group, [MemberToRemove("one")])
        producer.begin_transaction()
        with pytest.raises(KafkaError) as refused:
            producer.send_offsets_to_transaction({(topic, 0): 2}, member)
        assert refused.value.code in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.FENCED_INSTANCE_ID,
        )
        producer.abort_transaction()
        read_until([one], [], lambda: has(one, 1) and one.group_metadata() != member)
        producer.begin_transaction()
        producer.send_offsets_to_transaction({(topic, 0): 3}, one.group_metadata())
        producer.commit_transaction()
        found = one.committed([(topic, 0)])[TopicPartition(topic, 0)]
        assert found is not None
        assert found.offset == 3


class Copier(threading.Thread):
    """A member that copies records in transactions until it is told to stop, and gives up nothing half done."""

    def __init__(self, stage: Stage, source: str, target: str, group: str) -> None:
        super().__init__(daemon=True)
        self.stage, self.source, self.target, self.group = stage, source, target, group
        self.is_over = threading.Event()
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.copy()
        except BaseException as error:
            self.error = error

    def copy(self) -> None:
        options: dict[str, Any] = {
            "enable_auto_commit": False,
            "isolation_level": "read_committed",
            "max_poll_records": 7,
        }
        with (
            self.stage.transactional() as producer,
            consumer(self.stage, self.group, **options) as one,
        ):
            one.subscribe([self.source])
            while not self.is_over.is_set():
                records = one.poll(0.05)
                if not records:
                    continue
                producer.begin_transaction()
                try:
                    for record in records:
                        producer.send(self.target, record.value, partition=record.partition)
                    producer.send_offsets_to_transaction(records.next_offsets, one.group_metadata())
                    producer.commit_transaction()
                except ottla.AbortableError:
                    producer.abort_transaction()
                    for partition in one.assignment():
                        place = one.committed([partition])[partition]
                        one.seek(partition, place.offset if place else 0)

    def end(self) -> None:
        self.is_over.set()
        self.join(2 * WAIT)
        if self.error is not None:
            raise self.error


@case
def test_copiers_that_come_and_go_copy_each_record_once(stage: Stage) -> None:
    source, target, group = stage.topic(4), stage.topic(4), stage.new_name("group")
    values = fill(stage, source, 4, 100)
    first = Copier(stage, source, target, group)
    second = Copier(stage, source, target, group)
    deadline = time.monotonic() + 3 * WAIT
    while len(stage.values(target)) < 100:
        in_time(deadline, "nothing is copied")
    first.end()
    values += fill(stage, source, 4, 50)
    third = Copier(stage, source, target, group)
    while len(stage.values(target)) < len(values):
        in_time(deadline, "not everything is copied")
    second.end()
    third.end()
    assert sorted(stage.values(target)) == sorted(values)
    for number in range(4):
        copied = [r.value for r in stage.records(target) if r.partition == number]
        assert copied == [r.value for r in stage.records(source) if r.partition == number]


@case
def test_members_of_both_protocols_share_a_group(stage: Stage) -> None:
    """A rolling change of the option: the classic member first, then both, then the new one alone."""
    topic, group = stage.topic(4), stage.new_name("group")
    values = fill(stage, topic, 4, 10)
    found: list[Any] = []
    with consumer(stage, group) as new:
        with stage.consumer(
            group_id=group, partition_assignment_strategy="cooperative-sticky"
        ) as classic:
            classic.subscribe([topic])
            read_until([classic], found, lambda: len(found) == 40)
            new.subscribe([topic])
            both = [classic, new]
            read_until(both, found, lambda: has(classic, 2) and has(new, 2))
            assert not classic.assignment() & new.assignment()
            values += fill(stage, topic, 4, 10)
            read_until(both, found, lambda: len(found) == 80)
        read_until([new], found, lambda: has(new, 4))
        values += fill(stage, topic, 4, 10)
        read_until([new], found, lambda: len(found) == 120)
    assert sorted(record.value for record in found) == sorted(values)
