"""The local engine on a folder of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.storage.batches import SteppingClock

from ottla.config.topic import TopicConfig
from ottla.ports import ClaimPendingError, PartitionRef
from ottla.storage.local import LocalStore, LocalStoreOptions, open_local_store
from ottla.storage.local.log.partition_log import LocalLog
from ottla.storage.local.sync.group_commit import SyncJob

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


async def claim_checked(store: LocalStore, ref: PartitionRef, config: TopicConfig) -> LocalLog:
    """Claims a partition that has to be checked first, which is done on a thread."""
    with pytest.raises(ClaimPendingError) as checked:
        store.claim(ref, config)
    await asyncio.wait_for(checked.value.done, 30)
    return store.claim(ref, config)


def patch_in(
    folder: Path, patch: pytest.MonkeyPatch, owner: Any, name: str, replacement: Callable[..., Any]
) -> None:
    """Replaces a function, whose first argument is a file, for the files in a folder.

    The brokers that other tests share run in this process too: their syncs and flushes must not meet what one test does
    to its own disk.
    """
    real = getattr(owner, name)

    def call(target: Any, *arguments: Any, **options: Any) -> Any:
        chosen = replacement if is_about(folder, target) else real
        return chosen(target, *arguments, **options)

    patch.setattr(owner, name, call)


def is_about(folder: Path, target: Any) -> bool:
    """Whether a file, its descriptor or the sync of a log is in a folder."""
    if isinstance(target, SyncJob):
        paths = [*target.paths, *(segment.path for segment, _ in target.segments)]
        return any(Path(path).is_relative_to(folder) for path in paths)
    if isinstance(target, int):
        links = f"/proc/self/fd/{target}"
        return not os.path.islink(links) or Path(os.readlink(links)).is_relative_to(folder)
    return Path(target).is_relative_to(folder)


def crash_copy(folder: Path, target: Path) -> Path:
    """What a killed broker leaves behind: the files as they are now, without those it is deleting."""
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(folder, target, copy_function=_copy_if_there)
    return target


def _copy_if_there(source: str, target: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.copy2(source, target)
