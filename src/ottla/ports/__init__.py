"""The interfaces that the broker needs: time, identifiers, and a storage engine.

An engine knows nothing of Kafka's semantics. It stores record batches under offsets that the caller chose, returns
them, deletes them from the front, and keeps a small catalog of JSON values. One module per job; `engine` joins them.
`tests/storage_contract` tests every rule.

Methods that change stored data check that the claim lasts, and raise FencedError if another claim has followed.
Where they return `Future | None`, None says that the change is durable; a future is done when it is, and fails with
a StorageError if it is not known to be. Reads may raise ReadPendingError.
"""

from ottla.core.leader_epochs import EpochStart
from ottla.ports.catalog import Catalog, Follower, JsonValue
from ottla.ports.compaction import Replacement
from ottla.ports.engine import LogStore, PartitionLog
from ottla.ports.environment import Clock, Ids, monotonic_ms
from ottla.ports.errors import (
    CatalogConflictError,
    ClaimPendingError,
    DamagedError,
    FencedError,
    ReadPendingError,
    StorageError,
    StorageFullError,
    StorageUnavailableError,
)
from ottla.ports.inspection import LogDir, UnclaimedLog
from ottla.ports.log import BatchEntry, Buffer, Extent, PartitionRef
from ottla.ports.lookups import SegmentInfo
from ottla.ports.snapshots import SaveTime, Snapshot

__all__ = [
    "BatchEntry",
    "Buffer",
    "Catalog",
    "CatalogConflictError",
    "ClaimPendingError",
    "Clock",
    "DamagedError",
    "EpochStart",
    "Extent",
    "FencedError",
    "Follower",
    "Ids",
    "JsonValue",
    "LogDir",
    "LogStore",
    "PartitionLog",
    "PartitionRef",
    "ReadPendingError",
    "Replacement",
    "SaveTime",
    "SegmentInfo",
    "Snapshot",
    "StorageError",
    "StorageFullError",
    "StorageUnavailableError",
    "UnclaimedLog",
    "monotonic_ms",
]
