"""A storage engine: claims on partitions, the catalog, and the engine's own life."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from ottla.config.topic import TopicConfig
from ottla.ports.catalog import Catalog
from ottla.ports.compaction import CompactedLog
from ottla.ports.errors import DamagedError, StorageError
from ottla.ports.inspection import Inspection
from ottla.ports.log import Log, PartitionRef
from ottla.ports.lookups import Lookups
from ottla.ports.snapshots import Snapshots


class PartitionLog(Log, Lookups, Snapshots, CompactedLog, Protocol):
    """A claimed partition."""


class LogStore(Inspection, Protocol):
    """A storage engine, opened."""

    @property
    def cluster_id(self) -> str:
        """The id that the cluster got when its storage was made."""
        ...

    @property
    def catalog(self) -> Catalog: ...

    def epoch_of(self, ref: PartitionRef) -> int:
        """The epoch of the current claim of the partition, or the one that a claim made now would get."""
        ...

    def raise_epochs(self, refs: Iterable[PartitionRef]) -> None:
        """Raises `epoch_of` of these partitions, where they are not claimed, and the epochs of later claims.

        So the leader can change without a claim: clients accept a new leader only if its epoch is higher.
        """
        ...

    def claim(self, ref: PartitionRef, config: TopicConfig) -> PartitionLog:
        """Takes the partition, which is created if it is new; an earlier claim of it ends.

        Raises ClaimPendingError, only inside a running loop, if that takes long: its data has to be checked first, or
        a server has to be asked. Raises DamagedError if the data cannot be repaired; as long as the data does not
        change, another try finds that out without a check.
        """
        ...

    def condemn(self, ref: PartitionRef, error: DamagedError) -> None:
        """Records damage that the caller found and the engine does not detect.

        Claims may raise the error from now on, as long as the stored data does not change.
        """
        ...

    def trim_all(
        self, starts: Mapping[PartitionLog, int]
    ) -> asyncio.Future[Sequence[StorageError | None]] | Sequence[StorageError | None]:
        """As Log.trim of several logs, made durable in one step; returns their errors, in the same order."""
        ...

    def delete(self, ref: PartitionRef) -> None:
        """Removes the partition and its data; nothing happens if there is none.

        Durable when the next change of the catalog is, or after `sync_deletions`.
        """
        ...

    def sync_deletions(self) -> asyncio.Future[None] | None:
        """Makes deletions durable for a catalog that other processes change; they are when it is done."""
        ...

    def tick(self, now_ms: int) -> None:
        """Does periodic work; called about once a second with `monotonic_ms` of the engine's clock."""
        ...

    def close(self) -> asyncio.Future[None] | None:
        """Stops cleanly: when it is done claims are over, everything is durable, and a start needs no recovery."""
        ...
