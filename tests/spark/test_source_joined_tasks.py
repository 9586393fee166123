"""What a task reads that has ranges of several partitions."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tests.spark.source_stage import SourceStage, everything, most, rows, values
from tests.waiting import in_time

from ottla.errors import OffsetOutOfRangeError
from ottla.model import TopicPartition
from ottla.records.arrow import SCHEMA
from ottla.spark import cluster_queries
from ottla.spark.source import range_reader as reading
from ottla.spark.source.offset_ranges import OffsetRange
from ottla.spark.source.source_tasks import RangePartition
from ottla.spark.source.stream_offsets import DataLossError

ONE_TASK = {"minRecordsPerPartition": 1000}


def positions(stage: SourceStage, *offsets: int) -> dict[str, Any]:
    """As a checkpoint has them."""
    return {stage.topic: {str(number): offset for number, offset in enumerate(offsets)}}


def one_task(reader: Any, start: Mapping[str, Any], end: Mapping[str, Any]) -> Any:
    (task,) = reader.partitions(dict(start), dict(end))
    return task


class Clock:
    """The time, and how far somebody has moved it on; `on_look` is called at every look."""

    def __init__(self) -> None:
        self.moved_on_seconds = 0.0
        self.looks = 0
        self.on_look: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        self.looks += 1
        self.on_look()
        return time.monotonic() + self.moved_on_seconds

    def leap(self) -> None:
        self.moved_on_seconds += 3600.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """That of the tasks, whose polls are short."""
    made = Clock()
    monkeypatch.setattr(reading, "time", made)
    monkeypatch.setattr(reading, "_POLL_SECONDS", 0.1)
    return made


def by_partition(reader: Any, task: Any) -> dict[int, list[int]]:
    """The offsets that a task reads."""
    return grouped(rows(reader, [task]))


def by_partition_until_it_stalls(
    reader: Any, task: Any, clock: Clock, count: int
) -> dict[int, list[int]]:
    """As `by_partition`; so many records come however late, and after them an hour without any."""
    clock.on_look = lambda: None
    came: list[dict[str, Any]] = []
    for batch in reader.read(task):
        came += batch.to_pylist()
        if len(came) == count:
            clock.on_look = clock.leap
    return grouped(came)


def grouped(came: list[dict[str, Any]]) -> dict[int, list[int]]:
    """Offsets by partition."""
    found: dict[int, list[int]] = {}
    for row in came:
        assert row["value"].startswith(b"%d:" % row["partition"])
        found.setdefault(row["partition"], []).append(row["offset"])
    return found


def same(count: int, offsets: range) -> dict[int, list[int]]:
    """The same offsets of so many partitions."""
    return {number: list(offsets) for number in range(count)}


def test_small_partitions_are_read_in_one_task_each_in_its_order(stage: SourceStage) -> None:
    stage.create(4)
    stage.fill(30, 0, 50, 7)
    stream = stage.stream(startingOffsets="earliest", **ONE_TASK)
    start = stream.initialOffset()
    batch = stage.batch(**ONE_TASK)
    (planned,) = batch.partitions()
    for reader, task in (
        (stream, one_task(stream, start, stream.latestOffset(start, everything()))),
        (batch, planned),
    ):
        assert [each.partition.partition for each in task.wanted] == [0, 2, 3]
        assert by_partition(reader, task) == {
            0: list(range(30)),
            2: list(range(50)),
            3: list(range(7)),
        }


def test_without_the_option_each_partition_has_its_own_task(stage: SourceStage) -> None:
    stage.create(3)
    stage.fill(3, 0, 5)
    parts = stage.batch().partitions()
    assert [[each.partition.partition for each in part.wanted] for part in parts] == [[0], [2]]


def test_tasks_go_on_where_the_last_ended_with_what_was_fetched_ahead(stage: SourceStage) -> None:
    stage.create(3)
    stage.fill(40, 40, 40)
    reader = stage.stream(**ONE_TASK)
    fetches = []
    for at in range(0, 40, 10):
        ends = positions(stage, *[at + 10] * 3)
        task = one_task(reader, positions(stage, *[at] * 3), ends)
        assert by_partition(reader, task) == same(3, range(at, at + 10))
        fetches.append(reading._idle[0].consumer.metrics()["fetch-total"])
    assert fetches == [fetches[0]] * 4


def test_tasks_of_other_partitions_are_none_the_wiser(stage: SourceStage) -> None:
    stage.create(3)
    stage.fill(20, 20, 20)
    reader = stage.stream(**ONE_TASK)
    cases: list[tuple[tuple[int, int, int], tuple[int, int, int]]] = [
        ((0, 0, 0), (5, 5, 5)),
        ((5, 5, 5), (10, 5, 10)),
        ((10, 5, 10), (10, 9, 10)),
        ((10, 9, 10), (12, 12, 12)),
        # Repeated, and from elsewhere.
        ((10, 9, 10), (12, 12, 12)),
        ((0, 12, 3), (20, 13, 4)),
    ]
    for starts, ends in cases:
        task = one_task(reader, positions(stage, *starts), positions(stage, *ends))
        assert by_partition(reader, task) == {
            number: list(range(start, end))
            for number, (start, end) in enumerate(zip(starts, ends, strict=True))
            if start < end
        }


def test_a_consumer_stays_assigned_what_it_may_read_again(
    stage: SourceStage, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.create(4)
    stage.fill(30, 30, 30, 30)
    reader = stage.stream(**ONE_TASK)

    def assigned_after(*partitions: int) -> list[int]:
        starts = [at] * 4
        ends = [at + (number in partitions) for number in range(4)]
        task = one_task(reader, positions(stage, *starts), positions(stage, *ends))
        assert by_partition(reader, task) == {number: [at] for number in partitions}
        return sorted(each.partition for each in reading._idle[0].consumer.assignment())

    at = 0
    assert assigned_after(0, 1) == [0, 1]
    assert assigned_after(1, 2) == [0, 1, 2]
    at = 5
    assert assigned_after(0) == [0, 1, 2]
    clock.moved_on_seconds = 0.6 * reading._STAY_SECONDS
    assert assigned_after(0, 2) == [0, 1, 2]
    clock.moved_on_seconds = 1.2 * reading._STAY_SECONDS
    assert assigned_after(3) == [0, 2, 3]
    monkeypatch.setattr(reading, "_MOST_ASSIGNED", 3)
    at = 9
    assert assigned_after(1, 3) == [1, 3]
    assert assigned_after(0, 1, 2, 3) == [0, 1, 2, 3]


def test_a_topic_that_was_made_again_has_none_of_the_former_records(stage: SourceStage) -> None:
    """A consumer that a process keeps may have fetched them ahead."""
    stage.create(1)
    stage.fill(20)
    # That of both, whatever else differs.
    group = {"kafka.group.id": stage.topic}
    reader = stage.stream(startingOffsets="earliest", **group)
    start = reader.initialOffset()
    assert len(values(reader, reader.partitions(start, reader.latestOffset(start, most(10))))) == 10
    stage.delete()
    stage.create(1)
    stage.fill(20, headers=[("made", b"again")])
    anew = stage.stream(startingOffsets="earliest", includeHeaders="true", **group)
    begin = anew.initialOffset()
    middle = anew.latestOffset(begin, most(10))
    found = rows(anew, anew.partitions(middle, anew.latestOffset(middle, everything())))
    assert [row["headers"] is not None for row in found] == [True] * 10


def test_a_task_that_breaks_off_leaves_its_consumer_in_the_right_place(stage: SourceStage) -> None:
    stage.create(2)
    stage.fill(20, 20)
    reader = stage.stream(**ONE_TASK)
    task = one_task(reader, positions(stage, 0, 0), positions(stage, 20, 20))
    unfinished = reader.read(task)
    next(unfinished)
    unfinished.close()
    for _ in range(2):
        assert by_partition(reader, task) == same(2, range(20))


def test_partitions_whose_rest_waits_for_others_keep_nobody_waiting(stage: SourceStage) -> None:
    """A consumer that has as much as it may hold does not fetch; what is behind the ends is not in its way."""
    stage.create(3)
    for number in range(30):
        stage.producer.send(stage.topic, b"%d:" % (number % 3) + bytes(3000), partition=number % 3)
    stage.producer.flush()
    small = {"kafka.fetch.max.bytes": 2000, "kafkaConsumer.pollTimeoutMs": 10_000}
    reader = stage.stream(**small, **ONE_TASK)
    task = one_task(reader, positions(stage, 0, 0, 0), positions(stage, 2, 2, 2))
    assert by_partition(reader, task) == same(3, range(2))
    assert reading._idle[0].consumer._client._fetcher.buffer.size_bytes < 2000
    task = one_task(reader, positions(stage, 2, 2, 2), positions(stage, 10, 10, 10))
    assert by_partition(reader, task) == same(3, range(2, 10))


def test_aborted_transactions_and_markers_end_ranges_like_records(stage: SourceStage) -> None:
    stage.create(3)
    stage.fill(3, 3)
    for partition, is_committed in ((0, False), (2, False), (1, True)):
        with stage.transaction(b"%d:x" % partition, partition=partition) as writer:
            if is_committed:
                writer.commit_transaction()
            else:
                writer.abort_transaction()
    reader = stage.stream(startingOffsets="earliest", **ONE_TASK)
    ends = positions(stage, 5, 5, 2)
    task = one_task(reader, positions(stage, 0, 0, 0), ends)
    deadline = time.monotonic() + 20
    while reader.latestOffset(reader.initialOffset(), everything())["topics"] != ends:
        in_time(deadline)
    assert by_partition(reader, task) == {0: [0, 1, 2], 1: [0, 1, 2, 3]}


# Losses


def test_records_that_are_gone_of_one_partition_cost_the_others_nothing(
    stage: SourceStage,
) -> None:
    stage.create(4)
    stage.fill(10, 10, 10, 10)
    strict = stage.stream(**ONE_TASK)
    patient = stage.stream(failOnDataLoss="false", **ONE_TASK)
    task = one_task(strict, positions(stage, 0, 0, 0, 12), positions(stage, 10, 10, 10, 15))
    stage.admin.delete_records({stage.at(1): 6, stage.at(2): 10})
    with pytest.raises(DataLossError, match=r"has offsets from \d+ to 10, and \d+ was wanted"):
        values(strict, [task])
    assert by_partition(patient, task) == {0: list(range(10)), 1: list(range(6, 10))}
    # The same consumer reads on.
    task = one_task(patient, positions(stage, 0, 8, 10, 15), positions(stage, 4, 10, 10, 15))
    assert by_partition(patient, task) == {0: list(range(4)), 1: [8, 9]}


def test_a_topic_that_is_gone_costs_the_others_nothing(
    stage: SourceStage, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_queries, "LOOKUP_PAUSE_SECONDS", 0.0)
    other = f"{stage.topic}-other"
    stage.create(2)
    stage.create(2, other)
    stage.fill(3, 3)
    stage.fill(3, 3, topic=other)
    options = {"subscribe": f"{stage.topic},{other}", "kafkaConsumer.pollTimeoutMs": 60_000}
    strict = stage.stream(**options, **ONE_TASK)
    patient = stage.stream(**options, **ONE_TASK, failOnDataLoss="false")
    start = {each: {"0": 0, "1": 0} for each in (stage.topic, other)}
    task = one_task(strict, start, {each: {"0": 3, "1": 3} for each in start})
    stage.delete(other)
    with pytest.raises(DataLossError, match=f"{other}-0 is gone, and was to be read from 0 to 3"):
        by_partition_until_it_stalls(strict, task, clock, 6)
    for _ in range(2):
        found = by_partition_until_it_stalls(patient, task, clock, 6)
        assert found == {0: [0, 1, 2], 1: [0, 1, 2]}


def test_a_partition_that_ends_too_early_costs_the_others_nothing(
    stage: SourceStage, clock: Clock
) -> None:
    stage.create(3)
    stage.fill(3, 2, 4)
    options = {"kafkaConsumer.pollTimeoutMs": 60_000, **ONE_TASK}
    strict, patient = stage.stream(**options), stage.stream(**options, failOnDataLoss="false")
    task = one_task(strict, positions(stage, 0, 0, 0), positions(stage, 3, 5, 9))
    with pytest.raises(DataLossError, match="-1 ends at 2, and 5 was its end"):
        by_partition_until_it_stalls(strict, task, clock, 9)
    found = by_partition_until_it_stalls(patient, task, clock, 9)
    assert found == {0: [0, 1, 2], 1: [0, 1], 2: [0, 1, 2, 3]}


def test_a_log_that_was_truncated_fails_the_task_that_reads_it_and_no_other(
    stage: SourceStage,
) -> None:
    stage.create(2)
    stage.fill(10, 10)
    reader = stage.stream(**ONE_TASK)
    values(reader, reader.partitions(positions(stage, 0, 0), positions(stage, 5, 5)))
    kept = reading._idle.pop()
    task = reading._RangesReader(kept, [OffsetRange(stage.at(0), 5, 10)], reader._options)
    task._go_to_starts()
    task._skip(stage.at(1), OffsetOutOfRangeError({stage.at(1): 5}))
    assert kept.consumer.assignment() == {stage.at(0)}
    found = [row for batch in task.batches(SCHEMA) for row in batch.to_pylist()]
    assert [row["offset"] for row in found] == list(range(5, 10))
    reading._return_consumer(kept)
    task = one_task(reader, positions(stage, 10, 5), positions(stage, 10, 10))
    assert by_partition(reader, task) == {1: list(range(5, 10))}


def test_time_that_others_need_for_records_is_no_stall(stage: SourceStage, clock: Clock) -> None:
    stage.create(1)
    stage.fill(2)
    reader = stage.stream(**{"kafkaConsumer.pollTimeoutMs": 60_000}, **ONE_TASK)
    records = reader.read(one_task(reader, positions(stage, 0), positions(stage, 3)))
    assert next(records).num_rows == 2
    # A poll looks twice: the third record comes after two that brought nothing.
    due = clock.looks + 5
    clock.on_look = lambda: stage.fill(1) if clock.looks == due else None
    clock.leap()
    assert sum(each.num_rows for each in records) == 1


# What Spark carries from the driver to the task


def test_a_task_with_many_partitions_is_small_and_survives_pickling() -> None:
    wanted = [
        OffsetRange(TopicPartition("a-topic-with-a-long-name", number), 10**9, 10**9 + number)
        for number in range(50)
    ]
    topic_ids = {"a-topic-with-a-long-name": "w6TMQjGpRM2Zk3sYcbuNpA"}
    text = pickle.dumps(RangePartition(wanted, topic_ids | {"another": "x" * 2000}))
    assert (pickle.loads(text).wanted, pickle.loads(text).topic_ids) == (wanted, topic_ids)
    assert len(text) < 50 * 30
