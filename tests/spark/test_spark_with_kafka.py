"""What Spark does with our broker, it does with Apache Kafka: source, sink, pipelines, and drivers that die."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tests.apache_kafka.conftest import kafka_address, kafka_jars
from tests.spark import test_pipeline_in_spark, test_sink_rows, test_source_in_spark, verdict
from tests.spark.pipeline_scene import PipelineScene
from tests.spark.pipelines import Pipe
from tests.spark.scenes import Scene
from tests.spark.sessions import needs_spark
from tests.spark.source_stage import SourceStage
from tests.spark.test_source_in_spark import Query

import ottla
from ottla.spark.source import range_reader as reading

__all__ = ["kafka_address", "kafka_jars"]

# In every test run: a pipeline with dead letters, a batch query that writes, one that reads.
QUICK = (
    "test_what_cannot_be_read_goes_to_the_dead_letters_in_the_same_transaction",
    "test_every_column_becomes_what_it_is_called",
    "test_a_batch_query_needs_no_registration_and_reads_every_record",
)
# It has nothing to do with the broker.
NOT_OF_BROKERS = ("test_the_guide_runs",)


def cases() -> Iterator[Any]:
    modules = (test_pipeline_in_spark, test_sink_rows, test_source_in_spark)
    for module in modules:
        for name, case in vars(module).items():
            if not name.startswith("test_") or name in NOT_OF_BROKERS:
                continue
            for arguments, is_long in variants(case):
                words = [name.removeprefix("test_"), *(str(each) for each in arguments.values())]
                is_quick = name in QUICK and not is_long
                marks = [] if is_quick else [pytest.mark.campaign]
                yield pytest.param(case, arguments, id="-".join(words), marks=marks)


def variants(case: Callable[..., None]) -> list[tuple[dict[str, Any], bool]]:
    """The arguments with which a test is run, and whether only in the campaign."""
    marks: list[pytest.Mark] = list(getattr(case, "pytestmark", ()))
    is_long = any(mark.name == "campaign" for mark in marks)
    tables = [mark for mark in marks if mark.name == "parametrize"]
    if not tables:
        return [({}, is_long)]
    (table,) = tables
    names, rows = table.args
    found = []
    for row in rows:
        values = row.values if hasattr(row, "marks") else row
        of_row = getattr(row, "marks", ())
        if isinstance(names, str):
            arguments = {names: values[0] if hasattr(row, "marks") else values}
        else:
            arguments = dict(zip(names, values, strict=True))
        found.append((arguments, is_long or any(mark.name == "campaign" for mark in of_row)))
    return found


@pytest.fixture
def scene(
    spark: Any, kafka_address: str, ottla_topic_name: Callable[[], str], tmp_path: Path
) -> PipelineScene:
    return PipelineScene(kafka_address, ottla_topic_name(), tmp_path)


@pytest.fixture
def pipe(kafka_address: str, ottla_topic_name: Callable[[], str], tmp_path: Path) -> Pipe:
    needs_spark()
    made = Pipe(kafka_address, ottla_topic_name(), tmp_path)
    made.create()
    made.feed(150)
    return made


@pytest.fixture
def stage(kafka_address: str, ottla_topic: str) -> Iterator[SourceStage]:
    made = SourceStage(kafka_address, ottla_topic)
    yield made
    made.close()
    reading.close_idle()


@pytest.fixture
def query(spark: Any, stage: SourceStage, tmp_path: Path) -> Query:
    return Query(spark, stage, tmp_path / "checkpoint")


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("case", "arguments"), list(cases()))
def test_with_kafka(
    spark: Any,
    case: Callable[..., None],
    arguments: dict[str, Any],
    request: pytest.FixtureRequest,
) -> None:
    wanted = [name for name in inspect.signature(case).parameters if name not in arguments]
    case(**arguments, **{name: request.getfixturevalue(name) for name in wanted})


@pytest.mark.campaign
@pytest.mark.timeout(300)
def test_at_least_once_writes_everything_and_tells_the_lag(scene: PipelineScene) -> None:
    numbers = [b"%d" % number for number in range(50)]
    scene.feed(*((b"k", number) for number in numbers))
    scene.pipeline(sink_options={"delivery": "at-least-once"}).run()
    assert [each.value for each in scene.records("out")] == numbers
    with ottla.Admin(bootstrap_servers=scene.servers) as admin:
        found = admin.list_consumer_group_offsets([scene.name])[scene.name]
    assert {each.topic: at and at.offset for each, at in found.items()} == {scene.topic("in"): 50}


# In processes of their own, as in test_sink_in_spark.


@pytest.fixture
def killed(
    kafka_address: str, ottla_topic_name: Callable[[], str], tmp_path: Path
) -> Iterator[Scene]:
    needs_spark()
    made = Scene(kafka_address, ottla_topic_name(), tmp_path)
    made.create()
    made.feed(150)
    yield made
    made.clean_up()


@pytest.mark.campaign
@pytest.mark.timeout(900)
@pytest.mark.parametrize("deed", ["die", "go on"])
@pytest.mark.parametrize("point", ["SENT_SOME", "SENT_MARKER", "ENDED"])
def test_a_driver_that_is_killed_loses_and_repeats_nothing(
    killed: Scene, point: str, deed: str
) -> None:
    killed.crash(point, 2, deed)
    assert killed.check_whole() == 1 + (point == "ENDED" or deed == "go on")
    killed.feed(40)
    killed.finish()
    killed.check_done()


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_a_lost_checkpoint_goes_on_from_the_groups_offsets(killed: Scene) -> None:
    killed.crash("SENT", 3, "die")
    assert killed.check_whole() == 2
    killed.checkpoints.append("another")
    killed.finish()
    killed.check_done()


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_state_is_right_after_a_crash(killed: Scene) -> None:
    killed.shape = verdict.counted
    killed.crash("SENT_MARKER", 2, "die", kind="counted")
    killed.feed(40)
    killed.finish(kind="counted")
    killed.check_done()
