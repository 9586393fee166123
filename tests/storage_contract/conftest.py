"""Every engine, opened: the tests in this folder run for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.storage.batches import SteppingClock

from ottla.ports import LogStore
from ottla.storage.local import open_local_store
from ottla.storage.memory import MemoryStore


@pytest.fixture
def clock() -> SteppingClock:
    return SteppingClock()


def open_memory(folder: Path, clock: SteppingClock) -> LogStore:
    return MemoryStore(clock=clock)


def open_local(folder: Path, clock: SteppingClock) -> LogStore:
    return open_local_store(folder, clock=clock)


@pytest.fixture(params=[open_memory, open_local])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: SteppingClock
) -> Iterator[LogStore]:
    opened: LogStore = request.param(tmp_path / "data", clock)
    yield opened
    opened.close()
