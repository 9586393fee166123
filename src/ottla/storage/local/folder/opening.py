"""Opening a data folder: its version, its lock, and what is said if that fails."""

from __future__ import annotations

import os
import random

from ottla.ports import Clock, StorageError
from ottla.storage.local.folder.format_version import read_version
from ottla.storage.local.folder.identity import lock_folder
from ottla.storage.local.store import LocalStore, LocalStoreOptions


def _unusable(folder: str, error: OSError) -> StorageError:
    where = f"{error.filename}: " if error.filename not in (None, folder) else ""
    return StorageError(f"cannot use the data folder {folder}: {where}{error.strerror or error}")


def open_local_store(
    path: str | os.PathLike[str],
    *,
    clock: Clock,
    options: LocalStoreOptions | None = None,
    rng: random.Random | None = None,
) -> LocalStore:
    """Opens a data folder, making it if need be; after an unclean stop its logs are checked."""
    folder = os.path.abspath(os.fspath(path))
    try:
        # Before anything is changed: not even a lock is left in a newer folder.
        read_version(folder)
        os.makedirs(folder, exist_ok=True)
        lock = lock_folder(folder)
    except OSError as error:
        raise _unusable(folder, error) from error
    try:
        return LocalStore(
            folder, lock, clock, options or LocalStoreOptions(), rng or random.Random()
        )
    except OSError as error:
        os.close(lock)
        raise _unusable(folder, error) from error
    except BaseException:
        os.close(lock)
        raise
