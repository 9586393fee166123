"""The local engine: segment files in Kafka's own on-disk formats."""

from ottla.storage.local.store import LocalStore, LocalStoreOptions, open_local_store

__all__ = ["LocalStore", "LocalStoreOptions", "open_local_store"]
