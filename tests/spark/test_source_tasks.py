"""What batch queries and tasks read."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

from tests.spark.source_stage import SourceStage, everything, values

from ottla.config.consumer import ConsumerConfig
from ottla.spark.source import range_reader as reading
from ottla.spark.source.source_options import read_stream_options
from ottla.spark.source.stream_offsets import DataLossError


def test_a_batch_reads_what_the_options_say(stage: SourceStage) -> None:
    stage.create(2)
    stage.fill(3, 5, timestamp_ms=1_000)
    stage.fill(1, 0, timestamp_ms=9_000)
    t = stage.topic
    cases: list[tuple[dict[str, Any], list[tuple[int, int]]]] = [
        ({}, [(0, 4), (0, 5)]),
        ({"startingOffsets": f'{{"{t}":{{"0":2,"1":-2}}}}'}, [(2, 4), (0, 5)]),
        ({"endingOffsets": f'{{"{t}":{{"0":2,"1":-1}}}}'}, [(0, 2), (0, 5)]),
        ({"endingTimestamp": 5_000}, [(0, 3), (0, 5)]),
        ({"endingOffsetsByTimestamp": f'{{"{t}":{{"0":5000,"1":5}}}}'}, [(0, 3)]),
        ({"startingTimestamp": 5_000, "startingOffsetsByTimestampStrategy": "latest"}, [(3, 4)]),
    ]
    for options, expected in cases:
        reader = stage.batch(**options)
        parts = reader.partitions()
        assert sorted(each for part in parts for each in part.wanted) == [
            (stage.at(number), *span) for number, span in enumerate(expected)
        ], options
        assert len(values(reader, parts)) == sum(end - start for start, end in expected)


def test_a_batch_of_offsets_that_are_not_there_fails_or_takes_what_there_is(
    stage: SourceStage,
) -> None:
    stage.create(1)
    stage.fill(10)
    stage.admin.delete_records({stage.at(0): 4})
    t = stage.topic
    early = {"startingOffsets": f'{{"{t}":{{"0":1}}}}'}
    late = {"endingOffsets": f'{{"{t}":{{"0":12}}}}'}
    with pytest.raises(DataLossError, match="begins at 4, not at 1"):
        stage.batch(**early).partitions()
    with pytest.raises(DataLossError, match="ends at 10, not at 12"):
        stage.batch(**late).partitions()
    parts = stage.batch(**early, **late, failOnDataLoss="false").partitions()
    assert [each[1:] for part in parts for each in part.wanted] == [(4, 10)]


def test_partitions_are_split_into_tasks(stage: SourceStage) -> None:
    stage.create(2)
    stage.fill(90, 10)
    for options, least in [({"minPartitions": 6}, 6), ({"maxRecordsPerPartition": 20}, 6)]:
        for reader in (stage.batch(**options), stage.stream(startingOffsets="earliest", **options)):
            if hasattr(reader, "initialOffset"):
                start = reader.initialOffset()
                parts = reader.partitions(start, reader.latestOffset(start, everything()))
            else:
                parts = reader.partitions()
            assert len(parts) >= least
            assert len(set(values(reader, parts))) == 100


def test_where_there_is_nothing_to_read_no_task_fails(stage: SourceStage) -> None:
    from pyspark.sql.datasource import InputPartition

    stage.create(1)
    reader = stage.batch()
    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []


def test_a_process_keeps_its_consumer_for_the_next_task(stage: SourceStage) -> None:
    stage.create(2)
    stage.fill(20, 20)
    reader = stage.batch(maxRecordsPerPartition=5)
    kept: set[int] = set()
    for part in reader.partitions():
        assert len(values(reader, [part])) == 5
        kept.update(id(each.consumer) for each in reading._idle)
    assert len(kept) == len(reading._idle) == 1
    # One that breaks off in the middle leaves it as well, and the next task is none the wiser.
    unfinished = reader.read(reader.partitions()[0])
    next(unfinished)
    unfinished.close()
    assert {id(each.consumer) for each in reading._idle} == kept
    assert len(values(reader, reader.partitions())) == 40


def test_a_consumer_that_waits_for_its_next_task_warns_of_nothing(stage: SourceStage) -> None:
    options = read_stream_options({name.lower(): value for name, value in stage.options().items()})
    assert ConsumerConfig.read(dict(options.consumer)).stall_timeout_ms == 0
