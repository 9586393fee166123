"""What the source does when records are gone."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("pyspark")

from tests.spark.source_stage import SourceStage, everything, values

from ottla.spark.offsets import DataLossError


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
    from ottla.spark import source

    monkeypatch.setattr(source, "DISCOVERY_SECONDS", 0.0)
    other = f"{stage.topic}-other"
    stage.create(1)
    stage.create(1, other)
    options = {"startingOffsets": "earliest", "subscribe": f"{stage.topic},{other}"}
    strict, patient = stage.stream(**options), stage.stream(**options, failOnDataLoss="false")
    start = strict.initialOffset()
    stage.admin.delete_topics([other])
    stage.fill(2)
    with pytest.raises(DataLossError, match=f"{other}-0 is gone"):
        strict.latestOffset(start, everything())
    end = patient.latestOffset(start, everything())
    assert values(patient, patient.partitions(start, end)) == [b"0:0", b"0:1"]
    # It is kept where it was, should it come back.
    assert end["topics"] == {stage.topic: {"0": 2}, other: {"0": 0}}
    assert patient.latestOffset(end, everything()) == end


def test_a_topic_that_was_made_again_is_not_mistaken_for_the_former(
    stage: SourceStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ottla.spark import source

    monkeypatch.setattr(source, "DISCOVERY_SECONDS", 0.0)
    stage.create(1)
    stage.fill(2)
    strict, patient = stage.stream(), stage.stream(failOnDataLoss="false")
    start = strict.initialOffset()
    stage.admin.delete_topics([stage.topic])
    stage.create(1)
    stage.fill(3)
    with pytest.raises(DataLossError, match="deleted and made again"):
        strict.latestOffset(start, everything())
    end = patient.latestOffset(start, everything())
    assert values(patient, patient.partitions(start, end)) == [b"0:0", b"0:1", b"0:2"]
    assert patient.latestOffset(end, everything()) == end


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
    patient = stage.stream(**{"kafkaConsumer.pollTimeoutMs": 100, "failOnDataLoss": "false"})
    assert values(patient, patient.partitions(start, end)) == [b"0:0", b"0:1"]
