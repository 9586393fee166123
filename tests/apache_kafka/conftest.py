"""Apache Kafka itself, where Maven Central can be reached."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import maven
from tests.maven import KAFKA_VERSION, NO_LOGGING


@pytest.fixture(scope="session")
def kafka_jars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the jars of Kafka's broker and tools."""
    artifacts = {"org.apache.kafka:kafka_2.13": KAFKA_VERSION, **NO_LOGGING}
    shared_folder = tmp_path_factory.getbasetemp().parent
    return maven.jars(f"kafka-{KAFKA_VERSION}", artifacts, shared_folder)


@pytest.fixture(scope="session")
def kafka_tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the jars of Kafka's command line tools."""
    artifacts = {"org.apache.kafka:kafka-tools": KAFKA_VERSION, **NO_LOGGING}
    shared_folder = tmp_path_factory.getbasetemp().parent
    return maven.jars(f"kafka-tools-{KAFKA_VERSION}", artifacts, shared_folder)
