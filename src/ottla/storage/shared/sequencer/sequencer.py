"""The interface of a sequencer.

Safety rests on the row lock of a partition and on nothing else: `claim` and everything that changes a partition take
it, then look at its epoch in a new statement. Only `claim` changes an epoch, and only upwards.

Every method may raise SequencerUnavailableError: whether the change was made is unknown then. The caller repeats it
(`append` with the same flush id), or claims again. FencedError: the session or the claim has ended.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from ottla.core.leader_epochs import EpochStart
from ottla.ports import JsonValue, PartitionRef, UnclaimedLog
from ottla.storage.shared.sequencer.records import (
    AppendOutcome,
    BrokerDescription,
    CatalogChange,
    CatalogState,
    Claimed,
    Heartbeat,
    Holder,
    HolderChanges,
    NotClaimed,
    OpenedPartition,
    PartAppend,
    Registration,
    SegmentWrite,
    StoredObject,
    StoredRun,
    WrittenObject,
)


class Sequencer(Protocol):
    # Sessions.

    async def register(self, broker: BrokerDescription) -> Registration:
        """Begins a session. InUseError as long as another session of the name or the node id has a lease."""
        ...

    async def heartbeat(
        self, session: uuid.UUID, applied_revision: int, object_ids: int
    ) -> Heartbeat:
        """Renews the lease, and reserves ids for objects. FencedError if the session has ended."""
        ...

    async def end_session(self, session: uuid.UUID) -> None:
        """Ends a session whose partitions were released; the others can be claimed at once."""
        ...

    async def remove_broker(self, node_id: int) -> bool:
        """Forgets a broker that is not live; False if it is, or is unknown."""
        ...

    async def describe_broker(self, session: uuid.UUID, broker: BrokerDescription) -> None:
        """Replaces what the others are told: its ports are known after it has bound them."""
        ...

    # The catalog.

    async def load_catalog(self) -> CatalogState: ...

    async def catalog_changes(self, after_revision: int) -> Sequence[CatalogChange]:
        """The changes after a revision, all of them and in order."""
        ...

    async def commit_catalog(
        self, session: uuid.UUID, changes: Mapping[str, JsonValue], expected_revision: int
    ) -> int:
        """The new revision; CatalogConflictError if the catalog is at another one."""
        ...

    # Who holds what.

    async def holders(self, after_revision: int) -> HolderChanges:
        """What has changed after a revision; 0 gives everything."""
        ...

    async def claim(
        self, session: uuid.UUID, refs: Sequence[PartitionRef], catalog_revision: int
    ) -> Sequence[Claimed | NotClaimed]:
        """Takes partitions that are new, released, held by this session (a new epoch) or by one whose lease has ended.

        At most 500 a call. STALE if the catalog is at a later revision, so that nobody revives a deleted topic.
        """
        ...

    async def release(self, session: uuid.UUID, wanted: Mapping[int, int | None]) -> None:
        """Gives up partitions (by id) that this session holds, each for a node that should take it, if not None."""
        ...

    def notifications(self) -> AsyncIterator[str]:
        """`catalog`, `holders` or `applied` whenever another session has changed one; may miss some, `lost` then."""
        ...

    # A claimed partition.

    async def open(self, partition_id: int, epoch: int) -> OpenedPartition: ...

    async def append(
        self,
        session: uuid.UUID,
        flush: uuid.UUID,
        objects: Sequence[WrittenObject],
        parts: Sequence[PartAppend],
    ) -> Sequence[AppendOutcome]:
        """Appends parts of a flush, each on its own: a fenced one holds up no other. Objects become live.

        Durable when this returns. A repetition with the same flush id answers ALREADY for what was appended, even
        after another claim.
        """
        ...

    async def trim(self, starts: Sequence[tuple[int, int, int]]) -> Sequence[bool]:
        """Moves starts up: (partition id, epoch, start offset); rows and segments wholly below go. False: fenced."""
        ...

    async def save_snapshot(self, partition_id: int, epoch: int, offset: int, data: bytes) -> bool:
        """Keeps the newest two; refused (False) if fenced, or above the end of the log."""
        ...

    async def save_cleaned_offset(self, partition_id: int, epoch: int, offset: int) -> bool: ...

    async def replace(
        self,
        partition_id: int,
        epoch: int,
        start_offset: int,
        end_offset: int,
        segments: Sequence[SegmentWrite],
        objects: Sequence[WrittenObject],
    ) -> bool:
        """Puts segments in the place of all rows of the tail and segments between two offsets, in one step.

        For consolidation and compaction. False if fenced, or if no rows or segments begin and end exactly there.
        """
        ...

    async def delete(self, refs: Sequence[PartitionRef]) -> None:
        """Removes partitions whose deletion is committed to the catalog: every later append is fenced."""
        ...

    # Reading.

    async def read_runs(
        self, partition_id: int, offset: int, max_bytes: int
    ) -> Sequence[StoredRun]:
        """Tail rows and segments from the one that contains `offset` on, with their `data`, at least one if any."""
        ...

    async def run_headers(
        self, partition_id: int, offset: int, end_offset: int
    ) -> Sequence[StoredRun]:
        """As `read_runs` with headers instead of data; segments have none."""
        ...

    async def segment_marks(self, partition_id: int, base_offset: int) -> bytes | None: ...

    async def unclaimed(self, refs: Sequence[PartitionRef]) -> Mapping[PartitionRef, UnclaimedLog]:
        """Sizes and ends of partitions, whoever holds them."""
        ...

    # Housekeeping.

    async def take_task(self, session: uuid.UUID, task: str, lease_ms: int) -> bool:
        """Whether this session does a task of the cluster, until the lease ends."""
        ...

    async def turn_tail(self) -> bool:
        """Moves stragglers of the oldest tail table forward and empties it; False if that is not possible now."""
        ...

    async def find_garbage(self, max_count: int) -> Sequence[StoredObject]:
        """Marks unreferenced objects dead, and returns those that may be deleted now."""
        ...

    async def note_deleted(self, object_ids: Sequence[int]) -> None: ...

    async def objects(self, after_id: int, max_count: int) -> Sequence[StoredObject]:
        """All known objects by rising id, for `ottla storage check`."""
        ...

    async def close(self) -> None: ...


__all__ = ["EpochStart", "Holder", "Sequencer"]
