"""What Spark does with our broker, it does with Apache Kafka: source, sink, pipelines, and drivers that die."""

from __future__ import annotations

import inspect
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tests.apache_kafka.conftest import kafka_address, kafka_jars
from tests.spark import test_pipeline_in_spark, test_sink_rows, test_source_in_spark
from tests.spark.pipelines import Pipe
from tests.spark.pipeline_scene import Scene
from tests.spark.sessions import needs_spark, spark_session
from tests.spark.source_stage import SourceStage
from tests.spark.spark_runs import all_through, check_agreement, checkpoint_of, crash, finish
from tests.spark.test_source_in_spark import Query

import ottla
from ottla.spark import reading

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
def spark() -> Any:
    needs_spark()
    return spark_session()


@pytest.fixture
def scene(kafka_address: str, ottla_topic_name: Callable[[], str], tmp_path: Path) -> Scene:
    needs_spark()
    return Scene(kafka_address, ottla_topic_name(), tmp_path)


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
    case: Callable[..., None], arguments: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    wanted = [name for name in inspect.signature(case).parameters if name not in arguments]
    case(**arguments, **{name: request.getfixturevalue(name) for name in wanted})


# In processes of their own, with a driver that dies as those of test_sink_in_spark do.


@pytest.mark.campaign
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("point", "deed"),
    [
        ("FENCED", "die"),
        ("SENT_SOME", "die"),
        ("SENT_MARKER", "die"),
        ("SENT_MARKER", "go on"),
        ("ENDED", "die"),
        ("ENDED", "go on"),
    ],
)
def test_a_driver_that_is_killed_loses_and_repeats_nothing(
    pipe: Pipe, point: str, deed: str
) -> None:
    crash(pipe, point, 1 if point == "FENCED" else 2, deed)
    check_agreement(pipe)
    pipe.feed(40)
    finish(pipe)
    all_through(pipe)


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_a_lost_checkpoint_goes_on_from_the_groups_offsets(pipe: Pipe) -> None:
    crash(pipe, "SENT", 3, "die")
    shutil.rmtree(checkpoint_of(pipe))
    finish(pipe)
    all_through(pipe)


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_at_least_once_writes_everything_and_tells_the_lag(pipe: Pipe) -> None:
    finish(pipe, write={"delivery": "at-least-once"})
    assert Counter(int(value.split()[1]) for value in pipe.output()) == Counter(range(pipe.count))
    with ottla.Consumer(bootstrap_servers=pipe.servers) as consumer:
        ends = consumer.end_offsets([(pipe.source, 0), (pipe.source, 1)])
    assert pipe.group_offsets() == {each.partition: at for each, at in ends.items()}
