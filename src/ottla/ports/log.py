"""The log of a claimed partition: append, read, trim, close."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from ottla.config.topic import TopicConfig
from ottla.records.batch import BatchHeader

Buffer = bytes | bytearray | memoryview

# Computing the checksum of this many bytes takes as long as one more batch.
CHECKED_BYTES_PER_BATCH: Final = 16 * 1024


class PartitionRef(NamedTuple):
    """A partition; the id distinguishes a topic from a deleted one of the same name."""

    topic: str
    partition: int
    topic_id: uuid.UUID


class Extent(NamedTuple):
    """The offsets, timestamp and size of a batch, by which an engine finds it again."""

    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    size_bytes: int


class BatchEntry(NamedTuple):
    """A batch as a replay needs it: its header, and the whole batch if it is a control batch, else b"".

    The cost says as how many batches it counts: one more for each CHECKED_BYTES_PER_BATCH of a producer's batch.
    """

    header: BatchHeader
    control: Buffer
    cost: int


class Log(Protocol):
    """Batches by offset: `start_offset` is the first that can be read, `end_offset` the next to be written."""

    @property
    def ref(self) -> PartitionRef: ...

    @property
    def epoch(self) -> int:
        """The epoch of this claim, higher than that of every earlier claim of the partition."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether the claim lasts; every change is refused once it is over."""
        ...

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def last_base_offset(self) -> int:
        """Where the last segment begins; an append that begins another one moves it to its own base offset."""
        ...

    @property
    def size_bytes(self) -> int: ...

    def configure(self, config: TopicConfig) -> None:
        """Takes the segment, index and flush options from now on."""
        ...

    def append(
        self, data: Buffer, extents: Sequence[Extent], expected_end_offset: int
    ) -> asyncio.Future[None] | None:
        """Appends whole batches that lie back to back in `data`, all or none of them.

        None: they are as durable as the flush options ask. A future: they are when it is done; until then the caller
        must neither acknowledge nor show them. Raises StorageError if nothing was stored, StorageFullError if there
        was no room. The caller may reuse `data` as soon as this returns. To append elsewhere than at the end is a bug.
        """
        ...

    def flush(self) -> asyncio.Future[None] | None:
        """Makes everything durable that was appended so far; a future only inside a running loop."""
        ...

    def read(self, offset: int, max_bytes: int, end_offset: int) -> Buffer:
        """Whole batches below `end_offset`, from the one that contains `offset` (or the next one) on.

        At least one batch even if it is larger than `max_bytes`, else as many as fit; b"" when there is none. May
        return fewer than fit. The result stays valid whatever happens to the log. DamagedError ends the claim, and
        the next one checks the stored data.
        """
        ...

    def headers(self, offset: int, end_offset: int, max_cost: int) -> Sequence[BatchEntry]:
        """The headers of the batches that `read` would return, for a replay.

        At least one if there is any; no more after their costs have reached `max_cost`. The checksums of
        producers' batches are verified: DamagedError if one is wrong, and the claim lasts.
        """
        ...

    def trim(self, start_offset: int) -> asyncio.Future[None] | None:
        """Durably moves the start of the log up, and deletes segments that lie wholly below it.

        `start_offset` is the new one when it is done. The caller has saved a snapshot at or above it before.
        """
        ...

    def close(self) -> asyncio.Future[None] | None:
        """Ends the claim; everything appended is durable when it is done."""
        ...
