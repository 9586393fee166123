"""The data of the memory engine: partitions, their segments, and a limit on their size."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import Final

from ottla.core.aborted import AbortedSpan
from ottla.ports import EpochStart, Extent, PartitionRef, StorageFullError

# The memory of a batch beside its bytes (the object, its places in four lists), or of an aborted span.
BATCH_OVERHEAD_BYTES: Final = 160
MAX_RELATIVE_OFFSET: Final = 2**31 - 1
NO_TIMESTAMP: Final = -1
MAX_COPIED_BYTES: Final = 4 << 20


class Budget:
    """The bytes of all logs of a store, and their limit."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0

    def take(self, wanted_bytes: int) -> None:
        if self.used_bytes + wanted_bytes > self.max_bytes:
            raise StorageFullError(
                f"{wanted_bytes} bytes do not fit into the memory engine, which holds "
                f"{self.used_bytes} of at most {self.max_bytes}: "
                "raise ottla.ephemeral.max.bytes, or shorten the retention of topics"
            )
        self.used_bytes += wanted_bytes


@dataclass(slots=True)
class MemorySegment:
    """Batches in four parallel lists; `ends` are running sizes."""

    base_offset: int
    created_ms: int  # of the monotonic clock
    end_offset: int
    written_ms: int
    batches: list[bytes] = field(default_factory=list)
    last_offsets: list[int] = field(default_factory=list)
    timestamps_ms: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    aborted: list[AbortedSpan] = field(default_factory=list)
    max_timestamp_ms: int = NO_TIMESTAMP

    @property
    def size_bytes(self) -> int:
        return self.ends[-1] if self.ends else 0

    @property
    def cost_bytes(self) -> int:
        entries = len(self.batches) + len(self.aborted)
        return self.size_bytes + BATCH_OVERHEAD_BYTES * entries

    def add(self, data: bytes, extent: Extent) -> None:
        self.ends.append(self.size_bytes + len(data))
        self.batches.append(data)
        self.last_offsets.append(extent.last_offset)
        self.timestamps_ms.append(extent.max_timestamp_ms)
        self.max_timestamp_ms = max(self.max_timestamp_ms, extent.max_timestamp_ms)
        self.end_offset = extent.last_offset + 1

    def read(self, offset: int, max_bytes: int, end_offset: int) -> bytes:
        first = bisect_left(self.last_offsets, offset)
        stop = bisect_left(self.last_offsets, end_offset)
        if first >= stop:
            return b""
        start_bytes = self.ends[first - 1] if first else 0
        # The batches are copied: a reader that wants very many gets them in several pieces.
        fitting = bisect_right(self.ends, start_bytes + min(max_bytes, MAX_COPIED_BYTES))
        return b"".join(self.batches[first : max(first + 1, min(stop, fitting))])


@dataclass(slots=True)
class MemoryPartition:
    """The state of a partition that outlives a claim."""

    ref: PartitionRef
    segments: list[MemorySegment]
    bases: list[int]
    start_offset: int = 0
    epoch: int = -1  # of the last claim
    epochs: list[EpochStart] = field(default_factory=list)
    snapshots: dict[int, bytes] = field(default_factory=dict)
    snapshot_offsets: list[int] = field(default_factory=list)
    cleaned_offset: int | None = None
