"""The source's readers against a broker; Spark itself is not needed to call them."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tests.spark.source_stage import SourceStage, everything, most, moved, offsets, rows, values

import ottla
from ottla.errors import ConfigError
from ottla.spark.sink.progress import Marker, marker_group, transactional_id
from ottla.spark.source.limits import NoRecordAtTimeError

# Columns


def test_the_columns_are_those_that_spark_expects(stage: SourceStage) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    from ottla.records.arrow import SCHEMA, SCHEMA_WITHOUT_HEADERS
    from ottla.spark.source.source_tasks import source_schema

    for headers, ours in (("true", SCHEMA), ("false", SCHEMA_WITHOUT_HEADERS)):
        schema = source_schema({"includeheaders": headers})
        assert to_arrow_schema(schema, timezone="UTC").equals(ours)


def test_a_row_has_everything_of_a_record(stage: SourceStage) -> None:
    stage.create(1)
    stage.producer.send(
        stage.topic, b"v", key=b"k", headers=[("h", b"1"), ("h", None)], timestamp_ms=1_000
    )
    stage.producer.send(stage.topic, None, timestamp_ms=2_000)
    stage.producer.flush()
    reader = stage.batch(includeHeaders="true")
    found = rows(reader, reader.partitions())
    assert [row.pop("timestamp").timestamp() for row in found] == [1, 2]
    shared = {"topic": stage.topic, "partition": 0, "timestampType": 0}
    headers = [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert found == [
        {**shared, "key": b"k", "value": b"v", "offset": 0, "headers": headers},
        {**shared, "key": None, "value": None, "offset": 1, "headers": None},
    ]


def test_a_schema_cannot_be_given(stage: SourceStage) -> None:
    from pyspark.sql.types import StringType, StructType

    from ottla.spark.datasource import OttlaDataSource

    source = OttlaDataSource(stage.options())
    schema = StructType().add("value", StringType())
    with pytest.raises(ConfigError, match="The source has fixed columns"):
        source.reader(schema)
    reader = source.streamReader(schema)
    with pytest.raises(ConfigError, match="The source has fixed columns"):
        reader.initialOffset()


def test_readers_can_be_sent_to_tasks(stage: SourceStage) -> None:
    stage.create(1)
    stage.fill(3)
    reader = stage.stream(startingOffsets="earliest")
    start = reader.initialOffset()
    end = reader.latestOffset(start, everything())
    parts = pickle.loads(pickle.dumps(reader.partitions(start, end)))
    # A planner makes the reader that tasks get; it has asked nobody anything.
    other = pickle.loads(pickle.dumps(stage.stream(startingOffsets="earliest")))
    assert values(other, parts) == [b"0:0", b"0:1", b"0:2"]


# Where it begins


def test_a_stream_begins_where_the_options_say(stage: SourceStage) -> None:
    stage.create(2)
    stage.fill(3, 5, timestamp_ms=1_000)
    stage.fill(1, 0, timestamp_ms=9_000)
    t = stage.topic
    cases: list[tuple[dict[str, Any], list[int]]] = [
        ({}, [4, 5]),
        ({"startingOffsets": "earliest"}, [0, 0]),
        ({"startingOffsets": f'{{"{t}":{{"0":2,"1":-1}}}}'}, [2, 5]),
        ({"startingTimestamp": 500}, [0, 0]),
        (
            {"startingTimestamp": 5_000, "startingOffsetsByTimestampStrategy": "latest"},
            [3, 5],
        ),
        ({"startingOffsetsByTimestamp": f'{{"{t}":{{"0":5000,"1":7}}}}'}, [3, 0]),
    ]
    for options, expected in cases:
        reader = stage.stream(**options)
        assert offsets(stage, reader.initialOffset()) == expected, options
    with pytest.raises(NoRecordAtTimeError, match=f"No record of {t}-1 is as young"):
        stage.stream(startingTimestamp=5_000).initialOffset()
    with pytest.raises(ConfigError, match=f"{t}-1 must be named too"):
        stage.stream(startingOffsets=f'{{"{t}":{{"0":2}}}}').initialOffset()


def test_a_first_micro_batch_that_is_run_again_begins_where_it_began(stage: SourceStage) -> None:
    stage.create(1)
    stage.fill(3)
    reader = stage.stream(startingOffsets="latest")
    start = reader.initialOffset()
    stage.fill(2)
    end = reader.latestOffset(start, everything())
    # Spark has written down the end only, and asks a new reader for the begin.
    stage.fill(4)
    again = stage.stream(startingOffsets="latest")
    assert offsets(stage, again.initialOffset()) == [9]
    parts = again.partitions(again.initialOffset(), end)
    assert [part.wanted[0][1:] for part in parts] == [(3, 5)]
    later = again.latestOffset(end, everything())
    assert [part.wanted[0][1:] for part in again.partitions(end, later)] == [(5, 9)]


def test_a_topic_that_does_not_exist_is_told(stage: SourceStage) -> None:
    with pytest.raises(ConfigError, match=f"The cluster has no topic {stage.topic}"):
        stage.stream().initialOffset()
    with pytest.raises(ConfigError, match=f"The cluster has no topic {stage.topic}"):
        stage.batch().partitions()
    stage.create(1)
    with pytest.raises(ConfigError, match=f"The cluster has no topic {stage.topic}-1"):
        stage.stream(assign=f'{{"{stage.topic}":[0,1]}}').initialOffset()


def test_a_pipeline_without_its_checkpoint_goes_on_where_it_had_committed(
    stage: SourceStage,
) -> None:
    stage.create(3)
    stage.fill(5, 5, 2)
    options = {"pipeline": f"pipe-{stage.topic}", "startingOffsets": "latest"}
    start = stage.stream(**options).initialOffset()
    assert offsets(stage, start) == [5, 5, 2], "it has not run before"
    stage.admin.alter_consumer_group_offsets(options["pipeline"], {stage.at(0): 4, stage.at(1): 1})
    start = stage.stream(**options).initialOffset()
    assert offsets(stage, start) == [4, 1, 0], "a partition that came later is read from its begin"
    assert start["group"] == options["pipeline"]


def test_a_query_has_one_begin_and_says_once_that_it_goes_on(
    stage: SourceStage, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark asks for the begin when it plans the first micro-batch, and when it runs it."""
    stage.create(1)
    stage.fill(5)
    pipeline = f"pipe-{stage.topic}"
    stage.admin.alter_consumer_group_offsets(pipeline, {stage.at(0): 2})
    reader = stage.stream(pipeline=pipeline)
    assert offsets(stage, reader.initialOffset()) == [2]
    stage.admin.alter_consumer_group_offsets(pipeline, {stage.at(0): 4})
    assert offsets(stage, reader.initialOffset()) == [2]
    assert sum("continues at its committed offsets" in each for each in caplog.messages) == 1


