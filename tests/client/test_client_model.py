"""The values that the clients take and give."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ottla.admin import ListedOffset, ProducerState
from ottla.client.arrow_records import ArrowRecords
from ottla.client.model import (
    ConsumerRecord,
    ConsumerRecords,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    RecordMetadata,
)
from ottla.model import TopicPartition
from ottla.records.record import TimestampType

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def record(partition: TopicPartition, offset: int) -> ConsumerRecord:
    return ConsumerRecord(
        *partition, offset, 0, TimestampType.CREATE_TIME, None, b"v", (), None, -1, 1
    )


def records(*counts: tuple[TopicPartition, int]) -> ConsumerRecords:
    by_partition = {tp: [record(tp, offset) for offset in range(count)] for tp, count in counts}
    return ConsumerRecords(by_partition, {tp: OffsetAndMetadata(n) for tp, n in counts})


@pytest.mark.parametrize(
    "value",
    [
        RecordMetadata("t", 0, 1, 77, -1, 3),
        ConsumerRecord("t", 0, 1, 77, TimestampType.CREATE_TIME, None, b"v", (), None, -1, 1),
        OffsetAndTimestamp(1, 77),
        ListedOffset(1, 77),
    ],
)
def test_a_timestamp_has_its_unit_in_its_name_and_the_short_name_works_too(
    value: RecordMetadata | ConsumerRecord | OffsetAndTimestamp | ListedOffset,
) -> None:
    assert value.timestamp_ms == 77
    assert value.timestamp == 77
    assert "timestamp_ms=77" in repr(value)


def test_the_last_timestamp_of_a_producer_has_both_names_too() -> None:
    state = ProducerState(1, 0, 5, 77, None, None)
    assert (state.last_timestamp_ms, state.last_timestamp) == (77, 77)


def test_a_type_of_timestamps_is_equal_to_its_number() -> None:
    assert list(TimestampType) == [0, 1]
    assert record(A0, 0).timestamp_type == 0
    assert record(A0, 0).timestamp_type.name == "CREATE_TIME"


def test_a_poll_without_records_is_false() -> None:
    empty = ConsumerRecords()
    assert not empty
    assert list(empty) == []
    assert empty.partitions() == []
    assert empty.count() == 0
    assert empty.records(A0) == ()


def test_records_come_partition_after_partition() -> None:
    polled = records((A1, 2), (B0, 1), (A0, 1))
    assert [(r.topic, r.partition, r.offset) for r in polled] == [
        *(("a", 1, 0), ("a", 1, 1), ("b", 0, 0), ("a", 0, 0)),
    ]
    assert len(polled) == polled.count() == 4
    assert polled[0].offset == 0
    assert polled[-1].topic == "a"
    assert [r.offset for r in polled[:2]] == [0, 1]
    assert polled.partitions() == [A1, B0, A0]


def test_records_of_a_partition_or_a_topic_can_be_asked_for() -> None:
    polled = records((A1, 2), (B0, 1), (A0, 1))
    assert [r.offset for r in polled.records(A1)] == [0, 1]
    assert [r.offset for r in polled.records(("a", 1))] == [0, 1]
    assert [(r.partition, r.offset) for r in polled.records("a")] == [(1, 0), (1, 1), (0, 0)]
    assert polled.records("none") == []


@pytest.mark.parametrize("counts", [[(A0, 3)], [(A0, 2), (A1, 1)]])
def test_records_are_a_sequence(counts: list[tuple[TopicPartition, int]]) -> None:
    polled = records(*counts)
    assert record(A0, 1) in polled
    assert polled.index(record(A0, 1)) == 1
    assert list(reversed(polled))[-1] == record(A0, 0)
    assert polled.count(record(A0, 1)) == 1


def test_arrow_records_are_a_table_and_a_stream_also_without_records() -> None:
    rows = pa.table({"value": [b"tea", b"cake"]})
    for table in (rows, rows.slice(0, 0)):
        records = ArrowRecords(table.to_batches(), {}, rows.schema)
        assert len(records) == len(table)
        assert records.to_table() == table
        assert pa.RecordBatchReader.from_stream(records).read_all() == table
