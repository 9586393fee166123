"""Apache Kafka for the tests of the client: one for all processes of a test run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.apache_kafka.conftest import kafka_jars
from tests.apache_kafka.sharing import shared_kafka
from tests.client.apache_kafka.stage import OPTIONS, Stage
from tests.clients.conftest import java_agent

import ottla

__all__ = ["java_agent", "kafka_jars"]


@pytest.fixture(scope="session")
def kafka(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Kafka that others use at the same time."""
    folder = tmp_path_factory.getbasetemp().parent / "client-kafka"
    with shared_kafka(kafka_jars, folder, OPTIONS) as address:
        yield address


@pytest.fixture
def stage(kafka: str) -> Iterator[Stage]:
    with ottla.Admin(bootstrap_servers=kafka) as admin:
        yield Stage(kafka, admin)
