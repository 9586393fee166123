"""What transactions have to do with any Kafka, of version 1 (before 4.0) and of version 2 (KIP-890)."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from typing import Any

import pytest
from tests.client.apache_kafka.stage import WAIT_SECONDS, Stage, case, read, read_until
from tests.waiting import in_time

import ottla
import ottla.aio
from ottla.client.model import ConsumerGroupMetadata
from ottla.errors import (
    AbortableError,
    CommitFailedError,
    ErrorCode,
    FatalError,
    IllegalStateError,
    KafkaError,
)
from ottla.model import TopicPartition
from ottla.records.batch import build_batch
from ottla.records.compression import Codec
from ottla.records.record import Record

WAIT = 10.0
FENCED = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)


def fail_inside(producer: ottla.Producer, topic: str) -> None:
    with producer.transaction():
        producer.send(topic, b"dropped", partition=0)
        raise ZeroDivisionError


@case(2, 1)
def test_only_what_is_committed_is_read(stage: Stage) -> None:
    topic = stage.topic(2)
    with stage.transactional() as producer:
        for number in range(6):
            producer.begin_transaction()
            for partition in range(2):
                producer.send(topic, b"%d" % number, partition=partition)
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
        # One without records leaves nothing, and what was not sent is dropped.
        with producer.transaction():
            pass
        with pytest.raises(ZeroDivisionError):
            fail_inside(producer, topic)
        with pytest.raises(IllegalStateError):
            producer.send(topic, b"outside")
        with producer.transaction():
            producer.send(topic, b"last", partition=1)
    kept = [b"0", b"2", b"4"]
    assert stage.values(topic) == [*kept, *kept, b"last"]
    assert set(kept) < set(stage.values(topic, "read_uncommitted"))
    offsets = [record.offset for record in stage.records(topic)]
    # A record and a marker for each of the six, whether it was sent or not: markers take offsets.
    assert offsets[-1] >= 6


@case(2, 1)
def test_batches_of_another_process_are_stamped_and_committed(stage: Stage) -> None:
    topic, name = stage.topic(2), stage.new_name("id")
    now_ms = time.time_ns() // 1_000_000

    def batch(*values: bytes, codec: Codec) -> bytes:
        records = [Record(index, now_ms, b"k", value) for index, value in enumerate(values)]
        return build_batch(records, codec=codec)

    with stage.transactional(transactional_id=name) as producer:
        for outcome in ("commit", "abort", "commit"):
            producer.begin_transaction()
            word = outcome.encode()
            for codec in (Codec.NONE, Codec.GZIP):
                producer.send_encoded(topic, 0, batch(word + b"1", word + b"2", codec=codec))
            producer.send(topic, word + b"3", partition=0)
            producer.send_encoded(topic, 1, batch(word + b"4", codec=Codec.NONE))
            getattr(producer, f"{outcome}_transaction")()
    once = [b"commit1", b"commit2", b"commit1", b"commit2", b"commit3"]
    assert stage.values(topic) == [*once, *once, b"commit4", b"commit4"]


@case(2, 1)
def test_a_producer_that_was_replaced_is_fenced(stage: Stage) -> None:
    topic, name = stage.topic(), stage.new_name("id")
    with (
        stage.transactional(transactional_id=name) as old,
        stage.transactional(transactional_id=stage.new_name("id")) as other,
    ):
        old.begin_transaction()
        old.send(topic, b"of the old").result(WAIT)
        with stage.transactional(transactional_id=name) as new, new.transaction():
            new.send(topic, b"of the new")
        with pytest.raises(FatalError) as fenced:
            old.commit_transaction()
        assert fenced.value.code in FENCED
        for call in (old.begin_transaction, old.abort_transaction, old.init_transactions):
            with pytest.raises((FatalError, IllegalStateError)) as later:
                call()
            assert str(fenced.value.code.name) in str(later.value)
        with other.transaction():
            other.send(topic, b"of another")
    assert stage.values(topic) == [b"of the new", b"of another"]


@case(2, 1)
def test_offsets_are_committed_with_the_transaction_and_a_group_id(stage: Stage) -> None:
    topic, group = stage.topic(2), stage.new_name("group")
    with stage.transactional() as producer:
        with producer.transaction():
            producer.send(topic, b"v")
            place = ottla.OffsetAndMetadata(5, "with words", 3)
            producer.send_offsets_to_transaction({(topic, 0): place}, group)
            producer.send_offsets_to_transaction({(topic, 1): 6}, group)
        producer.begin_transaction()
        producer.send_offsets_to_transaction({(topic, 0): 9, (topic, 1): 9}, group)
        producer.abort_transaction()
    expected = {
        TopicPartition(topic, 0): place,
        TopicPartition(topic, 1): ottla.OffsetAndMetadata(6),
    }
    # Before Kafka 2.5, nobody waits for the marker in the log of the group's offsets (KIP-447).
    deadline = time.monotonic() + WAIT_SECONDS
    while stage.admin.list_consumer_group_offsets(group)[group] != expected:
        in_time(deadline)


@case(2, 5)
def test_offsets_of_a_member_are_refused_when_its_group_has_moved_on(stage: Stage) -> None:
    source, target, group = stage.topic(), stage.topic(), stage.new_name("group")
    with stage.producer() as producer:
        producer.send_many(source, [b"1", b"2"]).result(WAIT)
    with (
        stage.transactional() as producer,
        stage.consumer(group_id=group, enable_auto_commit=False) as consumer,
    ):
        consumer.subscribe([source])
        read(consumer, 2)
        member = consumer.group_metadata()
        with producer.transaction():
            producer.send(target, b"first")
            producer.send_offsets_to_transaction({(source, 0): 1}, member)
        assert consumer.committed() == {(source, 0): ottla.OffsetAndMetadata(1)}
        for stale, code in (
            (member._replace(generation_id=member.generation_id + 5), ErrorCode.ILLEGAL_GENERATION),
            (member._replace(member_id="nobody"), ErrorCode.UNKNOWN_MEMBER_ID),
        ):
            producer.begin_transaction()
            producer.send(target, b"zombie")
            with pytest.raises(CommitFailedError) as refused:
                producer.send_offsets_to_transaction({(source, 0): 2}, stale)
            assert refused.value.code is code
            with pytest.raises(AbortableError):
                producer.commit_transaction()
            producer.abort_transaction()
        with producer.transaction():
            producer.send(target, b"second")
            producer.send_offsets_to_transaction({(source, 0): 2}, consumer.group_metadata())
        assert consumer.committed() == {(source, 0): ottla.OffsetAndMetadata(2)}
    assert stage.values(target) == [b"first", b"second"]


@case(2, 1)
def test_a_transaction_that_lasts_too_long_is_aborted_by_kafka(stage: Stage) -> None:
    topic = stage.topic()
    with stage.transactional(transaction_timeout_ms=1500) as producer:
        producer.begin_transaction()
        producer.send(topic, b"late").result(WAIT)
        # The abort marker is the second record of the log.
        with stage.consumer(isolation_level="read_committed") as consumer:
            deadline = time.monotonic() + WAIT_SECONDS
            while consumer.end_offsets([(topic, 0)])[TopicPartition(topic, 0)] < 2:
                in_time(deadline)
                time.sleep(0.05)
        with pytest.raises(KafkaError) as refused:
            producer.commit_transaction()
        assert isinstance(refused.value, FatalError | AbortableError)
    assert stage.values(topic) == []
    assert stage.values(topic, "read_uncommitted") == [b"late"]


@case(2, 1)
def test_a_reader_of_committed_records_waits_for_the_open_transaction(stage: Stage) -> None:
    topic = stage.topic()
    partition = TopicPartition(topic, 0)
    with (
        stage.transactional() as producer,
        stage.consumer(isolation_level="read_committed", fetch_max_wait_ms=50) as careful,
        stage.consumer(fetch_max_wait_ms=50) as hasty,
    ):
        producer.begin_transaction()
        producer.send(topic, b"v").result(WAIT)
        careful.assign([partition])
        hasty.assign([partition])
        assert [record.value for record in read(hasty, 1)] == [b"v"]
        assert not careful.poll(0.2)
        assert careful.end_offsets() == {partition: 0}
        assert hasty.end_offsets() == {partition: 1}
        producer.commit_transaction()
        assert [record.value for record in read(careful, 1)] == [b"v"]
        read_until([careful, hasty], [], lambda: careful.position(partition) == 2)


@case(2, 1)
def test_a_copier_on_asyncio_copies_each_record_once(stage: Stage) -> None:
    source, target, group = stage.topic(2), stage.topic(2), stage.new_name("group")
    with stage.producer() as producer:
        for partition in range(2):
            values = [b"%d-%d" % (partition, i) for i in range(50)]
            producer.send_many(source, values, partition=partition).result(WAIT)

    async def copy(expected: int, crash_after: int | None = None) -> int:
        options: dict[str, Any] = {"bootstrap_servers": stage.address}
        copied = rounds = 0
        deadline = time.monotonic() + 2 * WAIT_SECONDS
        async with (
            ottla.aio.Producer(transactional_id=group, **options) as producer,
            ottla.aio.Consumer(
                group_id=group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                max_poll_records=10,
                **options,
            ) as consumer,
        ):
            await producer.init_transactions()
            consumer.subscribe([source])
            while copied < expected:
                in_time(deadline, f"{copied} of {expected}")
                records = await consumer.poll(1.0)
                if not records:
                    continue
                rounds += 1
                producer.begin_transaction()
                for record in records:
                    await producer.send(target, record.value, partition=record.partition)
                # Before KIP-447 (Kafka 2.5), the group's id has to do.
                knows_members = stage.version >= (2, 5)
                member: ConsumerGroupMetadata | str = (
                    consumer.group_metadata() if knows_members else group
                )
                await producer.send_offsets_to_transaction(records.next_offsets, member)
                if rounds == crash_after:
                    return copied
                await producer.commit_transaction()
                copied += len(records)
            assert not await consumer.poll(0.5), "there is nothing more"
        return copied

    first = asyncio.run(copy(100, crash_after=4))
    second = asyncio.run(copy(100 - first))
    assert (first, second) == (30, 70)
    assert stage.values(target) == stage.values(source)


@case(3, 0)
def test_the_epoch_moves_with_every_transaction_of_version_2(stage: Stage) -> None:
    topic, name = stage.topic(), stage.new_name("id")
    is_version_2 = stage.admin.describe_features().finalized_features.get("transaction.version")
    epochs = []
    with stage.transactional(transactional_id=name) as producer:
        for _ in range(3):
            with producer.transaction():
                producer.send(topic, b"v").result(WAIT)
                described = stage.admin.describe_transactions([name])[name]
                assert [str(one) for one in described.partitions] == [f"{topic}-0"]
                epochs.append(described.producer_epoch)
    steps = [later - earlier for earlier, later in pairwise(epochs)]
    expected = 1 if is_version_2 is not None and is_version_2.max_version >= 2 else 0
    assert steps == [expected, expected]
