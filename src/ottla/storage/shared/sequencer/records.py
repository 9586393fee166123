"""What a sequencer is given and answers."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.core.leader_epochs import EpochStart
from ottla.ports import JsonValue, PartitionRef

# Sessions and brokers.


class BrokerDescription(NamedTuple):
    """What a broker tells the others: `endpoints` and `advertised` are addresses ("HOST:PORT") by listener's name.

    `peer` is where other brokers reach it ("HOST:PORT"), "" if nowhere; `certificate` (PEM) is what it shows them
    there, and when it connects to them.
    """

    name: str
    node_id: int | None  # None: the id that this name has, or a new one
    endpoints: Mapping[str, str]
    advertised: Mapping[str, str]
    peer: str
    rack: str | None
    certificate: str = ""


class MemberState(NamedTuple):
    """A broker that the sequencer knows. One whose lease has run out, or that has stopped, is not live."""

    node_id: int
    name: str
    session: uuid.UUID
    endpoints: Mapping[str, str]
    advertised: Mapping[str, str]
    peer: str
    rack: str | None
    is_live: bool
    applied_revision: int  # the revision of the catalog by which it acts
    certificate: str = ""


class Registration(NamedTuple):
    """A session. Its lease lasts `lease_ms` from the time at which the call began, by the caller's clock."""

    node_id: int
    session: uuid.UUID
    lease_ms: int
    cluster_id: str


class ReservedObject(NamedTuple):
    """An object that a session may write once, under this key; the key is never used again."""

    object_id: int
    key: str


class Heartbeat(NamedTuple):
    """The lease lasts `lease_ms` from the time at which the call began, by the caller's clock."""

    lease_ms: int
    members: Sequence[MemberState]
    catalog_revision: int
    holders_revision: int
    objects: Sequence[ReservedObject]  # for this session, as many as were asked for


# The catalog.


class CatalogState(NamedTuple):
    revision: int
    entries: Mapping[str, JsonValue]


class CatalogChange(NamedTuple):
    revision: int
    changes: Mapping[str, JsonValue]


# Partitions.


class Holder(NamedTuple):
    """Who holds a partition; `session` is None after a release, `wanted_node` who should take it then, if anybody.

    `node_id` is the node of the session, or of the last one.
    """

    ref: PartitionRef
    partition_id: int
    node_id: int
    session: uuid.UUID | None
    epoch: int
    wanted_node: int | None


class HolderChanges(NamedTuple):
    """Partitions whose holder or epoch has changed, and those that were deleted; by `revision` the caller asks on.

    `is_complete`: these are all partitions there are, and the caller forgets what it knew before.
    """

    revision: int
    changed: Sequence[Holder]
    deleted: Sequence[PartitionRef]
    is_complete: bool


class Claimed(NamedTuple):
    """A claim: `end_offset` has every append that was or will ever be acknowledged under an earlier epoch."""

    ref: PartitionRef
    partition_id: int
    epoch: int
    start_offset: int
    end_offset: int


class NotClaimed(enum.Enum):
    HELD = "another session holds the partition, which is live or may be"
    STALE = "the caller's catalog is not the newest"


class PartitionEnd(NamedTuple):
    epoch: int
    end_offset: int


class StoredRun(NamedTuple):
    """Consecutive batches of a partition that are stored together: a row of the tail, or a segment.

    They are in `data`, or in the object of `object_id` from `position` on. `headers` has the 61 bytes of every
    producers' batch, control batches whole, each after its size (`run_headers.py`). `flush` is the id of the append,
    None for a segment.
    """

    base_offset: int
    end_offset: int
    epoch: int  # -1 for a segment, which may have several
    flush: uuid.UUID | None
    object_id: int | None
    object_key: str | None
    position: int
    size_bytes: int
    max_timestamp_ms: int
    headers: bytes  # b"" where they were not asked for
    aborted: bytes  # spans, encoded as in a .txnindex file
    data: bytes | None
    written_ms: int  # by the sequencer's clock; for a segment, when the newest of what it replaced was written


class OpenedPartition(NamedTuple):
    """What an engine keeps of a claimed partition. Segments lie below the tail; neither has `data`."""

    epochs: Sequence[EpochStart]
    snapshots: Sequence[tuple[int, bytes]]  # newest first: offset, data
    cleaned_offset: int | None
    segments: Sequence[StoredRun]  # without headers
    tail: Sequence[StoredRun]  # with headers


# Writing.


class PartAppend(NamedTuple):
    """Batches of one partition within a flush; they end at `end_offset`, and the log has to end at `base_offset`."""

    partition_id: int
    epoch: int
    base_offset: int
    end_offset: int
    object_id: int | None
    position: int
    size_bytes: int
    max_timestamp_ms: int
    headers: bytes
    aborted: bytes
    data: bytes | None


class AppendOutcome(enum.Enum):
    OK = "appended"
    ALREADY = "an earlier try of this flush appended it"
    FENCED = "another claim has followed, or the partition or the object is gone"
    MISPLACED = "the log does not end at the base offset"


class WrittenObject(NamedTuple):
    """An object that was put under its reserved key."""

    object_id: int
    size_bytes: int


class SegmentWrite(NamedTuple):
    """A segment that takes the place of rows of the tail, or of other segments."""

    base_offset: int
    end_offset: int
    object_id: int | None
    position: int
    size_bytes: int
    max_timestamp_ms: int
    marks: bytes  # where in the segment which offsets and timestamps are, for lookups without reading all of it
    aborted: bytes
    data: bytes | None


class Replacement(NamedTuple):
    """Segments that take the place of all rows of the tail and segments of a partition between two offsets.

    A row or segment begins at `start_offset`, and one ends at `end_offset`. The segments lie within, in order.
    """

    partition_id: int
    epoch: int
    start_offset: int
    end_offset: int
    segments: Sequence[SegmentWrite]


class ObjectState(enum.Enum):
    RESERVED = "reserved"  # it may be written, now or later
    LIVE = "live"  # rows refer to it, or did
    DEAD = "dead"  # no row refers to it, and none ever will
    DELETED = "deleted"  # it was deleted once


class StoredObject(NamedTuple):
    object_id: int
    key: str
    size_bytes: int  # 0 while it is reserved
    state: ObjectState
