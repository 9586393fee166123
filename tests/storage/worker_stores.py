"""A data folder whose partitions are spread over stores of workers, and all that is kept about each of them."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.storage.batches import SteppingClock, fill, read_all, ref_of
from tests.waiting import in_time

from ottla.config.topic import TopicConfig
from ottla.ports import PartitionRef, Snapshot
from ottla.ports.errors import InUseError
from ottla.storage.local import (
    LocalStore,
    open_local_store,
    open_supervised_folder,
    open_worker_store,
)
from ottla.storage.local.folder import checkpoint_files, layout
from ottla.storage.local.folder.catalog_journal import Journal
from ottla.storage.local.folder.identity import lock_folder, open_identity
from ottla.storage.local.folder.worker_folders import has_workers
from ottla.storage.local.supervised_folder import take_partitions_back

CONFIG = TopicConfig()
OFFSETS_FILES = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
EMPTY = ref_of("empty", 0, 4)
REFS = [*(ref_of("orders", partition, 1) for partition in range(4)), ref_of("payments", 0, 2)]


class Found(NamedTuple):
    """A partition as its owner finds it."""

    content: bytes
    start_offset: int
    epochs: tuple[object, ...]
    snapshots: list[Snapshot]
    cleaned_offset: int | None


def owner_among(worker_count: int) -> Callable[[str, int], int]:
    """Who owns a partition: as the broker decides it, but for who is first."""

    def owner_of(topic: str, partition: int) -> int:
        return (zlib.crc32(topic.encode()) + partition) % worker_count + 1

    return owner_of


def written_folder(folder: Path) -> dict[PartitionRef, Found]:
    """A data folder of one process, stopped in order, with every kind of partition."""
    store = open_local_store(folder, clock=SteppingClock())
    for ref in REFS:
        log = store.claim(ref, CONFIG)
        fill(log, 7)
    trimmed = store.claim(REFS[1], CONFIG)
    trimmed.roll()
    fill(trimmed, 3)
    trimmed.save_snapshot(Snapshot(8, b"state"))
    trimmed.trim(5)
    store.claim(REFS[2], CONFIG).save_cleaned_offset(6)
    store.claim(EMPTY, CONFIG)
    store.close()
    return found_in_one(folder)


def found_in_one(folder: Path) -> dict[PartitionRef, Found]:
    """What one process finds."""
    store = open_local_store(folder, clock=SteppingClock())
    found = {ref: found_by(store, ref) for ref in store.partitions()}
    store.close()
    return found


def found_by(store: LocalStore, ref: PartitionRef) -> Found:
    log = store.claim(ref, CONFIG)
    return Found(
        read_all(log),
        log.start_offset,
        tuple(log.epochs),
        list(log.snapshots()),
        log.cleaned_offset,
    )


@contextmanager
def workers_of(folder: Path, count: int) -> Iterator[dict[int, LocalStore]]:
    """The stores of all workers, behind the moves of a start."""
    with ExitStack() as opened:
        supervised = open_supervised_folder(folder)
        opened.callback(supervised.close)
        supervised.move_partitions(count, owner_among(count))
        stores = {}
        for number in range(1, count + 1):
            store = open_worker_store(
                folder,
                number,
                lock_descriptor=os.dup(supervised.lock_descriptor),
                catalog=supervised.catalog,
                clock=SteppingClock(),
            )
            opened.callback(store.close)
            stores[number] = store
        yield stores


def move(folder: Path, count: int) -> int:
    """Moves partitions as a start with so many workers does; returns how many were moved."""
    supervised = open_supervised_folder(folder)
    try:
        return supervised.move_partitions(count, owner_among(count))
    finally:
        supervised.close()


def arrange(folder: Path, count: int) -> None:
    """As `move`, also for one process."""
    if count > 1:
        move(folder, count)
        return
    data = str(folder)
    with ExitStack() as opened:
        opened.callback(os.close, lock_folder(data))
        journal = Journal(str(folder / "catalog.journal"))
        opened.callback(journal.close)
        if has_workers(data):
            take_partitions_back(data, open_identity(data, 1, None), journal)


def found_in_workers(folder: Path, count: int) -> dict[PartitionRef, Found]:
    """What workers find; each partition is with its owner and nowhere else."""
    found = {}
    with workers_of(folder, count) as stores:
        for number, store in stores.items():
            for ref in store.partitions():
                assert owner_among(count)(ref.topic, ref.partition) == number
                assert ref not in found
                found[ref] = found_by(store, ref)
    return found


def offsets_of_stores(folder: Path) -> Mapping[str, Mapping[tuple[str, int], int]]:
    """The offsets that the checkpoints of the stores have for the partitions that are there."""
    found: dict[str, dict[tuple[str, int], int]] = {name: {} for name in OFFSETS_FILES}
    for store in (folder, *folder.glob("workers/*")):
        keys = {layout.parse_folder_name(path.name) for path in store.iterdir() if path.is_dir()}
        for name in OFFSETS_FILES:
            offsets = checkpoint_files.read_offsets(str(store / name))
            found[name] |= {key: offset for key, offset in offsets.items() if key in keys}
    return found


def files_of(folder: Path) -> dict[Path, bytes]:
    """The files of all partitions, wherever they are; none is in two places."""
    found = {}
    for store in (folder, *folder.glob("workers/*")):
        for path in store.glob("*-[0-9]*/*"):
            name = path.relative_to(store)
            assert name not in found
            found[name] = path.read_bytes()
    return found


def await_unlocked(folder: Path, seconds: float = 30.0) -> None:
    """Returns when no process has a data folder: workers end a moment after their supervisor."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            os.close(lock_folder(str(folder)))
        except InUseError:
            in_time(deadline, f"{folder} is locked")
            time.sleep(0.01)
        else:
            return
