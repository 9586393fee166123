"""The interface of a sequencer.

Safety rests on the row lock of a partition and on nothing else: `claim` and everything that changes a partition take
it, then look at its epoch in a new statement. Only `claim` changes an epoch, and only upwards.

Every method may raise SequencerUnavailableError: whether the change was made is unknown then. The caller repeats it
(`append` with the same flush id, `commit_catalog` with the same commit id), or claims again. StorageFullError: nothing
was changed. FencedError: the session or the claim has ended.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from ottla.ports import JsonValue, PartitionRef, UnclaimedLog
from ottla.storage.shared.sequencer.records import (
    AppendOutcome,
    BrokerDescription,
    CatalogChange,
    CatalogState,
    Claimed,
    Heartbeat,
    HolderChanges,
    NotClaimed,
    OpenedPartition,
    PartAppend,
    PartitionEnd,
    Registration,
    Replacement,
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
        self, session: uuid.UUID, applied_revision: int, object_count: int
    ) -> Heartbeat:
        """Renews the lease, and reserves objects. FencedError if the session has ended.

        A session whose lease has run out goes on if nobody has ended it meanwhile.
        """
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
        """The changes after a revision, all of them and in order. FencedError if they are no longer known.

        They are as long as a session lasts that has not applied them.
        """
        ...

    async def commit_catalog(
        self,
        session: uuid.UUID,
        commit: uuid.UUID,
        changes: Mapping[str, JsonValue],
        expected_revision: int,
    ) -> int:
        """The new revision; CatalogConflictError if the catalog is at another one.

        A repetition with the same commit id answers the revision of the first try.
        """
        ...

    # Who holds what.

    async def holders(self, after_revision: int) -> HolderChanges:
        """What has changed after a revision; 0 gives everything."""
        ...

    async def claim(
        self, session: uuid.UUID, refs: Sequence[PartitionRef], catalog_revision: int
    ) -> Sequence[Claimed | NotClaimed]:
        """Takes partitions that are new, released, held by this session (a new epoch) or by one whose lease has ended.

        At most 500 a call. STALE if the catalog is at another revision, so that nobody revives a deleted topic. A
        session whose lease has ended is ended by the claim, but only by a session that has kept its own lease for as
        long as a lease lasts: after an outage of the sequencer everybody gets the time to renew.
        """
        ...

    async def release(self, session: uuid.UUID, wanted: Mapping[int, int | None]) -> None:
        """Gives up partitions (by id) that this session holds, each for a node that should take it, if not None."""
        ...

    def notifications(self) -> AsyncIterator[str]:
        """`catalog`, `holders` or `applied` whenever a session has changed one; `lost` if some may have been missed."""
        ...

    # A claimed partition.

    async def ends(self, partition_ids: Sequence[int]) -> Mapping[int, PartitionEnd]:
        """The ends of those that exist, to be compared after an outage with what was acknowledged."""
        ...

    async def open(self, partition_id: int, epoch: int) -> OpenedPartition:
        """FencedError if another claim has followed, or the partition is deleted."""
        ...

    async def append(
        self,
        session: uuid.UUID,
        flush: uuid.UUID,
        objects: Sequence[WrittenObject],
        parts: Sequence[PartAppend],
    ) -> Sequence[AppendOutcome]:
        """Appends parts of a flush, each on its own: a fenced one holds up no other. Objects become live.

        Several parts of one partition follow each other. Durable when this returns. A repetition with the same flush
        id answers ALREADY for what was appended, even after another claim, for at least four minutes. Objects of which
        nothing was appended are dead.
        """
        ...

    async def trim(self, starts: Sequence[tuple[int, int, int]]) -> Sequence[bool]:
        """Moves starts up: (partition id, epoch, start offset); rows and segments wholly below go.

        False: fenced, or above the end.
        """
        ...

    async def save_snapshot(self, partition_id: int, epoch: int, offset: int, data: bytes) -> bool:
        """Keeps the newest two; refused (False) if fenced, or above the end of the log."""
        ...

    async def save_cleaned_offset(self, partition_id: int, epoch: int, offset: int) -> bool: ...

    async def replace(
        self, replacements: Sequence[Replacement], objects: Sequence[WrittenObject]
    ) -> Sequence[bool]:
        """Makes replacements, at most one of a partition, each on its own; for consolidation and compaction.

        False if fenced, if no rows or segments begin and end exactly there, or if they begin within the tail: rows of
        the tail are replaced from the first one on. Objects that no replacement made use of are dead.
        """
        ...

    async def abandon_objects(self, object_ids: Sequence[int]) -> None:
        """Gives up reserved objects that were perhaps put, and will never be appended."""
        ...

    async def delete(self, refs: Sequence[PartitionRef]) -> None:
        """Removes partitions whose deletion is committed to the catalog: every later append is fenced."""
        ...

    # Reading.

    async def read_runs(
        self, partition_id: int, offset: int, max_bytes: int
    ) -> Sequence[StoredRun]:
        """Tail rows and segments from the one that contains `offset` on, with their `data`, at least one if any.

        No more after those have `max_bytes`, and at most 256.
        """
        ...

    async def run_headers(
        self, partition_id: int, offset: int, end_offset: int
    ) -> Sequence[StoredRun]:
        """As `read_runs` with headers instead of data; segments have none. It may be fewer than there are."""
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
        """Does what is due of this: moves what still counts in the oldest tail table forward, empties the table a
        minute later, begins it as the newest one every two minutes. False if a lock could not be had; to be called
        every 30 seconds or so.
        """
        ...

    async def find_garbage(self, max_count: int) -> Sequence[StoredObject]:
        """Marks unreferenced objects dead, and returns those that may be deleted now.

        The caller deletes them and calls `note_deleted`. Each comes a second time after a day, when a late put may
        have made it again, and is forgotten then.
        """
        ...

    async def note_deleted(self, object_ids: Sequence[int]) -> None: ...

    async def objects(self, after_id: int, max_count: int) -> Sequence[StoredObject]:
        """All known objects by rising id, for `ottla storage check`."""
        ...

    async def close(self) -> None: ...
