"""Exactly once with the checkpoint in an S3-compatible store: Spark writes it, the sink reads it with pyarrow."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tests.spark.object_store import BUCKET, KEYS, ObjectStore, hadoop_aws, object_store
from tests.spark.pipeline_process import PipelineProcess
from tests.spark.pipelines import Pipe
from tests.spark.sessions import needs_spark
from tests.spark.spark_runs import crash, finish

from ottla import Broker
from ottla.spark.offsets import SourceOffset

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    needs_spark()
    jars = hadoop_aws(tmp_path_factory.getbasetemp().parent)
    with object_store(tmp_path_factory.mktemp("store"), jars) as started:
        yield started


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on machines that have a role or a profile: Spark and the sink find the keys by themselves."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


def settings(pipe: Pipe, store: ObjectStore) -> dict[str, Any]:
    # Spark's own choice of how a checkpoint is written: that of the other tests is for local files.
    manager = "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
    conf = {"spark.sql.streaming.checkpointFileManagerClass": manager, **store.spark_settings}
    return {
        "checkpoint": f"s3a://{BUCKET}/{pipe.name}",
        "conf": conf,
        "write": store.sink_options,
    }


def agree(pipe: Pipe, store: ObjectStore) -> None:
    """Offsets and marker are what the checkpoint in the store has planned."""
    marker = pipe.marker()
    assert marker is not None
    with store.files().open_input_stream(f"{BUCKET}/{pipe.name}/offsets/{marker.batch}") as file:
        planned = SourceOffset.from_json(json.loads(file.read().decode().splitlines()[2]))
    assert pipe.group_offsets() == {each.partition: at for each, at in planned.offsets.items()}
    values = sorted(int(value.split()[1]) for value in pipe.output())
    assert values == sorted(pipe.inputs_before(pipe.group_offsets()))


@pytest.mark.parametrize(
    ("point", "deed"), [("SENT_MARKER", "die"), ("ENDED", "die"), ("ENDED", "go on")]
)
def test_a_driver_that_is_killed_loses_and_repeats_nothing(
    pipe: Pipe, store: ObjectStore, point: str, deed: str
) -> None:
    crash(pipe, point, 2, deed, **settings(pipe, store))
    agree(pipe, store)
    pipe.feed(40)
    finish(pipe, **settings(pipe, store))
    agree(pipe, store)
    assert sorted(int(value.split()[1]) for value in pipe.output()) == list(range(pipe.count))


def test_a_pipeline_runs_and_is_killed_with_its_checkpoint_there(
    ottla_broker: Broker, ottla_topic_name: Callable[[], str], tmp_path: Path, store: ObjectStore
) -> None:
    name = ottla_topic_name()
    pipeline = PipelineProcess(ottla_broker.bootstrap_servers, name, tmp_path, store.sink_options)
    pipeline.checkpoint = f"s3a://{BUCKET}/{name}"
    options = [f"--conf={each}={value}" for each, value in store.spark_settings.items()]
    try:
        pipeline.feed(900)
        pipeline.start("--master", "local[2]", *options)
        pipeline.until_out(60)
        pipeline.kill()
        pipeline.check_nothing_twice()
        pipeline.start("--master", "local[2]", *options)
        pipeline.check_exactly_once()
    finally:
        pipeline.end()
