"""What the cases act on, with the Kafka that all processes of a test run share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.apache_kafka.conftest import kafka_address, kafka_jars
from tests.client.apache_kafka.stage import Stage
from tests.clients.conftest import java_agent

import ottla

__all__ = ["java_agent", "kafka_address", "kafka_jars"]


@pytest.fixture
def stage(kafka_address: str) -> Iterator[Stage]:
    with ottla.Admin(bootstrap_servers=kafka_address) as admin:
        yield Stage(kafka_address, admin)
