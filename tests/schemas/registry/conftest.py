"""A broker and a registry for the tests that share one; subjects are the tests' own."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from tests.apache_kafka.conftest import kafka_address, kafka_jars

import ottla

__all__ = ["kafka_address", "kafka_jars"]


@pytest.fixture(scope="session")
def registry_broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(group_min_session_timeout_ms=1_000) as broker:
        yield broker


@pytest.fixture(scope="session")
def registry(registry_broker: ottla.Broker) -> Iterator[ottla.SchemaRegistry]:
    with ottla.SchemaRegistry(bootstrap_servers=registry_broker.bootstrap_servers) as running:
        yield running


@pytest.fixture
def http(registry: ottla.SchemaRegistry) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=registry.url, timeout=30) as client:
        yield client


@pytest.fixture
def fresh(registry_broker: ottla.Broker, request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    """A registry with a topic of its own, for tests of what counts for all subjects."""
    name = "".join(char if char.isalnum() else "-" for char in request.node.name)[-60:]
    with (
        ottla.SchemaRegistry(
            bootstrap_servers=registry_broker.bootstrap_servers,
            topic=f"_schemas-{name}",
            group=f"registry-{name}",
        ) as running,
        httpx.Client(base_url=running.url, timeout=30) as client,
    ):
        yield client
