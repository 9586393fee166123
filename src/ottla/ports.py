"""What the broker needs from outside: time, identifiers, and a storage engine.

An engine knows nothing of Kafka's semantics. It stores record batches under offsets that the caller chose, hands
them back, forgets them from the front, and keeps a small catalog of JSON values. Every engine passes
`tests/storage_contract`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from ottla.config.topic import TopicConfig
from ottla.core.aborted import AbortedSpan
from ottla.errors import OttlaError
from ottla.histogram import Histogram

Buffer = bytes | bytearray | memoryview
JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall-clock milliseconds since the epoch."""
        ...

    def monotonic_seconds(self) -> float:
        """Time that nobody sets: it only says how much has passed."""
        ...


def monotonic_ms(clock: Clock) -> int:
    """Time for waits and intervals, in milliseconds: the wall clock may be set back, and then they would not end."""
    return int(clock.monotonic_seconds() * 1000)


class Ids(Protocol):
    def topic_id(self) -> uuid.UUID: ...

    def member_id(self) -> uuid.UUID:
        """What makes the id of a group's member unlike any other."""
        ...

    def session_id(self) -> int:
        """A random positive 31-bit number."""
        ...


class PartitionRef(NamedTuple):
    """A partition as engines know it; the id tells a topic from an older one of the same name."""

    topic: str
    partition: int
    topic_id: uuid.UUID


class Extent(NamedTuple):
    """What an engine must know of a batch in order to find it again."""

    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    size_bytes: int


class SegmentInfo(NamedTuple):
    """A run of batches that is deleted as one piece; the last one of a log is never deleted.

    Without any timestamp in it, `max_timestamp_ms` is when it was last written to, as in Kafka.
    """

    base_offset: int
    end_offset: int
    size_bytes: int
    max_timestamp_ms: int


class IdleLog(NamedTuple):
    """What can be said of a partition without claiming it.

    The timestamp is -1 where it is not known; the end offset is then what is known to be there.
    """

    size_bytes: int
    first_segment_max_timestamp_ms: int
    start_offset: int
    end_offset: int


class EpochStart(NamedTuple):
    """The first offset that was written under a leader epoch."""

    epoch: int
    start_offset: int


class Snapshot(NamedTuple):
    """State as of `offset`, in whatever form the caller saved it."""

    offset: int
    data: bytes


class StorageError(OttlaError):
    """The engine could not do what was asked; the partition has to be claimed anew."""


class InUseError(StorageError):
    """Another process has the data."""


class NewerFormatError(StorageError):
    """The data has formats of a later version, which this one cannot read."""


class StorageFullError(StorageError):
    """There is no room. Nothing was kept, and the claim goes on."""


class DamagedError(StorageError):
    """What is stored is not what was written, below what was acknowledged: somebody has to look at it.

    If everything was looked at, `fingerprint` is what the partition's was then.
    """

    fingerprint: Hashable = None


class BeingCheckedError(StorageError):
    """The engine checks the partition's files, on a thread: a claim can be tried again when `done` is."""

    def __init__(self, text: str, done: asyncio.Future[None]) -> None:
        super().__init__(text)
        self.done = done


class FencedError(StorageError):
    """Somebody else has claimed the partition since."""


class CatalogConflictError(StorageError):
    """The catalog was changed by somebody else since it was read."""


class Replacement(Protocol):
    """A segment in the making that will take the place of others; nobody reads it before `commit`.

    Whatever is not committed leaves no trace, nor does a crash before or during `commit`, after which there are either
    the old segments or the new one.
    """

    def append(self, data: Buffer, extents: Sequence[Extent]) -> None:
        """Adds whole batches that lie back to back; their offsets rise and lie within the old segments'.

        Raises StorageFullError if there is no room: then the log stays as it is.
        """
        ...

    def flush(self) -> asyncio.Future[None] | None:
        """Makes it durable, as PartitionLog.flush; nothing may be added from here on."""
        ...

    def commit(self) -> bool:
        """Puts it in the place of the old segments; False, and nothing happens, if they are not there any more.

        Has to be flushed. What was read from the old segments stays valid.
        """
        ...

    def abandon(self) -> None:
        """Gives it up; nothing happens if it was committed."""
        ...


