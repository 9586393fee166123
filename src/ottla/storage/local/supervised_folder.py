"""A data folder of several workers, as their supervisor has it: the lock, the catalog, and a store for each worker.

The supervisor opens no partition. Before the workers start it moves the folders of partitions to the workers that own
them; a data folder of one process is the case without workers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from time import monotonic
from typing import Final

from ottla.events import EventLog
from ottla.ports import Catalog, PartitionRef, StorageError
from ottla.storage.local.folder import layout
from ottla.storage.local.folder.catalog_journal import Journal
from ottla.storage.local.folder.claim_epoch_file import ClaimEpochFile
from ottla.storage.local.folder.format_version import raise_version
from ottla.storage.local.folder.identity import lock_folder, lock_for_workers, open_identity
from ottla.storage.local.folder.partition_listing import highest_leader_epoch, partition_refs
from ottla.storage.local.folder.partition_moves import (
    StoreNumber,
    check_moves,
    make_moves,
    plan_moves,
    remove_store_files,
)
from ottla.storage.local.folder.worker_folders import (
    check_is_data_folder,
    find_workers,
    make_worker,
    remove_worker,
    worker_folder,
)
from ottla.storage.local.store_home import ClaimEpochs, opening

logger = EventLog(__name__)

_DATA_FOLDER: Final[StoreNumber] = 0


class SupervisedFolder:
    """An opened data folder whose partitions workers serve, each from a store of its own."""

    def __init__(self, path: str, lock: int, cluster_id: str, journal: Journal) -> None:
        self.path = path
        self.cluster_id = cluster_id
        # Workers inherit it: the folder is locked until the last process that has it has ended.
        self.lock_descriptor = lock
        self._journal = journal

    @property
    def catalog(self) -> Catalog:
        return self._journal

    def partitions(self) -> Sequence[PartitionRef]:
        """Every partition that has data in any store; only while no worker is running."""
        found: list[PartitionRef] = []
        for path in _stores_of(self.path, self.cluster_id).values():
            found += partition_refs(path)
        return found

    def move_partitions(self, worker_count: int, owner_of: Callable[[str, int], int]) -> int:
        """Moves each partition to the store of the worker that owns it; returns how many had to be moved.

        Workers are numbered from 1, and `owner_of` takes the name of a topic and a partition. To be called before the
        workers start. A crash loses nothing: the next call goes on, with the same workers or others.
        """
        assert worker_count > 0
        workers = range(1, worker_count + 1)
        try:
            return arrange_partitions(
                self.path,
                self.cluster_id,
                epochs=self._journal,
                workers=workers,
                owner_of=owner_of,
            )
        except OSError as error:
            raise StorageError(f"cannot move partitions in {self.path}: {error}") from error

    def close(self) -> None:
        """Gives up the folder; it stays locked while a worker is running."""
        self._journal.close()
        os.close(self.lock_descriptor)


def open_supervised_folder(
    path: str | os.PathLike[str], *, node_id: int = 1, cluster_id: str | None = None
) -> SupervisedFolder:
    """Opens a data folder for workers, which is made if there is none; `move_partitions` follows."""
    folder = os.path.abspath(os.fspath(path))
    with opening(folder) as opened:
        check_is_data_folder(folder)
        os.makedirs(folder, exist_ok=True)
        lock = lock_for_workers(folder)
        opened.callback(os.close, lock)
        found_id = open_identity(folder, node_id, cluster_id)
        raise_version(folder, found_id)
        journal = Journal(os.path.join(folder, layout.JOURNAL_FILE))
        opened.callback(journal.close)
        if journal.is_new:
            paths = _stores_of(folder, found_id).values()
            journal.raise_epoch(max(map(highest_leader_epoch, paths)))
        return SupervisedFolder(folder, lock, found_id, journal)


def arrange_partitions(
    data: str,
    cluster_id: str,
    *,
    epochs: ClaimEpochs,
    workers: Collection[int],
    owner_of: Callable[[str, int], StoreNumber],
) -> int:
    """Makes the stores of these workers, moves each partition to its owner, removes stores that are left empty.

    Without workers the data folder itself is the only store. The caller holds the lock of the data folder.
    """
    began = monotonic()
    stores = _stores_of(data, cluster_id)
    found = [number for number in stores if number != _DATA_FOLDER]
    with ExitStack() as locks:
        for number in found:
            locks.callback(os.close, lock_folder(stores[number]))
        counters = [_counter(stores[number]) for number in found]
        epoch = max((epochs.epoch, *(counter.epoch for counter in counters)))
        epochs.raise_epoch(epoch)
        plan = plan_moves(stores, workers or [_DATA_FOLDER], owner_of)
        left = [number for number in found if number not in workers]
        is_counter_lost = any(counter.is_new for counter in counters)
        if plan.is_empty and set(found) == set(workers) and not is_counter_lost:
            return 0
        # Epochs of partitions that move rise above all that clients have been told.
        epochs.raise_epoch(epoch + 1)
        for number in workers:
            make_worker(data, number, epoch + 1)
            stores[number] = worker_folder(data, number)
            _counter(stores[number]).raise_epoch(epoch + 1)
        check_moves(plan, stores)
        make_moves(plan, stores, epoch + 1)
        for number in left:
            remove_worker(data, number)
        if workers:
            remove_store_files(data)
    moved = sum(move.key is not None for move in plan.moves)
    if moved:
        logger.info(
            "partitions_moved",
            "moved %(partitions)d partition(s) to the workers that own them, in %(seconds).3f s",
            partitions=moved,
            workers=len(workers),
            seconds=round(monotonic() - began, 3),
        )
    return moved


def take_partitions_back(data: str, cluster_id: str, epochs: ClaimEpochs) -> None:
    """Moves the partitions of all workers into the data folder itself, which one process serves."""
    arrange_partitions(
        data, cluster_id, epochs=epochs, workers=(), owner_of=lambda topic, partition: _DATA_FOLDER
    )


def _stores_of(data: str, cluster_id: str) -> dict[StoreNumber, str]:
    """The folders of all stores that a data folder has."""
    workers = find_workers(data, cluster_id)
    return {_DATA_FOLDER: data, **{number: worker_folder(data, number) for number in workers}}


def _counter(store: str) -> ClaimEpochFile:
    return ClaimEpochFile(os.path.join(store, layout.CLAIM_EPOCH_FILE))
