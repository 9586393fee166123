"""A database for this folder, and brokers on a storage of their own for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.shared_brokers.broker_processes import BrokerProcesses, make_storage
from tests.storage.shared.postgres_server import new_schema_url, shared_postgres

__all__ = ["shared_postgres"]

StartBrokers = Callable[[int], BrokerProcesses]


@pytest.fixture
def storage_url(shared_postgres: str) -> str:
    """The URL of a schema that does not exist yet."""
    return new_schema_url(shared_postgres)


@pytest.fixture
def start_brokers(storage_url: str, tmp_path: Path) -> Iterator[StartBrokers]:
    """Starts brokers on a new storage."""
    started: list[BrokerProcesses] = []

    def start(count: int) -> BrokerProcesses:
        brokers = BrokerProcesses(tmp_path, make_storage(storage_url), count)
        started.append(brokers)
        brokers.start_all()
        return brokers

    yield start
    for brokers in started:
        brokers.end()
