"""What the source does when records are gone."""

from __future__ import annotations

import time
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tests.spark.source_stage import SourceStage, everything, values

from ottla.client.existing_topics import describe_existing_topics
from ottla.errors import ConfigError
from ottla.spark import cluster_queries
from ottla.spark.source import cluster as source_cluster
from ottla.spark.source import stream_reader
from ottla.spark.source.stream_offsets import DataLossError


def test_records_that_were_deleted_fail_the_query_or_are_skipped(stage: SourceStage) -> None:
    stage.create(1)
    stage.fill(10)
    reader = stage.stream(startingOffsets="earliest")
    start = reader.initialOffset()
    end = reader.latestOffset(start, everything())
    parts = reader.partitions(start, end)
    stage.admin.delete_records({stage.at(0): 6})
    with pytest.raises(DataLossError, match="has offsets from 6 to 10, and 0 was wanted"):
        values(reader, parts)
    patient = stage.stream(failOnDataLoss="false")
    assert values(patient, parts) == [b"0:%d" % number for number in range(6, 10)]
    stage.admin.delete_records({stage.at(0): 10})
    assert values(patient, parts) == []
    # A position behind the end: the log is another one than it was.
    behind = patient.partitions({stage.topic: {"0": 15}}, {stage.topic: {"0": 20}})
    with pytest.raises(DataLossError, match="from 10 to 10, and 15 was wanted"):
        values(reader, behind)
    assert values(patient, behind) == []


def test_a_topic_that_is_gone_fails_the_query_or_is_left_out(
    stage: SourceStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_reader, "DISCOVERY_SECONDS", 0.0)
    other = f"{stage.topic}-other"
    stage.create(1)
    stage.create(1, other)
    options = {"startingOffsets": "earliest", "subscribe": f"{stage.topic},{other}"}
    strict, patient = stage.stream(**options), stage.stream(**options, failOnDataLoss="false")
    start = strict.initialOffset()
    stage.delete(other)
    stage.fill(2)
    with pytest.raises(DataLossError, match=f"{other}-0 is gone"):
        strict.latestOffset(start, everything())
    end = patient.latestOffset(start, everything())
    assert values(patient, patient.partitions(start, end)) == [b"0:0", b"0:1"]
    # It is kept where it was, should it come back.
    assert end["topics"] == {stage.topic: {"0": 2}, other: {"0": 0}}
    assert patient.latestOffset(end, everything()) == end


def test_a_checkpoint_of_another_source_is_not_called_a_loss(
    stage: SourceStage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stream_reader, "DISCOVERY_SECONDS", 0.0)
    former = f"{stage.topic}-former"
    stage.create(1)
    stage.create(1, former)
    start = stage.stream(startingOffsets="earliest", subscribe=former).initialOffset()
    stage.fill(2)
    others = {"subscribe": stage.topic}, {"subscribePattern": f"{stage.topic}|x"}
    for options in (*others, {"assign": f'{{"{stage.topic}":[0]}}'}):
        with pytest.raises(DataLossError, match=f"has offsets of {former}, and") as caught:
            stage.stream(**options).latestOffset(start, everything())
        assert "give the query a new checkpoint" in str(caught.value)
        assert "is gone" not in str(caught.value)
    # Whether the former topic still exists makes no difference.
    stage.delete(former)
    with pytest.raises(DataLossError, match=f"has offsets of {former}, and"):
        stage.stream().latestOffset(start, everything())
    patient = stage.stream(failOnDataLoss="false")
    end = patient.latestOffset(start, everything())
    assert patient.latestOffset(end, everything()) == end
    assert values(patient, patient.partitions(start, end)) == [b"0:0", b"0:1"]
    assert sum("has offsets of" in each for each in caplog.messages) == 1


def test_a_topic_that_was_made_again_is_not_mistaken_for_the_former(
    stage: SourceStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_reader, "DISCOVERY_SECONDS", 0.0)
    stage.create(1)
    stage.fill(2)
    strict, patient = stage.stream(), stage.stream(failOnDataLoss="false")
    start = strict.initialOffset()
    stage.delete()
    stage.create(1)
    stage.fill(3)
    with pytest.raises(DataLossError, match="deleted and created again"):
        strict.latestOffset(start, everything())
    end = patient.latestOffset(start, everything())
    assert values(patient, patient.partitions(start, end)) == [b"0:0", b"0:1", b"0:2"]
    assert patient.latestOffset(end, everything()) == end


def test_a_planned_micro_batch_does_not_read_a_topic_that_was_made_again_since(
    stage: SourceStage,
) -> None:
    """As when it is repeated: nobody asks for the latest offsets then."""
    stage.create(1)
    stage.fill(3)
    planning = stage.stream(startingOffsets="earliest")
    start = planning.initialOffset()
    end = planning.latestOffset(start, everything())
    stage.delete()
    stage.create(1)
    stage.fill(5)
    strict, patient = stage.stream(), stage.stream(failOnDataLoss="false")
    with pytest.raises(DataLossError, match="created again after a micro-batch was planned"):
        strict.partitions(start, end)
    assert values(patient, patient.partitions(start, end)) == []
    after = patient.latestOffset(end, everything())
    assert values(patient, patient.partitions(end, after)) == [b"0:%d" % each for each in range(5)]


def test_a_log_that_ends_before_what_was_read_fails_the_query(stage: SourceStage) -> None:
    stage.create(1)
    stage.fill(2)
    reader = stage.stream(startingOffsets="earliest")
    start = reader.initialOffset()
    start["topics"][stage.topic]["0"] = 7
    with pytest.raises(DataLossError, match="ends at 2, and it was read up to 7"):
        reader.latestOffset(start, everything())