class PartitionLog(Protocol):
    """A claimed partition. Offsets: `start_offset` is the first readable one, `end_offset` the next to be written."""

    @property
    def ref(self) -> PartitionRef: ...

    @property
    def epoch(self) -> int:
        """The epoch of this claim; it is higher than that of every earlier claim of the partition."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether the claim lasts; if not, nothing can be done with it any more."""
        ...

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def epochs(self) -> Sequence[EpochStart]:
        """Every epoch under which something was written, oldest first."""
        ...

    def configure(self, config: TopicConfig) -> None:
        """Takes the segment, index and flush options from now on."""
        ...

    def append(
        self, data: Buffer, extents: Sequence[Extent], expected_end_offset: int
    ) -> asyncio.Future[None] | None:
        """Appends whole batches that lie back to back in `data`, in one write.

        None: it is as durable as the flush options ask. A future: it will be when that is done; until then the caller
        must not acknowledge or show it. Raises StorageError if nothing was kept, StorageFullError if that
        is for want of room, FencedError if the claim is over.
        `data` may be reused by the caller as soon as this returns. To append elsewhere than at the end is a bug.
        """
        ...

    def roll_is_due(self, size_bytes: int, extent: Extent) -> bool:
        """Whether a batch of this size and extent belongs into a new segment."""
        ...

    def roll(self) -> None:
        """Begins a new segment at the end offset."""
        ...

    def read(self, offset: int, max_bytes: int, end_offset: int) -> Buffer:
        """Whole batches below `end_offset`, from the one that contains `offset` (or the next one there is) on.

        At least one batch even if it is larger than `max_bytes`, else as many as fit; b"" when there is none.
        May give fewer than fit (a segment's end). The result stays valid whatever happens to the log.
        DamagedError ends the claim: what is readable has to be found out anew.
        """
        ...

    def peek(self, offset: int, max_bytes: int, end_offset: int) -> Buffer:
        """As `read`, for a reader whom no client waits for: DamagedError is told, and the claim goes on."""
        ...

    def batch_at_timestamp(self, timestamp_ms: int, offset: int) -> Buffer | None:
        """The first batch at or after `offset` whose max timestamp is at least `timestamp_ms`."""
        ...

    def batch_of_max_timestamp(self) -> Buffer | None:
        """The first batch with the largest timestamp among those not below `start_offset`."""
        ...

    def segments(self) -> Sequence[SegmentInfo]: ...

    def trim(self, start_offset: int) -> None:
        """Moves the start of the log up, durably, and drops segments that lie below it wholly."""
        ...

    def begin_replacement(self, base_offsets: Sequence[int]) -> Replacement:
        """Begins a segment that will replace these neighbours, of which none is the last; one at a time."""
        ...

    @property
    def cleaned_offset(self) -> int | None:
        """The offset that was last kept by `keep_cleaned_offset`; None if none was, or the log ends below it."""
        ...

    def keep_cleaned_offset(self, offset: int) -> None:
        """Durably keeps an offset up to which the caller has gone through the log; it outlives the claim."""
        ...

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keeps a snapshot (the newest few and one per segment are kept)."""
        ...

    def save_at_close(self, snapshot: Snapshot) -> None:
        """As `save_snapshot`, when the store closes: many logs are then written side by side."""
        ...

    def save_snapshot_soon(self, snapshot: Snapshot) -> None:
        """As `save_snapshot`, for one that nobody waits for: it is dropped if there is trouble, or one on its way."""
        ...

    def snapshots(self) -> Iterator[Snapshot]:
        """Kept snapshots at or below the end offset, newest first, each read when it is asked for; not checked."""
        ...

    def note_aborted(self, span: AbortedSpan) -> None:
        """Keeps a span with the segment that holds its last offset.

        Within a segment they come by rising last offset. One that is not above the last is there already, because a
        replay finds again what it found before: then nothing happens. It outlasts every snapshot saved after it.
        """
        ...

    def aborted(self, offset: int) -> Iterator[AbortedSpan]:
        """The kept spans by rising last offset, at least those whose last offset is not below `offset`."""
        ...

    def flush(self) -> asyncio.Future[None] | None:
        """Makes everything durable that was appended so far.

        None: it is. A future, as `append` gives them: it will be when that is done (only ever inside a running loop).
        """
        ...

    def close(self) -> None:
        """Ends the claim; everything appended is durable afterwards."""
        ...


class Catalog(Protocol):
    """A small durable map that is changed in atomic steps."""

    @property
    def revision(self) -> int: ...

    def entries(self) -> Mapping[str, JsonValue]: ...

    def commit(self, changes: Mapping[str, JsonValue], expected_revision: int) -> int:
        """Durably sets the values (None removes the key) in one step; answers the new revision."""
        ...


class LogDir(NamedTuple):
    """A place where logs are kept, for DescribeLogDirs; -1 where a size is not known."""

    path: str
    total_bytes: int
    usable_bytes: int
    partitions: Mapping[tuple[str, int], int]


class LogStore(Protocol):
    """A storage engine, opened."""

    @property
    def cluster_id(self) -> str:
        """The name that the cluster got when its storage was made."""
        ...

    @property
    def catalog(self) -> Catalog: ...

    def epoch_of(self, ref: PartitionRef) -> int:
        """The epoch that the current claim of the partition has, or that a first claim made now would have."""
        ...

    def raise_epoch(self) -> None:
        """Makes later claims, and what `epoch_of` says of partitions without one, higher than all so far."""
        ...

    def claim(self, ref: PartitionRef, config: TopicConfig) -> PartitionLog:
        """Takes the partition, making it if it is new; an earlier claim of it ends.

        BeingCheckedError, only ever inside a running loop, if its files have to be checked first. DamagedError if that
        found what cannot be mended: another try finds the same as long as the fingerprint is that of the error.
        """
        ...

    def fingerprint(self, ref: PartitionRef) -> Hashable:
        """What changes if somebody changes the records of a partition that is not claimed; None if not known."""
        ...

    def delete(self, ref: PartitionRef) -> None:
        """Removes the partition and its data; nothing happens if there is none."""
        ...

    def partitions(self) -> Sequence[PartitionRef]:
        """Every partition that the engine keeps data of, claimed or not."""
        ...

    def offline(self) -> Mapping[PartitionRef, StorageError]:
        """Partitions that the start found unusable, and why; a claim tries again."""
        ...

    def keeps(self, ref: PartitionRef) -> bool:
        """Whether there is anything of the partition, claimed or not; one that was never claimed leaves no trace."""
        ...

    def idle_log(self, ref: PartitionRef) -> IdleLog | None:
        """What is kept of a partition that is not claimed; None if it is claimed, or keeps nothing."""
        ...

    def log_dirs(self) -> Sequence[LogDir]: ...

    @property
    def syncs(self) -> Histogram:
        """How long it took, each time, to make durable what was appended."""
        ...

    def trims_together(self) -> AbstractContextManager[None]:
        """Trims of logs within it are durable when it ends, all in one step; StorageError if that fails."""
        ...

    def tick(self, now_ms: int) -> None:
        """Does what is due (timed flushes, checkpoints, delayed deletions); to be called about once a second.

        `now_ms` is `monotonic_ms` of the clock that the engine was given.
        """
        ...

    def close(self) -> None:
        """Stops cleanly: claims end, everything is durable, the next start needs no recovery."""
        ...