def test_a_pipeline_that_begins_anew_fences_whoever_ran_it_before(stage: SourceStage) -> None:
    check_fencing(stage, is_of_before=False)


def test_a_pipeline_that_begins_anew_fences_whoever_ran_it_before_ids_had_a_prefix(
    stage: SourceStage,
) -> None:
    check_fencing(stage, is_of_before=True)


def check_fencing(stage: SourceStage, is_of_before: bool) -> None:
    stage.create(1)
    stage.fill(5)
    pipeline = f"pipe-{stage.topic}"
    if is_of_before:
        # Written before transactional ids had a prefix.
        marker = Marker("q", 0).to_offset()
        stage.admin.alter_consumer_group_offsets(marker_group(pipeline), {stage.at(0): marker})
    name = pipeline if is_of_before else transactional_id(pipeline)
    zombie = ottla.Producer(bootstrap_servers=stage.servers, transactional_id=name)
    zombie.init_transactions()
    zombie.begin_transaction()
    zombie.send_offsets_to_transaction({stage.at(0): ottla.OffsetAndMetadata(3)}, pipeline)
    reader = stage.stream(pipeline=pipeline, startingOffsets="earliest")
    assert offsets(stage, reader.initialOffset()) == [0]
    with pytest.raises(ottla.FatalError):
        zombie.commit_transaction()
    zombie.close()
    again = stage.stream(pipeline=pipeline, startingOffsets="earliest")
    assert offsets(stage, again.initialOffset()) == [0]


# How far it reads


def test_a_stream_reads_everything_once(stage: SourceStage) -> None:
    stage.create(2)
    reader = stage.stream(startingOffsets="earliest")
    position = reader.initialOffset()
    seen: list[bytes] = []
    for _ in range(3):
        stage.fill(3, 2)
        end = reader.latestOffset(position, everything())
        seen += values(reader, reader.partitions(position, end))
        position = end
    assert len(seen) == 15
    assert reader.latestOffset(position, everything()) == position
    assert reader.partitions(position, position) == []
    assert reader.reportLatestOffset() == position


