"""What a consumer has to do with any Kafka."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from tests.client.apache_kafka.stage import WAIT_SECONDS, Stage, case, numbers, read, read_until
from tests.waiting import in_time

import ottla
import ottla.aio
from ottla.errors import CommitFailedError, ErrorCode, FatalError, NoOffsetError
from ottla.model import TopicPartition

WAIT = 10.0


class Told:
    """A listener that writes down what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int]]] = []

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append(("revoked", numbers(partitions)))

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append(("assigned", numbers(partitions)))


def fill(stage: Stage, topic: str, partitions: int, count: int) -> list[bytes]:
    """So many records in each partition; all values."""
    values = []
    with stage.producer() as producer:
        for partition in range(partitions):
            some = [b"%d-%d" % (partition, i) for i in range(count)]
            producer.send_many(topic, some, partition=partition).result(WAIT)
            values += some
    return values


def share(stage: Stage, strategy: str) -> tuple[Told, Told, list[Any]]:
    """Two members share four partitions, and the second leaves; what they were told and read."""
    topic, group = stage.topic(4), stage.new_name("group")
    told, told_second = Told(), Told()
    options: dict[str, Any] = {"group_id": group, "partition_assignment_strategy": strategy}
    values = fill(stage, topic, 4, 50)
    found: list[Any] = []
    with stage.consumer(**options) as first:
        first.subscribe([topic], told)
        read_until([first], found, lambda: len(found) == 200)
        assert sorted(record.value for record in found) == sorted(values)
        with stage.consumer(**options) as second:
            second.subscribe([topic], told_second)
            both = [first, second]
            read_until(both, found, lambda: all(len(one.assignment()) == 2 for one in both))
            assert not first.assignment() & second.assignment()
            values += fill(stage, topic, 4, 5)
            read_until(both, found, lambda: len(found) == 220)
        read_until([first], found, lambda: len(first.assignment()) == 4)
        values += fill(stage, topic, 4, 5)
        read_until([first], found, lambda: len(found) == 240)
    # Automatic commits: what one member gave up, the other went on with.
    assert sorted(record.value for record in found) == sorted(values)
    described = stage.admin.list_consumer_group_offsets(group)[group]
    assert {place.offset for place in described.values() if place} == {60}
    return told, told_second, found


@case(2, 1)
def test_two_members_share_the_partitions(stage: Stage) -> None:
    told, told_second, _ = share(stage, "range")
    everything = [0, 1, 2, 3]
    assert [call for call in told.calls if call[1]] == [
        ("assigned", everything),
        ("revoked", everything),
        told.calls[2],
        ("revoked", told.calls[2][1]),
        ("assigned", everything),
        ("revoked", everything),
    ]
    assert sorted(told.calls[2][1] + told_second.calls[0][1]) == everything


@case(2, 1)
def test_cooperative_members_give_up_only_what_moves(stage: Stage) -> None:
    told, told_second, _ = share(stage, "cooperative-sticky")
    moved = told_second.calls[-1][1]
    assert len(moved) == 2
    assert [call for call in told.calls if call[1]] == [
        ("assigned", [0, 1, 2, 3]),
        ("revoked", moved),
        ("assigned", moved),
        ("revoked", [0, 1, 2, 3]),
    ]


@case(2, 1)
def test_round_robin_and_sticky_share_as_well(stage: Stage) -> None:
    for strategy in ("roundrobin", "sticky"):
        share(stage, strategy)


@case(2, 3)
def test_a_static_member_comes_back_without_a_rebalance(stage: Stage) -> None:
    topic, group = stage.topic(2), stage.new_name("group")
    options: dict[str, Any] = {"group_id": group, "group_instance_id": "one"}
    fill(stage, topic, 2, 5)
    with stage.consumer(**options) as consumer:
        consumer.subscribe([topic])
        read(consumer, 10)
        before = consumer.group_metadata()
    with stage.consumer(**options) as consumer:
        consumer.subscribe([topic])
        read_until([consumer], [], lambda: len(consumer.assignment()) == 2)
        after = consumer.group_metadata()
        assert (after.group_instance_id, after.generation_id) == ("one", before.generation_id)
        assert after.member_id != before.member_id
        with stage.consumer(**options) as impostor:
            impostor.subscribe([topic])
            read_until([impostor], [], lambda: len(impostor.assignment()) == 2)
            with pytest.raises(FatalError) as fenced:
                consumer.commit({(topic, 0): 1})
            assert fenced.value.code is ErrorCode.FENCED_INSTANCE_ID
            with pytest.raises(FatalError) as later:
                consumer.poll(WAIT)
            assert later.value.code is ErrorCode.FENCED_INSTANCE_ID


