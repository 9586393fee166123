"""Exactly once with the checkpoint in an S3-compatible store: Spark writes it, the sink reads it with pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tests.spark import verdict
from tests.spark.object_store import BUCKET, KEYS, ObjectStore, hadoop_aws, object_store
from tests.spark.pipeline_process import PipelineProcess
from tests.spark.scenes import Scene
from tests.spark.sessions import needs_spark

from ottla import Broker

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(900)]

# Spark's own choice where nobody says otherwise.
FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
)


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


class StoredScene(Scene):
    """The checker looks at files of this machine: it gets a copy."""

    store: ObjectStore

    @property
    def checked(self) -> verdict.Checked:
        from pyarrow import fs

        folder = f"{BUCKET}/{self.name}"
        fs.copy_files(
            folder,
            str(self.folder / "checkpoint"),
            source_filesystem=self.store.files(),
            destination_filesystem=fs.LocalFileSystem(),
        )
        return super().checked

    def settings(self) -> dict[str, Any]:
        # Those of the other tests are for local files.
        manager = {
            "spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER,
            "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
        }
        return {
            "checkpoint": f"s3a://{BUCKET}/{self.name}",
            "conf": {**manager, **self.store.spark_settings},
            "write": self.store.sink_options,
        }


@pytest.fixture
def scene(
    store: ObjectStore, spark_broker: Broker, ottla_topic_name: Callable[[], str], tmp_path: Path
) -> Iterator[StoredScene]:
    made = StoredScene(spark_broker.bootstrap_servers, ottla_topic_name(), tmp_path)
    made.store = store
    made.create()
    made.feed(150)
    yield made
    made.clean_up()


@pytest.mark.parametrize(
    ("point", "deed"), [("SENT_MARKER", "die"), ("ENDED", "die"), ("ENDED", "go on")]
)
def test_a_driver_that_is_killed_loses_and_repeats_nothing(
    scene: StoredScene, point: str, deed: str
) -> None:
    scene.crash(point, 2, deed, **scene.settings())
    assert scene.check_whole() == 1 + (point == "ENDED")
    scene.feed(40)
    scene.finish(**scene.settings())
    scene.check_done()


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
