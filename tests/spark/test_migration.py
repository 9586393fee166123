"""Checkpoints of spark-sql-kafka whose source and sink become ours: they go on by themselves, and only they do."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from tests.spark.test_commit_plan import QUERY, Stage, stage

from ottla.errors import ConfigError
from ottla.spark.datasource import OttlaDataSource
from ottla.spark.driver_folder import FOLDERS
from ottla.spark.sink.micro_batch_commit import Committer
from ottla.spark.sink.progress import ProgressError
from ottla.spark.sink.writers import target_of
from ottla.spark.source.stream_offsets import SourceOffset

__all__ = ["stage"]

DAY_MS = 24 * 3600 * 1000
NO_MARKER = "has no marker"


class Migrating:
    """A query that spark-sql-kafka ran up to micro-batch 2, which ends at offset 10."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._readers: list[Any] = []
        self.write_plan(2, self.of_kafka(10))

    def of_kafka(self, end: int) -> dict[str, Any]:
        return {self.stage.source.topic: {"0": end}}

    def of_ours(self, end: int, group: str | None = None) -> dict[str, Any]:
        offsets = {self.stage.source: end}
        return SourceOffset(offsets, cluster=self.stage.cluster, group=group).to_json()

    def write_plan(self, number: int, position: dict[str, Any], age_ms: int = 0) -> None:
        about = {"batchWatermarkMs": 0, "batchTimestampMs": int(time.time() * 1000) - age_ms}
        text = "\n".join(["v1", json.dumps(about), json.dumps(position)])
        (self.stage.folder / "offsets" / str(number)).write_text(text)

    def read(self, start: dict[str, Any], end: dict[str, Any], **more: str) -> None:
        """What our source does when Spark runs a micro-batch."""
        stage = self.stage
        given = {"kafka.bootstrap.servers": stage.servers, "subscribe": stage.source.topic, **more}
        source = OttlaDataSource(given)
        self._readers.append(source.streamReader(source.schema()))
        self._readers[-1].partitions(start, end)

    def commit(self, number: int, values: range, **options: str) -> None:
        """As a new process each time."""
        writer = self.stage.writer(**options)
        writer.commit(self.stage.messages(writer, number, values), number)
        Committer(target_of(writer._settings, QUERY)).forget()

    def close(self) -> None:
        for each in self._readers:
            each.stop()


@pytest.fixture
def migrating(
    stage: Stage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Migrating]:
    (tmp_path / "blockmgr-1").mkdir()
    monkeypatch.setenv(FOLDERS, str(tmp_path / "blockmgr-1"))
    made = Migrating(stage)
    yield made
    made.close()


@pytest.mark.parametrize("options", [{}, {"commitsourceoffsets": "false"}])
def test_a_query_that_stopped_after_a_micro_batch_goes_on_with_the_next_one(
    migrating: Migrating, options: dict[str, str]
) -> None:
    stage = migrating.stage
    migrating.write_plan(3, migrating.of_ours(15))
    for _ in range(2):
        migrating.commit(3, range(5), **options)
    migrating.write_plan(4, migrating.of_ours(17))
    migrating.commit(4, range(5, 7), **options)
    assert stage.values() == [b"%d" % number for number in range(7)]
    assert stage.committed() == (None if options else 17)


def test_a_query_without_a_pipelines_name_goes_on_too(migrating: Migrating) -> None:
    options = migrating.stage.options()
    del options["pipeline"]
    migrating.stage.options = lambda **more: {**options, **more}  # type: ignore[method-assign]
    migrating.write_plan(3, migrating.of_ours(15))
    for _ in range(2):
        migrating.commit(3, range(5))
    assert len(migrating.stage.values()) == 5


def test_a_micro_batch_that_was_interrupted_under_spark_sql_kafka_is_written_once(
    migrating: Migrating,
) -> None:
    interrupted = migrating.of_kafka(15)
    # Long ago, which says nothing: the other source planned it.
    migrating.write_plan(3, interrupted, age_ms=30 * DAY_MS)
    with pytest.raises(ProgressError, match=NO_MARKER):
        migrating.commit(3, range(5))
    migrating.read(migrating.of_kafka(10), interrupted)
    for _ in range(2):
        migrating.commit(3, range(5))
    following = migrating.of_ours(17)
    migrating.write_plan(4, following)
    migrating.read(interrupted, following)
    migrating.commit(4, range(5, 7))
    assert len(migrating.stage.values()) == 7
    assert migrating.stage.committed() == 17


def test_a_first_micro_batch_of_long_ago_may_have_been_written_and_forgotten(
    migrating: Migrating,
) -> None:
    migrating.write_plan(3, migrating.of_ours(15), age_ms=2 * DAY_MS)
    with pytest.raises(ProgressError, match=NO_MARKER):
        migrating.commit(3, range(5))
    migrating.commit(3, range(5), failonunknownprogress="false")
    assert len(migrating.stage.values()) == 5


def test_a_first_micro_batch_that_was_planned_under_another_name_may_have_been_written(
    migrating: Migrating,
) -> None:
    former = f"{migrating.stage.name}-former"
    migrating.write_plan(3, migrating.of_ours(15, group=former))
    migrating.commit(3, range(5), pipeline=former)
    with pytest.raises(ProgressError, match="had another name"):
        migrating.commit(3, range(5))
    assert len(migrating.stage.values()) == 5


def test_a_name_that_was_mended_before_anything_was_written_changes_nothing(
    migrating: Migrating,
) -> None:
    former = f"{migrating.stage.name}-former"
    migrating.write_plan(3, migrating.of_ours(15, group=former))
    for _ in range(2):
        migrating.commit(3, range(5))
    assert len(migrating.stage.values()) == 5


def test_a_source_with_another_pipelines_name_is_refused_before_tasks_are_planned(
    migrating: Migrating,
) -> None:
    stage = migrating.stage
    start = migrating.of_ours(0)
    planned = {**migrating.of_ours(5, group="other"), "begin": start["topics"]}
    migrating.write_plan(0, planned)
    (stage.folder / "offsets" / "2").unlink()
    migrating.read(start, planned, pipeline="other")
    with pytest.raises(ConfigError, match="pipeline='other', and the sink has pipeline="):
        stage.writer()
    # The user gives the source the sink's name; what is planned stays.
    migrating.read(start, planned, pipeline=stage.name)
    migrating.commit(0, range(5))
    assert len(stage.values()) == 5
