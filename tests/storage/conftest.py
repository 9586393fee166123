"""The local engine on a folder of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.storage.batches import SteppingClock

from ottla.storage.local import LocalStore, LocalStoreOptions, open_local_store

Opener = Callable[..., LocalStore]


@pytest.fixture
def clock() -> SteppingClock:
    return SteppingClock()


@pytest.fixture
def open_store(clock: SteppingClock) -> Iterator[Opener]:
    """Opens folders; what a test leaves open is closed."""
    opened: list[LocalStore] = []

    def open_one(folder: Path, options: LocalStoreOptions | None = None) -> LocalStore:
        store = open_local_store(folder, clock=clock, options=options)
        opened.append(store)
        return store

    yield open_one
    for store in opened:
        store.close()


def crash_copy(folder: Path, target: Path) -> Path:
    """What a killed broker leaves behind: the files as they are now."""
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(folder, target)
    return target
