"""Every engine, opened: the tests in this folder run for each of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.storage.batches import SteppingClock
from tests.storage_contract.shared_stores import shared_in_memory

from ottla.ports import LogStore
from ottla.storage.local import open_local_store, open_supervised_folder, open_worker_store
from ottla.storage.memory import MemoryStore


@pytest.fixture
def clock() -> SteppingClock:
    return SteppingClock()


def open_memory(folder: Path, clock: SteppingClock, opened: ExitStack) -> LogStore:
    return MemoryStore(clock=clock)


def open_local(folder: Path, clock: SteppingClock, opened: ExitStack) -> LogStore:
    return open_local_store(folder, clock=clock)


def open_worker(folder: Path, clock: SteppingClock, opened: ExitStack) -> LogStore:
    """The store of the second of three workers."""
    supervised = open_supervised_folder(folder)
    opened.callback(supervised.close)
    supervised.move_partitions(3, lambda topic, partition: 2)
    return open_worker_store(
        folder,
        2,
        lock_descriptor=os.dup(supervised.lock_descriptor),
        catalog=supervised.catalog,
        clock=clock,
    )


def open_shared(folder: Path, clock: SteppingClock, opened: ExitStack) -> LogStore:
    """A store on a sequencer and objects in this process."""
    return shared_in_memory(clock)


@pytest.fixture(params=[open_memory, open_local, open_worker, open_shared])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: SteppingClock
) -> Iterator[LogStore]:
    with ExitStack() as opened:
        store: LogStore = request.param(tmp_path / "data", clock, opened)
        yield store
        store.close()
