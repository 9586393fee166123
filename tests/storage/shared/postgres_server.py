"""A PostgreSQL server for the tests of the shared engine: one for a process of pytest, and a schema for a test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.postgres_server import find_newest_binaries, started_server

# The default of what brokers need to be sure of, however slow; tests are in memory where there is room.
SETTINGS = {"fsync": "on", "max_connections": 100, "shared_buffers": "64MB"}
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def shared_postgres() -> Iterator[str]:
    """The URL of the server."""
    with postgres_for_brokers() as url:
        yield url


@contextmanager
def postgres_for_brokers() -> Iterator[str]:
    """A server with fsync, without which brokers refuse to work; skips where it cannot start."""
    with started_server(find_newest_binaries(), SETTINGS) as server:
        yield server.url


def new_schema_url(server: str) -> str:
    """The URL of a schema that does not exist yet."""
    return f"{server}?schema=test_{next(_numbers)}"