@case(2, 1)
def test_commits_are_found_again(stage: Stage) -> None:
    topic, group = stage.topic(2), stage.new_name("group")
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    fill(stage, topic, 2, 10)
    told: list[Any] = []
    with stage.consumer(group_id=group, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        assert consumer.committed([first, second]) == {first: None, second: None}
        read(consumer, 20)
        consumer.commit({(topic, 0): ottla.OffsetAndMetadata(4, "words", 0)})
        place = ottla.OffsetAndMetadata(6)
        consumer.commit_async({second: place}, lambda *outcome: told.append(outcome))
        read_until([consumer], [], lambda: bool(told))
        assert told == [({second: place}, None)]
        with pytest.raises(ottla.KafkaError) as refused:
            consumer.commit({first: ottla.OffsetAndMetadata(1, "x" * 5000)})
        assert refused.value.code is ErrorCode.OFFSET_METADATA_TOO_LARGE
    with stage.consumer(group_id=group, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        found = read(consumer, 10)
        assert {record.offset for record in found if record.partition == 0} == set(range(4, 10))
        assert {record.offset for record in found if record.partition == 1} == set(range(6, 10))
        assert consumer.committed() == {
            first: ottla.OffsetAndMetadata(4, "words", 0),
            second: place,
        }
        consumer.commit()
        assert {place.offset for place in consumer.committed().values() if place} == {10}


@case(2, 1)
def test_a_consumer_goes_where_it_is_told(stage: Stage) -> None:
    topic = stage.topic()
    partition = TopicPartition(topic, 0)
    with stage.producer() as producer:
        for i in range(10):
            producer.send(topic, b"%d" % i, timestamp_ms=1000 + 10 * i).result(WAIT)
    with stage.consumer(fetch_max_wait_ms=50) as consumer:
        consumer.assign([partition])
        assert (consumer.position(partition), len(read(consumer, 10))) == (0, 10)
        consumer.seek(partition, 7)
        assert [record.offset for record in read(consumer, 3)] == [7, 8, 9]
        consumer.seek_to_beginning()
        assert consumer.position(partition) == 0
        consumer.pause()
        assert not consumer.poll(0.2)
        consumer.resume()
        assert len(read(consumer, 10)) == 10
        consumer.seek_to_end()
        assert consumer.position(partition) == 10
        assert not consumer.poll(0.1)
        assert consumer.beginning_offsets() == {partition: 0}
        assert consumer.end_offsets() == {partition: 10}
        found = consumer.offsets_for_times({partition: 1035})[partition]
        assert found is not None
        assert (found.offset, found.timestamp_ms) == (4, 1040)
        assert consumer.offsets_for_times({partition: 5000}) == {partition: None}
        stage.admin.delete_records({partition: 6})
        consumer.seek(partition, 2)
        # Out of range: auto.offset.reset says earliest.
        assert [record.offset for record in read(consumer, 4)] == [6, 7, 8, 9]


@case(2, 1)
def test_where_a_group_begins_without_offsets(stage: Stage) -> None:
    topic = stage.topic()
    partition = TopicPartition(topic, 0)
    now_ms = int(time.time() * 1000)
    with stage.producer() as producer:
        producer.send(topic, b"old", timestamp_ms=now_ms - 3_600_000).result(WAIT)
        producer.send(topic, b"new", timestamp_ms=now_ms).result(WAIT)
    positions = {"earliest": 0, "latest": 2, "by_duration:PT10M": 1}
    for reset, position in positions.items():
        with stage.consumer(group_id=stage.new_name("group"), auto_offset_reset=reset) as consumer:
            consumer.assign([partition])
            assert consumer.position(partition) == position, reset
    with stage.consumer(group_id=stage.new_name("group"), auto_offset_reset="none") as consumer:
        consumer.assign([partition])
        with pytest.raises(NoOffsetError):
            consumer.poll(WAIT)


@case(2, 1)
def test_a_pattern_finds_topics_that_come_later(stage: Stage) -> None:
    topic = stage.topic()
    fill(stage, topic, 1, 1)
    options: dict[str, Any] = {"group_id": stage.new_name("group"), "metadata_max_age_ms": 200}
    with stage.consumer(**options) as consumer:
        consumer.subscribe(f"^({topic}.*|__consumer_offsets)")
        read(consumer, 1)
        assert consumer.subscription() == {topic}
        later = f"{topic}-later"
        stage.admin.create_topics([ottla.admin.NewTopic(later, 2, 1)])
        read_until([consumer], [], lambda: len(consumer.assignment()) == 3)
        assert consumer.subscription() == {topic, later}


@case(2, 1)
def test_a_member_that_polls_too_late_is_out(stage: Stage) -> None:
    topic = stage.topic()
    fill(stage, topic, 1, 4)
    options: dict[str, Any] = {
        "group_id": stage.new_name("group"),
        "enable_auto_commit": False,
        "max_poll_interval_ms": 500,
        "session_timeout_ms": 500,
    }
    with stage.consumer(**options) as consumer:
        consumer.subscribe([topic])
        read(consumer, 4)
        deadline = time.monotonic() + WAIT_SECONDS
        group = options["group_id"]
        while stage.admin.describe_consumer_groups([group])[group].members:
            in_time(deadline)
            time.sleep(0.05)
        with pytest.raises(CommitFailedError, match=r"max\.poll\.interval\.ms"):
            consumer.commit()
        # It joins again, and begins where nobody committed.
        while True:
            assert len(read(consumer, 4)) == 4
            with suppress(CommitFailedError):  # the machine stood still, and it is out again
                consumer.commit()
                break
            in_time(deadline)


@case(2, 1)
def test_large_records_and_small_fetches(stage: Stage) -> None:
    topic = stage.topic(2, max_message_bytes="2000000")
    values = [b"%d" % i + bytes(300_000) for i in range(6)]
    with stage.producer(max_request_size=2_000_000) as producer:
        for i, value in enumerate(values):
            producer.send(topic, value, partition=i % 2).result(WAIT)
    with stage.consumer(max_partition_fetch_bytes=1000, fetch_max_bytes=1000) as consumer:
        consumer.assign([(topic, 0), (topic, 1)])
        assert sorted(record.value for record in read(consumer, 6)) == sorted(values)


@case(2, 1)
def test_an_asyncio_consumer_does_the_same(stage: Stage) -> None:
    topic, group = stage.topic(2), stage.new_name("group")
    values = fill(stage, topic, 2, 20)

    async def consume() -> list[bytes]:
        found = []
        async with ottla.aio.Consumer(
            bootstrap_servers=stage.address, group_id=group, auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe([topic])
            async for record in consumer:
                found.append(record.value)
                if len(found) == 40:
                    break
            await consumer.commit()
            committed = await consumer.committed()
            assert {place.offset for place in committed.values() if place} == {20}
        return found

    assert sorted(asyncio.run(asyncio.wait_for(consume(), WAIT_SECONDS))) == sorted(values)


@case(0, 11)
def test_columns_have_what_one_by_one_would_have(stage: Stage) -> None:
    """Compressed and plain batches, committed and aborted transactions: as `poll` sees them."""
    pytest.importorskip("pyarrow")
    topic = stage.topic(2)
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "none", "none")):
        with stage.producer(compression_type=codec) as producer:
            for partition in range(2):
                some = [b"%d-%d" % (number, i) * 30 for i in range(200)]
                producer.send_many(topic, some, partition=partition).result(WAIT)
    with stage.transactional() as producer:
        for commits in (True, False, True):
            with suppress(RuntimeError), producer.transaction():
                producer.send_many(topic, [b"%r" % commits] * 50, partition=0).result(WAIT)
                if not commits:
                    raise RuntimeError
    ends = stage.ends([(topic, 0), (topic, 1)])
    for isolation in ("read_committed", "read_uncommitted"):
        expected = [
            (each.partition, each.offset, each.key, each.value)
            for each in stage.records(topic, isolation)
        ]
        rows: list[Any] = []
        deadline = time.monotonic() + WAIT_SECONDS
        with stage.consumer(isolation_level=isolation) as consumer:
            consumer.assign(list(ends))
            while any(consumer.position(one) < end for one, end in ends.items()):
                in_time(deadline, len(rows))
                rows += consumer.poll_arrow(0.5).to_table().to_pylist()
        found = sorted((row["partition"], row["offset"], row["key"], row["value"]) for row in rows)
        assert found == expected
        assert len(found) == 2 * 6 * 200 + (100 if isolation == "read_committed" else 150)
