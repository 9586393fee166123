"""Apache Kafka itself, where Maven Central can be reached."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import maven
from tests.apache_kafka.sharing import AUTHORIZER, OPTIONS, shared_kafka


@pytest.fixture(scope="session")
def kafka_jars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the jars of Kafka's broker and tools."""
    return maven.kafka_server(tmp_path_factory.getbasetemp().parent)


@pytest.fixture(scope="session")
def kafka_tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the jars of Kafka's command line tools."""
    return maven.kafka_tools(tmp_path_factory.getbasetemp().parent)


@pytest.fixture(scope="session")
def kafka_address(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a Kafka listens that all processes of a test run use at the same time."""
    folder = tmp_path_factory.getbasetemp().parent / "shared-kafka"
    with shared_kafka(kafka_jars, folder, OPTIONS | AUTHORIZER) as address:
        yield address
