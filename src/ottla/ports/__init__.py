"""The interfaces that the broker needs: time, identifiers, and a storage engine.

An engine knows nothing of Kafka's semantics. It stores record batches under offsets that the caller chose, returns
them, deletes them from the front, and keeps a small catalog of JSON values. One module per job; `engine` joins
them. `tests/storage_contract` tests every rule for every engine.

Methods that change stored data check that the claim lasts, and raise FencedError if another claim has followed.
Where they return `Future | None`, None says that the change is durable; a future is done when it is, and fails with
a StorageError if it is not known to be.

<<<<<<< HEAD
Reads (`read`, `scan`, `headers`, `batch_at_timestamp`, `batch_of_max_timestamp`) answer at once what is in memory or
on a local disk. Where an engine has to fetch data first they raise ReadPendingError, only inside a running loop. Its
`done` is done when the call can be answered, or is known to fail, in a bounded time. The engine then keeps what it has
fetched for some seconds, so that a caller finds it who makes the call again, also one with a higher `end_offset` or
another size. They raise StorageUnavailableError if the data cannot be got now.
=======
Reads may raise ReadPendingError, which says what then holds.
>>>>>>> w/ports
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