def test_a_limit_is_kept(stage: SourceStage) -> None:
    stage.create(2)
    stage.fill(30, 10)
    reader = stage.stream(startingOffsets="earliest", maxOffsetsPerTrigger=8)
    assert reader.getDefaultReadLimit() == most(8)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert offsets(stage, end) == [6, 2]
    assert len(values(reader, reader.partitions(start, end))) == 8
    assert offsets(stage, reader.latestOffset(start, everything())) == [30, 10]
    assert offsets(stage, reader.reportLatestOffset()) == [30, 10]


def test_a_micro_batch_waits_for_enough_records(stage: SourceStage) -> None:
    from pyspark.sql.streaming.datasource import ReadMinRows

    stage.create(1)
    stage.fill(2)
    options = {"startingOffsets": "earliest", "minOffsetsPerTrigger": 10}
    for more, limit in [({}, ReadMinRows(10)), ({"maxOffsetsPerTrigger": 20}, most(20))]:
        reader = stage.stream(**options, **more)
        assert reader.getDefaultReadLimit() == limit
        first = reader.latestOffset(reader.initialOffset(), limit)
        assert offsets(stage, first) == [2], "the first waits for nothing"
        stage.fill(9)
        assert reader.latestOffset(first, limit) == first
        assert offsets(stage, reader.latestOffset(first, everything())) == [11]
        stage.fill(1)
        assert offsets(stage, reader.latestOffset(first, limit)) == [12]
        stage.delete()
        stage.create(1)
        stage.fill(2)
    hasty = stage.stream(**options, maxTriggerDelay="0s")
    first = hasty.latestOffset(hasty.initialOffset(), ReadMinRows(10))
    stage.fill(1)
    assert offsets(stage, hasty.latestOffset(first, ReadMinRows(10))) == [3]


def test_a_query_that_ends_reads_what_was_there_when_it_began(stage: SourceStage) -> None:
    stage.create(1)
    stage.fill(10)
    reader = stage.stream(
        startingOffsets="earliest", maxOffsetsPerTrigger=4, minOffsetsPerTrigger=4
    )
    reader.prepareForTriggerAvailableNow()
    position, ends = reader.initialOffset(), []
    while (end := reader.latestOffset(position, most(4))) != position:
        stage.fill(3)
        ends += offsets(stage, end)
        position = end
    assert ends == [4, 8, 10]


