"""The local engine: segment files in Kafka's own on-disk formats."""

from ottla.storage.local.folder.opening import open_local_store
from ottla.storage.local.store import LocalStore, LocalStoreOptions

__all__ = ["LocalStore", "LocalStoreOptions", "open_local_store"]
