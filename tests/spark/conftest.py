"""A broker and pipelines on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.spark.pipelines import Pipe

from ottla import Broker


@pytest.fixture(scope="session")
def spark_broker() -> Iterator[Broker]:
    """One broker for all tests of Spark's sink."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def pipe(spark_broker: Broker, ottla_topic_name: Callable[[], str], tmp_path: Path) -> Pipe:
    """A pipeline with 200 records to go."""
    made = Pipe(spark_broker.bootstrap_servers, ottla_topic_name(), tmp_path)
    made.create()
    made.feed(200)
    return made
