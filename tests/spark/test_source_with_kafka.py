"""What the source does with our broker, it does with Apache Kafka."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("pyspark")

from tests.apache_kafka.conftest import kafka_address, kafka_jars
from tests.spark import test_source, test_source_losses, test_source_tasks
from tests.spark.source_stage import SourceStage

from ottla.spark.source import range_reader as reading

__all__ = ["kafka_address", "kafka_jars"]

CASES = [
    each
    for module in (test_source, test_source_losses, test_source_tasks)
    for name, each in vars(module).items()
    if name.startswith("test_")
]


@pytest.fixture
def stage(kafka_address: str, ottla_topic: str) -> Iterator[SourceStage]:
    made = SourceStage(kafka_address, ottla_topic)
    yield made
    made.close()
    reading.close_idle()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__.removeprefix("test_"))
def test_with_kafka(case: Callable[..., None], request: pytest.FixtureRequest) -> None:
    wanted = inspect.signature(case).parameters
    case(**{name: request.getfixturevalue(name) for name in wanted})
