"""A micro-batch is committed under the plan that its tasks had, or not at all; writers without a Spark session."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow as pa
from pyspark.sql.types import StructType
from tests.spark.pipelines import committed_values

import ottla
from ottla import Broker
from ottla.errors import ConfigError
from ottla.model import TopicPartition
from ottla.spark.datasource import OttlaDataSource
from ottla.spark.driver_folder import FOLDERS
from ottla.spark.sink import batch_writer as batch_sink
from ottla.spark.sink import commit_session, task_rows
from ottla.spark.sink.commit_session import CommitPoint
from ottla.spark.sink.micro_batch_commit import Committer
from ottla.spark.sink.process_state import SINK_PROCESS
from ottla.spark.sink.progress import ProgressError, TakenOverError
from ottla.spark.sink.sink_options import SinkSettings, read_stream_settings
from ottla.spark.sink.target_topics import planned_partition_counts
from ottla.spark.sink.task_rows import SparkTask, TaskCommit, encode_rows
from ottla.spark.sink.writers import stream_writer, target_of
from ottla.spark.source.stream_offsets import SourceOffset

QUERY = "6ba98283-13c6-4538-8087-02f2f68bc607"
SCHEMA = StructType().add("value", "binary")


class Stage:
    """A checkpoint, a source's topic and an output, and instances that write to it."""

    def __init__(
        self, broker: Broker, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._monkeypatch = monkeypatch
        self.servers = broker.bootstrap_servers
        self.name = name
        self.source, self.output = TopicPartition(f"{name}-in", 0), f"{name}-out"
        self.folder = folder
        (folder / "offsets").mkdir()
        (folder / "metadata").write_text(json.dumps({"id": QUERY}))
        with ottla.Admin(bootstrap_servers=self.servers) as admin:
            admin.create_topics(
                [ottla.admin.NewTopic(self.source.topic, 1), ottla.admin.NewTopic(self.output, 1)]
            )
            self.cluster = admin.describe_cluster().cluster_id

    def position(self, number: int, end: int) -> dict[str, Any]:
        """Where a micro-batch of the source ends."""
        begin = {self.source: 0} if number == 0 else {}
        return SourceOffset({self.source: end}, cluster=self.cluster, begin=begin).to_json()

    def plan(self, number: int, end: int) -> None:
        """As Spark writes it, or as another instance writes it again."""
        text = "\n".join(["v1", "{}", json.dumps(self.position(number, end))])
        (self.folder / "offsets" / str(number)).write_text(text)

    def options(self, **more: str) -> dict[str, str]:
        given = {
            "kafka.bootstrap.servers": self.servers,
            "topic": self.output,
            "pipeline": self.name,
            "checkpointlocation": str(self.folder),
        }
        return {**given, **more}

    def settings(self, **more: str) -> SinkSettings:
        return read_stream_settings(self.options(**more), SCHEMA)

    def writer(self, **more: str) -> Any:
        return stream_writer(self.options(**more), SCHEMA)

    def messages(self, planned: Any, number: int, values: range) -> list[Any]:
        """What two tasks leave that were planned by the process of this writer."""
        found = []
        rows = [b"%d" % value for value in values]
        for task, part in enumerate((rows[:4], rows[4:])):
            context = Context(task, number)
            told = SimpleNamespace(get=lambda context=context: context)
            self._monkeypatch.setattr(task_rows, "TaskContext", told)
            sent = pickle.loads(pickle.dumps(planned))
            batch = pa.RecordBatch.from_arrays([pa.array(part, pa.binary())], names=["value"])
            found.append(pickle.loads(pickle.dumps(sent.write(iter([batch])))))
        return found

    def committed(self) -> int | None:
        with ottla.Admin(bootstrap_servers=self.servers) as admin:
            found = admin.list_consumer_group_offsets({self.name: [self.source]})
        at = found[self.name][self.source]
        return None if at is None else at.offset

    def values(self) -> list[bytes]:
        return committed_values(self.servers, self.output)

    def forget(self, writer: Any) -> None:
        """As if the next commit were in another process."""
        Committer(target_of(writer._settings, QUERY)).forget()


class Context:
    """What Spark tells a task."""

    def __init__(self, task: int, number: int) -> None:
        self._task = task
        self._properties = {task_rows.QUERY: QUERY, task_rows.BATCH: str(number)}

    def partitionId(self) -> int:  # noqa: N802
        return self._task

    def taskAttemptId(self) -> int:  # noqa: N802
        return self._task

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802
        return self._properties.get(name)


@pytest.fixture
def stage(
    spark_broker: Broker,
    ottla_topic_name: Callable[[], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Stage]:
    monkeypatch.setattr(SINK_PROCESS, "unreadable_checkpoints", set())
    made = Stage(spark_broker, ottla_topic_name(), tmp_path, monkeypatch)
    yield made
    Committer(target_of(made.settings(), QUERY)).forget()


def test_an_instance_whose_plan_was_replaced_commits_nothing(stage: Stage) -> None:
    """Where a store lets a second instance write offsets/N again, its plan is the one that a restart follows."""
    stage.plan(0, 10)
    mine = stage.messages(stage.writer(), 0, range(10))
    stage.plan(0, 20)
    theirs = stage.messages(stage.writer(), 0, range(20))
    with pytest.raises(TakenOverError, match="another instance uses it too"):
        stage.writer().commit(mine, 0)
    assert (stage.committed(), stage.values()) == (None, [])
    stage.writer().commit(theirs, 0)
    assert (stage.committed(), len(stage.values())) == (20, 20)


def test_a_plan_that_is_replaced_during_the_commit_changes_nothing_of_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.plan(0, 10)
    mine = stage.messages(stage.writer(), 0, range(10))

    def replace_plan(point: CommitPoint) -> None:
        if point is CommitPoint.ENTERED:
            stage.plan(0, 20)

    monkeypatch.setattr(commit_session, "listener", replace_plan)
    stage.writer().commit(mine, 0)
    assert (stage.committed(), len(stage.values())) == (10, 10)
    # The other one is refused: what it planned is not what was committed under this number.
    monkeypatch.setattr(commit_session, "listener", None)
    stage.forget(stage.writer())
    theirs = stage.messages(stage.writer(), 0, range(20))
    with pytest.raises(ProgressError, match="with another plan"):
        stage.writer().commit(theirs, 0)
    assert (stage.committed(), len(stage.values())) == (10, 10)


def test_a_plan_that_was_replaced_before_the_sink_read_it_is_refuted_by_the_source(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark looks for offsets/N and moves the file there later: mostly before the tasks are planned."""
    (tmp_path / "blockmgr-1").mkdir()
    monkeypatch.setenv(FOLDERS, str(tmp_path / "blockmgr-1"))
    source = OttlaDataSource(
        {"kafka.bootstrap.servers": stage.servers, "subscribe": stage.source.topic}
    )
    reader = source.streamReader(source.schema())
    stage.plan(0, 10)
    reader.partitions(stage.position(0, 0), stage.position(0, 10))
    stage.plan(0, 20)
    mixed = stage.messages(stage.writer(), 0, range(10))
    with pytest.raises(TakenOverError, match="another instance uses it too"):
        stage.writer().commit(mixed, 0)
    assert stage.values() == []
    stage.plan(0, 10)
    stage.writer().commit(stage.messages(stage.writer(), 0, range(10)), 0)
    # The next one begins where this one ended.
    stage.plan(1, 15)
    reader.partitions(stage.position(0, 10), stage.position(1, 15))
    stage.writer().commit(stage.messages(stage.writer(), 1, range(10, 15)), 1)
    assert (stage.committed(), len(stage.values())) == (15, 15)
    reader.stop()


def test_an_instance_that_finds_later_plans_stops(stage: Stage) -> None:
    stage.plan(0, 10)
    stage.plan(1, 20)
    late = stage.messages(stage.writer(), 0, range(10))
    with pytest.raises(TakenOverError, match="another instance uses it too"):
        stage.writer().commit(late, 0)
    assert stage.values() == []


def test_a_micro_batch_that_runs_again_has_its_plan_again(stage: Stage) -> None:
    stage.plan(0, 10)
    for _ in range(2):
        again = stage.messages(stage.writer(), 0, range(10))
        stage.writer().commit(again, 0)
        stage.forget(stage.writer())
    stage.plan(1, 10)
    empty = stage.messages(stage.writer(), 1, range(0))
    stage.writer().commit(empty, 1)
    assert (stage.committed(), len(stage.values())) == (10, 10)


def test_a_plan_that_the_tasks_do_not_have_is_read_at_the_commit(stage: Stage) -> None:
    """Where only tasks know the place of the checkpoint."""
    stage.plan(0, 10)
    pinned = stage.writer()
    blind = type(pinned)(pinned._settings, replace(pinned._plan, offsets=None))
    stage.writer().commit(stage.messages(blind, 0, range(10)), 0)
    stage.plan(1, 20)
    # That of the micro-batch before is none of this one.
    (stage.folder / "offsets" / "1").rename(stage.folder / "later")
    before = stage.writer()
    (stage.folder / "later").rename(stage.folder / "offsets" / "1")
    stage.writer().commit(stage.messages(before, 1, range(10, 20)), 1)
    assert (stage.committed(), len(stage.values())) == (20, 20)


def test_a_query_that_plans_its_tasks_before_any_offsets_is_continuous_and_refused(
    stage: Stage,
) -> None:
    """Its tasks would not call `write`, and Spark only logs what `commit` raises."""
    for more in ({}, {"delivery": "at-least-once"}):
        with pytest.raises(ConfigError, match="this query is processed continuously"):
            stage.writer(**more)
    # Spark keeps the last plans only.
    stage.plan(107, 10)
    for more in ({}, {"delivery": "at-least-once"}):
        stage.writer(**more)
    (stage.folder / "offsets" / "107").unlink()
    # Elsewhere there is no query: this is another place than Spark's.
    (stage.folder / "metadata").unlink()
    assert stage.writer()._plan.offsets is None


def test_the_plan_is_checked_although_no_offsets_are_committed(stage: Stage) -> None:
    def writer() -> Any:
        return stage.writer(commitSourceOffsets="false")

    stage.plan(0, 10)
    writer().commit(stage.messages(writer(), 0, range(10)), 0)
    stage.forget(writer())
    # A checkpoint that was put back from a copy plans the number anew.
    stage.plan(0, 15)
    with pytest.raises(ProgressError, match="with another plan"):
        writer().commit(stage.messages(writer(), 0, range(15)), 0)
    assert (stage.committed(), len(stage.values())) == (None, 10)


@pytest.mark.parametrize("location", ["nosuchstore://bucket/q", "missing"])
def test_a_checkpoint_that_need_not_be_read_may_be_closed(
    stage: Stage, location: str, caplog: pytest.LogCaptureFixture
) -> None:
    location = location if "://" in location else str(stage.folder / location)

    def writer() -> Any:
        return stage.writer(commitSourceOffsets="false", checkpointlocation=location)

    for number in range(2):
        values = range(number * 10, number * 10 + 10)
        writer().commit(stage.messages(writer(), number, values), number)
    assert len(stage.values()) == 20
    # It is tried once.
    assert sum("The checkpoint is not read" in each for each in caplog.messages) == 1


def test_partitions_that_were_added_are_used_in_the_next_micro_batch(stage: Stage) -> None:
    settings = stage.settings()
    assert planned_partition_counts(settings) == {stage.output: 1}
    with ottla.Admin(bootstrap_servers=stage.servers) as admin:
        admin.create_partitions({stage.output: 3})
    assert planned_partition_counts(stage.settings(markertopic=stage.source.topic)) == {
        stage.output: 3,
        stage.source.topic: 1,
    }
    # Also where only rows name the topic.
    batch = pa.RecordBatch.from_arrays(
        [pa.array([b"x"]), pa.array([2], pa.int32())], names=["value", "partition"]
    )
    (found,) = encode_rows(settings, {}, [batch], 0)
    assert found.partition == 2


def test_tasks_agree_on_the_partitions_of_pinned_topics_that_only_rows_name(stage: Stage) -> None:
    dead = f"{stage.name}-dead"

    def placed(counts: dict[str, int]) -> set[int]:
        """Where the tasks of a micro-batch put rows with different keys."""
        keys = [b"%d" % number for number in range(50)]
        batch = pa.RecordBatch.from_arrays(
            [pa.array(keys), pa.array(keys), pa.array([dead] * 50)],
            names=["key", "value", "topic"],
        )
        settings = replace(stage.settings(), topic=None)
        return {each.partition for each in encode_rows(settings, counts, [batch], 0)}

    with ottla.Admin(bootstrap_servers=stage.servers) as admin:
        admin.create_topics([ottla.admin.NewTopic(dead, 1)])
        planned = planned_partition_counts(stage.settings(pinnedtopics=f"{dead}, {stage.output}"))
        admin.create_partitions({dead: 3})
    assert placed(planned) == {0}
    assert placed(planned_partition_counts(stage.settings(pinnedtopics=dead))) == {0, 1, 2}


def test_a_pinned_topic_need_not_exist_and_is_not_created(stage: Stage) -> None:
    missing = f"{stage.name}-missing"
    assert planned_partition_counts(stage.settings(pinnedtopics=missing)) == {stage.output: 1}
    with ottla.Admin(bootstrap_servers=stage.servers) as admin:
        assert missing not in admin.list_topics()


def test_a_batch_query_lacks_no_task() -> None:
    writer = batch_sink.OneTransactionWriter(SimpleNamespace(kafka={}), {})  # type: ignore[arg-type]
    with pytest.raises(ottla.OttlaError, match="1 of 2 tasks left no message"):
        writer.commit([TaskCommit(SparkTask(0, 0, None, None, None)), None])


def test_settings_do_not_show_secrets(stage: Stage) -> None:
    settings = stage.settings(
        checkpointStorageOptions='{"secret_key":"hushed"}', **{"kafka.client.id": "hushed"}
    )
    assert "hushed" not in repr(settings)
    assert "hushed" not in repr(target_of(settings, QUERY))
