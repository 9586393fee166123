"""Every engine, opened: the tests in this folder run for each of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.storage.batches import SteppingClock
from tests.storage.shared.postgres_server import shared_postgres
from tests.storage.shared.s3_server import S3Server, shared_s3
from tests.storage_contract.shared_stores import (
    shared_in_memory,
    shared_in_postgres,
    shared_in_s3,
)

from ottla.ports import LogStore
from ottla.storage.local import open_local_store, open_supervised_folder, open_worker_store
from ottla.storage.memory import MemoryStore

__all__ = ["shared_postgres", "shared_s3"]


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


def open_shared_postgres(folder: Path, clock: SteppingClock, opened: ExitStack) -> LogStore:
    """A store on a schema of its own in PostgreSQL, and nothing else."""
    return shared_in_postgres((folder.parent / SERVER_FILE).read_text(), clock, opened)


def open_shared_s3(folder: Path, clock: SteppingClock, opened: ExitStack) -> LogStore:
    """A store on a sequencer in this process, and objects in S3."""
    return shared_in_s3((folder.parent / SERVER_FILE).read_text(), clock)


# The file in which a test finds the URL of the server.
SERVER_FILE = "server_url"


ENGINES = [open_memory, open_local, open_worker, open_shared]
# With a server of its own a test takes half a second.
ENGINES_WITH_SERVER = [*ENGINES, open_shared_postgres, open_shared_s3]
LONG_MODULES = {"test_log"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs the tests for every engine, the longest module without servers."""
    if "store" in metafunc.fixturenames:
        is_long = metafunc.module.__name__.rpartition(".")[2] in LONG_MODULES
        engines = ENGINES if is_long else ENGINES_WITH_SERVER
        metafunc.parametrize("store", engines, indirect=True)


@pytest.fixture
def store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: SteppingClock
) -> Iterator[LogStore]:
    if request.param is open_shared_postgres:
        (tmp_path / SERVER_FILE).write_text(request.getfixturevalue("shared_postgres"))
    if request.param is open_shared_s3:
        server: S3Server = request.getfixturevalue("shared_s3")
        (tmp_path / SERVER_FILE).write_text(server.url("contract"))
    with ExitStack() as opened:
        store: LogStore = request.param(tmp_path / "data", clock, opened)
        yield store
        store.close()
