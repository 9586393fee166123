"""A broker, and pipelines and sources on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.lasting import LASTING
from tests.spark.pipelines import Pipe
from tests.spark.sessions import needs_spark, spark_session
from tests.spark.source_stage import SourceStage

from ottla import Broker
from ottla.spark.source import range_reader as reading

if TYPE_CHECKING:
    from tests.spark.scenes import Scene


@pytest.fixture(scope="session")
def spark() -> Any:
    """This process's Spark session; tests/conftest.py lets tests that use it run first, and on one worker."""
    needs_spark()
    return spark_session()


@pytest.fixture(scope="session")
def spark_broker() -> Iterator[Broker]:
    """One broker for all tests of Spark's sink."""
    with Broker(LASTING) as broker:
        yield broker


@pytest.fixture
def pipe(spark_broker: Broker, ottla_topic_name: Callable[[], str], tmp_path: Path) -> Pipe:
    """A pipeline with 150 records to go."""
    made = Pipe(spark_broker.bootstrap_servers, ottla_topic_name(), tmp_path)
    made.create()
    made.feed(150)
    return made


@pytest.fixture
def stage(ottla_broker: Broker, ottla_topic: str) -> Iterator[SourceStage]:
    """A topic that is not there yet, and readers of it."""
    made = SourceStage(ottla_broker.bootstrap_servers, ottla_topic)
    yield made
    made.close()
    reading.close_idle()


@pytest.fixture
def scene(
    spark_broker: Broker, ottla_topic_name: Callable[[], str], tmp_path: Path
) -> Iterator[Scene]:
    """A pipeline with 150 records to go."""
    needs_spark()
    from tests.spark.scenes import Scene

    made = Scene(spark_broker.bootstrap_servers, ottla_topic_name(), tmp_path)
    made.create()
    made.feed(150)
    yield made
    made.clean_up()