def test_partitions_and_topics_that_come_later_are_read_from_their_begin(
    stage: SourceStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ottla.spark.source import stream_reader

    monkeypatch.setattr(stream_reader, "DISCOVERY_SECONDS", 0.0)
    stage.create(1)
    stage.fill(2)
    reader = stage.stream(subscribePattern=f"{stage.topic}.*")
    start = reader.initialOffset()
    assert reader.latestOffset(start, everything()) == start
    stage.admin.create_partitions({stage.topic: 2})
    stage.create(1, f"{stage.topic}-more")
    stage.fill(0, 3)
    stage.fill(4, topic=f"{stage.topic}-more")
    end = reader.latestOffset(start, everything())
    parts = reader.partitions(start, end)
    assert sorted(part.wanted[0][1:] for part in parts) == [(0, 3), (0, 4)]
    assert len(values(reader, parts)) == 7
    assert reader.latestOffset(end, everything()) == end
    # Spark repeats a micro-batch with what it wrote down.
    again = stage.stream(subscribePattern=f"{stage.topic}.*")
    assert len(values(again, again.partitions(start, end))) == 7


def test_a_pattern_matches_whole_names(stage: SourceStage) -> None:
    stage.create(1)
    stage.create(1, f"{stage.topic}-more")
    reader = stage.stream(subscribePattern=stage.topic)
    assert list(reader.initialOffset()["topics"]) == [stage.topic]
    nothing = stage.stream(subscribePattern=f"{stage.topic}-not-yet")
    start = nothing.initialOffset()
    assert nothing.latestOffset(start, everything()) == start


def test_only_assigned_partitions_are_read(stage: SourceStage) -> None:
    stage.create(3)
    stage.fill(1, 1, 1)
    reader = stage.batch(assign=f'{{"{stage.topic}":[0,2]}}')
    assert sorted(values(reader, reader.partitions())) == [b"0:0", b"2:0"]


def test_a_checkpoint_of_sparks_own_source_is_continued(stage: SourceStage) -> None:
    stage.create(2)
    stage.fill(3, 3)
    reader = stage.stream()
    start = {stage.topic: {"1": 2, "0": 1}}
    end = reader.latestOffset(start, everything())
    assert sorted(values(reader, reader.partitions(start, end))) == [b"0:1", b"0:2", b"1:2"]


# Transactions


def test_only_committed_records_are_read_and_positions_pass_the_rest(stage: SourceStage) -> None:
    stage.create(1)
    stage.fill(2)
    writer = stage.transaction(b"aborted", b"aborted too")
    reader = stage.stream(startingOffsets="earliest")
    start = reader.initialOffset()
    while_open = reader.latestOffset(start, everything())
    assert offsets(stage, while_open) == [2], "what is open is not read"
    writer.abort_transaction()
    aborted = moved(reader, while_open)
    assert offsets(stage, aborted) == [5]
    assert values(reader, reader.partitions(while_open, aborted)) == []
    writer.begin_transaction()
    writer.send(stage.topic, b"committed", partition=0)
    writer.commit_transaction()
    writer.close()
    end = moved(reader, aborted)
    assert values(reader, reader.partitions(aborted, end)) == [b"committed"]
    assert values(reader, reader.partitions(start, end)) == [b"0:0", b"0:1", b"committed"]
    dirty = stage.batch(**{"kafka.isolation.level": "read_uncommitted"})
    assert len(values(dirty, dirty.partitions())) == 5


# Lag


def test_offsets_are_committed_for_the_lag(stage: SourceStage) -> None:
    stage.create(2)
    stage.fill(3, 1)
    group = f"lag-{stage.topic}"
    reader = stage.stream(
        startingOffsets="earliest", commitOffsets="true", **{"kafka.group.id": group}
    )
    start = reader.initialOffset()
    end = reader.latestOffset(start, everything())
    assert told(stage, group) == {}
    reader.commit(end)
    assert told(stage, group) == {stage.at(0): 3, stage.at(1): 1}
    silent = stage.stream(**{"kafka.group.id": f"{group}-2"})
    silent.commit(end)
    silent.latestOffset(end, everything())
    assert told(stage, f"{group}-2") == {}


def test_the_last_micro_batch_is_committed_for_the_lag_without_another_one(
    stage: SourceStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.create(2)
    stage.fill(3, 1)
    group = f"lag-{stage.topic}"
    reader = stage.stream(
        startingOffsets="earliest", commitOffsets="true", **{"kafka.group.id": group}
    )
    commits: list[Any] = []
    commit = reader._cluster.commit

    def counted(*arguments: Any) -> Any:
        commits.append(arguments)
        return commit(*arguments)

    monkeypatch.setattr(reader._cluster, "commit", counted)
    start = reader.initialOffset()
    end = reader.latestOffset(start, everything())
    assert commits == [], "nothing was processed"
    # Spark asks again when the micro-batch is done, and again and again while nothing comes.
    for _ in range(3):
        assert reader.latestOffset(end, everything()) == end
    assert told(stage, group) == {stage.at(0): 3, stage.at(1): 1}
    assert len(commits) == 1
    reader.commit(end)
    assert len(commits) == 1


def told(stage: SourceStage, group: str) -> dict[Any, int]:
    found = stage.admin.list_consumer_group_offsets([group])[group]
    return {each: at.offset for each, at in found.items() if at}


def test_a_commit_for_the_lag_that_fails_is_nobodys_loss(
    stage: SourceStage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.create(1)
    group = f"lag-{stage.topic}"
    member = ottla.Consumer(bootstrap_servers=stage.servers, group_id=group)
    member.subscribe([stage.topic])
    while not member.assignment():
        member.poll(0.1)
    reader = stage.stream(commitOffsets="true", **{"kafka.group.id": group})
    end = reader.initialOffset()
    reader.commit(end)
    assert (
        caplog.text.count(
            f"the offsets of group {group}, for tools that show lag, were not committed"
        )
        == 1
    )
    reader.commit(end)
    assert caplog.text.count("were not committed") == 1, "it is not tried again at once"
    member.close()
    reader._lag_commits.next_attempt_at = 0.0
    reader.commit(end)
    assert told(stage, group) == {stage.at(0): 0}
