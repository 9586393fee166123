"""What Spark's progress says, in our words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.model import TopicPartition
from ottla.spark.pipeline.progress_report import Progress, progress_of
from ottla.spark.source.stream_offsets import SourceOffset


def offset(*ends: int) -> dict[str, Any]:
    return SourceOffset(
        {TopicPartition("orders", at): end for at, end in enumerate(ends)}
    ).to_json()


def report(**source: Any) -> dict[str, Any]:
    return {"batchId": 7, "durationMs": {"triggerExecution": 500}, "sources": [source]}


@pytest.mark.parametrize("written", [lambda each: each, json.dumps])
def test_rows_and_lag_of_a_topic_come_from_its_offsets(written: Any) -> None:
    found = progress_of(
        report(
            startOffset=written(offset(0, 10)),
            endOffset=written(offset(30, 20)),
            latestOffset=written(offset(35, 40)),
            numInputRows=80,
        )
    )
    assert found == Progress(batch=7, input_rows=40, duration_ms=500, lag=25)
    assert found.rows_per_second == 80.0


def test_other_sources_have_rows_but_no_lag() -> None:
    found = progress_of(report(startOffset=0, endOffset=5, latestOffset="none", numInputRows=9))
    assert found == Progress(7, 9, 500, None)


def test_the_first_micro_batch_begins_nowhere() -> None:
    found = progress_of(
        report(startOffset=None, endOffset=offset(3), latestOffset=offset(4), numInputRows=3)
    )
    assert found == Progress(7, 3, 500, 1)


def test_a_query_that_waits_takes_no_time() -> None:
    found = progress_of({"batchId": 1, "sources": []})
    assert found == Progress(1, 0, 0, None)
    assert found.rows_per_second == 0


def test_the_first_micro_batch_counts_from_where_it_begins() -> None:
    end = {"version": 1, "topics": {"t": {"0": 15}}, "begin": {"t": {"0": 5}}}
    source = {"startOffset": None, "endOffset": end, "latestOffset": end, "numInputRows": 20}
    report = {"batchId": 0, "durationMs": {"triggerExecution": 1}, "sources": [source]}
    assert progress_of(report).input_rows == 10
