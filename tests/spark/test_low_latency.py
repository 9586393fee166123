"""The low-latency engine: the same guarantees, whatever dies at whatever step."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tests.spark.scenes import Scene

from ottla.errors import ConfigError
from ottla.spark.driver_folder import FOLDERS
from ottla.spark.pipeline.pipeline import LOW_LATENCY, Pipeline
from ottla.spark.sink.commit_session import CommitPoint
from ottla.spark.sink.low_latency_engine import DriverSink
from ottla.spark.sink.process_state import SINK_PROCESS

pytestmark = pytest.mark.timeout(900)

ONCE = {CommitPoint.LOOKED, CommitPoint.FENCED, CommitPoint.LOOKED_AGAIN}


def test_a_pipeline_goes_on_after_a_stop_with_either_engine(spark: Any, scene: Scene) -> None:
    for engine in (LOW_LATENCY, "standard", LOW_LATENCY):
        Pipeline(
            scene.name,
            source=scene.sources,
            sink=scene.sink,
            transform=lambda frame: frame.selectExpr(
                "key", "concat_ws(' ', topic, partition, offset, cast(value as string)) value"
            ),
            trigger="available-now",
            bootstrap_servers=scene.servers,
            checkpoint=str(scene.folder / "checkpoint"),
            source_options={"maxOffsetsPerTrigger": "90"},
            engine=engine,
        ).run()
        assert not SINK_PROCESS.take_sessions_of(scene.name), "connections stay open"
        scene.check_done()
        scene.feed(40)
    # Sources and sinks see the same folder, which has the registry of planned reads.
    names = spark.sparkContext.parallelize([FOLDERS], 1)
    told = names.map(lambda name: os.environ[name]).first()
    assert list(Path(told.split(",")[0]).glob("ottla-plans/*-*"))


@pytest.mark.campaign
@pytest.mark.parametrize("point", [each.name for each in CommitPoint])
def test_a_driver_killed_at_any_step_of_a_commit_loses_and_repeats_nothing(
    scene: Scene, point: str
) -> None:
    visit = 1 if CommitPoint[point] in ONCE else 2
    scene.crash(point, visit, "die", engine=LOW_LATENCY)
    assert scene.check_whole() == visit - 1 + (point == "ENDED")
    scene.feed(40)
    scene.finish(engine=LOW_LATENCY)
    scene.check_done()


@pytest.mark.campaign
@pytest.mark.parametrize("point", ["BEGUN", "SENT_MARKER"])
def test_a_driver_without_its_jvm_commits_a_whole_micro_batch_or_nothing(
    scene: Scene, point: str
) -> None:
    scene.crash(point, 2, "go on", engine=LOW_LATENCY)
    assert scene.check_whole() in (1, 2)
    scene.feed(40)
    scene.finish(engine=LOW_LATENCY)
    scene.check_done()


@pytest.mark.campaign
def test_one_that_was_taken_over_stops_and_says_so(scene: Scene) -> None:
    first = scene.start(supervised=True, trigger="always", engine=LOW_LATENCY)
    first.wait_for("batch 1")
    scene.checkpoints.append("another")
    scene.feed(90)
    scene.finish(engine=LOW_LATENCY)
    scene.feed(90)
    first.wait()
    assert "PipelineTakenOverError: " in first.said(), first.said()[-6000:]
    scene.check_whole()


def test_it_is_exactly_once_or_refused(scene: Scene) -> None:
    from pyspark.sql.types import BinaryType, StructField, StructType

    options = {"kafka.bootstrap.servers": scene.servers, "topic": scene.sink}
    schema = StructType([StructField("value", BinaryType())])
    with pytest.raises(ConfigError, match="low-latency"):
        DriverSink({**options, "delivery": "at-least-once"}, schema)