def test_a_task_whose_records_do_not_come_says_so(stage: SourceStage) -> None:
    stage.create(1)
    stage.fill(2)
    start, end = {stage.topic: {"0": 0}}, {stage.topic: {"0": 5}}
    strict = stage.stream(**{"kafkaConsumer.pollTimeoutMs": 100})
    began = time.monotonic()
    with pytest.raises(DataLossError, match="ends at 2, and 5 was its end"):
        values(strict, strict.partitions(start, end))
    assert time.monotonic() - began < 20
    # It has some time for the records that are there.
    patient = stage.stream(**{"kafkaConsumer.pollTimeoutMs": 2500, "failOnDataLoss": "false"})
    assert values(patient, patient.partitions(start, end)) == [b"0:0", b"0:1"]


def lacking_at_first(
    reader: Any, topic: str, monkeypatch: pytest.MonkeyPatch, *, times: int = 1
) -> None:
    """The first answers are of a broker that does not know the topic yet."""
    left = times

    def describe(admin: Any, names: Any) -> Any:
        nonlocal left
        found = dict(describe_existing_topics(admin, names))
        if left and topic in found:
            left -= 1
            del found[topic]
        return found

    monkeypatch.setattr(source_cluster, "describe_existing_topics", describe)
    reader._found = None


def test_a_topic_that_one_answer_lacks_is_neither_lost_nor_read_again(
    stage: SourceStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = f"{stage.topic}-other"
    stage.create(1)
    stage.create(1, other)
    stage.fill(3)
    stage.fill(3, topic=other)
    options = {"startingOffsets": "earliest", "subscribe": f"{stage.topic},{other}"}
    for more in ({}, {"failOnDataLoss": "false"}):
        reader = stage.stream(**options, **more)
        end = reader.latestOffset(reader.initialOffset(), everything())
        lacking_at_first(reader, other, monkeypatch)
        assert reader.latestOffset(end, everything()) == end


def test_a_topic_that_the_first_answer_lacks_may_be_subscribed_to(
    stage: SourceStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that was created a moment ago, in a cluster whose brokers hear of it later."""
    stage.create(1)
    stage.fill(3)
    reader = stage.stream(startingOffsets="earliest")
    lacking_at_first(reader, stage.topic, monkeypatch, times=2)
    assert reader.initialOffset()["topics"] == {stage.topic: {"0": 0}}


def test_a_topic_that_comes_back_is_read_on(
    stage: SourceStage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stream_reader, "DISCOVERY_SECONDS", 0.0)
    other = f"{stage.topic}-other"
    stage.create(1)
    stage.create(1, other)
    stage.fill(3)
    stage.fill(3, topic=other)
    subscribed = f"{stage.topic},{other}"
    reader = stage.stream(startingOffsets="earliest", subscribe=subscribed, failOnDataLoss="false")
    end = reader.latestOffset(reader.initialOffset(), everything())
    # As often as it is asked for, in two looks.
    lacking_at_first(reader, other, monkeypatch, times=6)
    for _ in range(2):
        assert reader.latestOffset(end, everything()) == end
    assert sum(f"{other}-0 is gone" in each for each in caplog.messages) == 1
    stage.fill(1, topic=other)
    last = reader.latestOffset(end, everything())
    assert values(reader, reader.partitions(end, last)) == [b"0:0"]


def test_a_topic_that_goes_between_two_questions_is_a_loss(stage: SourceStage) -> None:
    """Of two partitions two errors come as one."""
    stage.create(2)
    stage.fill(2, 2)
    reader = stage.stream(startingOffsets="earliest")
    end = reader.latestOffset(reader.initialOffset(), everything())
    stage.delete()
    with pytest.raises(DataLossError, match=f"{stage.topic}-0 is gone"):
        reader.latestOffset(end, everything())


def test_a_topic_that_goes_before_its_tasks_run_is_a_loss(
    stage: SourceStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_queries, "LOOKUP_PAUSE_SECONDS", 0.0)
    stage.create(1)
    stage.fill(3)
    quick = {"kafkaConsumer.pollTimeoutMs": 100, "startingOffsets": "earliest"}
    strict, patient = stage.stream(**quick), stage.stream(**quick, failOnDataLoss="false")
    start = strict.initialOffset()
    parts = strict.partitions(start, strict.latestOffset(start, everything()))
    stage.delete()
    with pytest.raises(DataLossError, match="is gone, and was to be read from 0 to 3"):
        values(strict, parts)
    assert values(patient, parts) == []


def test_options_that_name_what_is_not_there_are_not_called_losses_of_records(
    stage: SourceStage,
) -> None:
    stage.create(2)
    stage.fill(3, 3)
    t = stage.topic
    reader = stage.stream(startingOffsets=f'{{"{t}":{{"0":9,"1":0}}}}')
    with pytest.raises(DataLossError, match="ends at 3, and startingOffsets say 9"):
        reader.latestOffset(reader.initialOffset(), everything())
    with pytest.raises(DataLossError, match="not written yet, or an open transaction"):
        stage.batch(endingOffsets=f'{{"{t}":{{"0":9,"1":-1}}}}').partitions()
    for option in ("startingOffsets", "endingOffsetsByTimestamp"):
        with pytest.raises(ConfigError, match=f"{option} must name exactly the partitions"):
            stage.batch(**{option: f'{{"{t}":{{"0":1}}}}'}).partitions()
