"""The folders of workers' stores in a data folder: which there are, making one, removing an empty one.

A list of them is beside the catalog, so that a store whose disk is not mounted is missed instead of made anew.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from ottla.events import EventLog
from ottla.ports import StorageError
from ottla.storage.local.folder import checkpoint_files, layout
from ottla.storage.local.folder.claim_epoch_file import ClaimEpochFile
from ottla.storage.local.folder.format_version import raise_version, read_version
from ottla.storage.local.folder.identity import leave_clean_mark, open_identity, read_identity
from ottla.storage.local.folder.partition_listing import has_partitions
from ottla.storage.local.folder.partition_moves import OFFSETS_FILES

logger = EventLog(__name__)

_LIST_VERSION: Final = "1"
_ENTRY: Final = "worker."
_DIRECTORY_ID: Final = "directory.id"
# The counter of a store was lost: it counted on by less than this since the last start of all workers.
_LOST_EPOCHS: Final = 1000
# What a store without partitions consists of.
_OWN_FILES: Final = (
    layout.CLEAN_SHUTDOWN_FILE,
    *OFFSETS_FILES,
    layout.CLAIM_EPOCH_FILE,
    layout.FORMAT_VERSION_FILE,
    layout.LOCK_FILE,
    layout.META_PROPERTIES_FILE,
)


def worker_folder(data: str, number: int) -> str:
    """The folder of a worker's store; workers are numbered from 1."""
    return os.path.join(data, layout.WORKERS_FOLDER, str(number))


def has_workers(data: str) -> bool:
    """Whether a data folder has, or should have, stores of workers."""
    return any(
        os.path.exists(os.path.join(data, name))
        for name in (layout.WORKERS_FILE, layout.WORKERS_FOLDER)
    )


def check_is_data_folder(folder: str) -> None:
    """Refuses a folder of a newer Ottla, and that of a worker, before anything is changed in it."""
    read_version(folder)
    if os.path.exists(os.path.join(folder, layout.CLAIM_EPOCH_FILE)):
        raise StorageError(
            f"{folder} is the folder of one worker: name the data folder that it is in, "
            f"{os.path.dirname(os.path.dirname(folder))}"
        )


def identity_of_worker(data: str, number: int) -> str:
    """The cluster id of a worker's store; StorageError if that is not the one that the supervisor has made."""
    listed, identity = _read_list(data), read_identity(worker_folder(data, number))
    if identity is None or listed.get(number) != identity.get(_DIRECTORY_ID, ""):
        raise _missing(data, number)
    return identity["cluster.id"]


def find_workers(data: str, cluster_id: str) -> list[int]:
    """The workers that have a store; StorageError if one is missing, or belongs elsewhere."""
    listed = _read_list(data)
    for number, directory_id in listed.items():
        folder = worker_folder(data, number)
        identity = read_identity(folder) if os.path.isdir(folder) else None
        if identity is None or identity.get(_DIRECTORY_ID, "") != directory_id:
            raise _missing(data, number)
    found = existing_workers(data)
    for number in found:
        folder = worker_folder(data, number)
        read_version(folder)
        identity = read_identity(folder)
        if identity is not None and identity["cluster.id"] != cluster_id:
            raise StorageError(
                f"{folder} belongs to cluster {identity['cluster.id']}, and {data} to {cluster_id}: move it out of "
                "the data folder"
            )
    return found


def _missing(data: str, number: int) -> StorageError:
    return StorageError(
        f"{worker_folder(data, number)} is not the folder that worker {number} had: mount it or restore it from a "
        f"copy; to go on without the partitions in it, remove its line from {os.path.join(data, layout.WORKERS_FILE)}"
    )


def existing_workers(data: str) -> list[int]:
    """The workers that have a folder, whatever is in it."""
    try:
        with os.scandir(os.path.join(data, layout.WORKERS_FOLDER)) as entries:
            names = [entry.name for entry in entries if entry.is_dir()]
    except FileNotFoundError:
        return []
    numbers = {int(name) for name in names if name.isascii() and name.isdecimal()}
    return sorted(number for number in numbers if number > 0 and str(number) in names)


def make_worker(data: str, number: int, epoch: int) -> None:
    """Makes the store of a worker, or completes one that was begun; its epochs begin above `epoch`."""
    identity = read_identity(data)
    assert identity is not None
    workers = os.path.join(data, layout.WORKERS_FOLDER)
    folder = worker_folder(data, number)
    if not os.path.isdir(workers):
        os.mkdir(workers)
        checkpoint_files.sync_path(data)
    if not os.path.isdir(folder):
        os.mkdir(folder)
        checkpoint_files.sync_path(workers)
    is_new = read_identity(folder) is None
    # As the log directories of one Kafka broker: all have the id of the same node.
    cluster_id = open_identity(folder, int(identity["node.id"]), identity["cluster.id"])
    raise_version(folder, cluster_id)
    counter = ClaimEpochFile(os.path.join(folder, layout.CLAIM_EPOCH_FILE))
    if counter.is_new:
        counter.raise_epoch(epoch + (_LOST_EPOCHS if has_partitions(folder) else 0))
    if is_new and not has_partitions(folder):
        leave_clean_mark(folder, epoch)
    made = read_identity(folder)
    assert made is not None
    _write_list(data, {**_read_list(data), number: made.get(_DIRECTORY_ID, "")})


def remove_worker(data: str, number: int) -> None:
    """Removes the store of a worker, whose partitions are elsewhere; files of others stay."""
    _write_list(data, {each: of for each, of in _read_list(data).items() if each != number})
    folder = worker_folder(data, number)
    for name in _OWN_FILES:
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, name))
    try:
        os.rmdir(folder)
    except OSError as error:
        logger.warning(
            "worker_folder_left",
            "%(path)s has no partitions any more, but is not removed: %(reason)s",
            path=folder,
            reason=str(error),
        )
        return
    with suppress(OSError):
        os.rmdir(os.path.join(data, layout.WORKERS_FOLDER))


def _read_list(data: str) -> dict[int, str]:
    path = os.path.join(data, layout.WORKERS_FILE)
    content = checkpoint_files.read_small_file(path)
    if content is None:
        return {}
    properties = checkpoint_files.decode_properties(content)
    names = [name for name in properties if name != "version"]
    if properties.get("version") != _LIST_VERSION or not all(map(_is_entry, names)):
        raise StorageError(f"{path} is damaged: restore it from a copy")
    return {int(name.removeprefix(_ENTRY)): properties[name] for name in names}


def _is_entry(name: str) -> bool:
    number = name.removeprefix(_ENTRY)
    return name.startswith(_ENTRY) and number.isascii() and number.isdecimal() and len(number) < 10


def _write_list(data: str, directories: Mapping[int, str]) -> None:
    path = os.path.join(data, layout.WORKERS_FILE)
    if dict(directories) == _read_list(data):
        return
    if directories:
        properties = {f"{_ENTRY}{number}": directories[number] for number in sorted(directories)}
        content = checkpoint_files.encode_properties({"version": _LIST_VERSION, **properties})
        checkpoint_files.replace_file(path, content)
    else:
        os.unlink(path)
    checkpoint_files.sync_path(data)
