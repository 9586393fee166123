"""The local engine: segment files in Kafka's own on-disk formats."""

from ottla.storage.local.store import (
    LocalStore,
    LocalStoreOptions,
    open_local_store,
    open_worker_store,
)
from ottla.storage.local.supervised_folder import SupervisedFolder, open_supervised_folder

__all__ = [
    "LocalStore",
    "LocalStoreOptions",
    "SupervisedFolder",
    "open_local_store",
    "open_supervised_folder",
    "open_worker_store",
]
