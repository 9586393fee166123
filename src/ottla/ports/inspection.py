"""Information about partitions that needs no claim: for metrics, retention and operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from ottla.histogram import Histogram
from ottla.ports.errors import StorageError
from ottla.ports.log import PartitionRef


class UnclaimedLog(NamedTuple):
    """A partition that is not claimed.

    The timestamp is -1 where it is unknown; the end offset is then the lowest possible one.
    """

    size_bytes: int
    first_segment_max_timestamp_ms: int
    start_offset: int
    end_offset: int


class LogDir(NamedTuple):
    """A folder of logs, for DescribeLogDirs; -1 where a size is unknown."""

    path: str
    total_bytes: int
    usable_bytes: int
    partitions: Mapping[tuple[str, int], int]


class Inspection(Protocol):
    def partitions(self) -> Sequence[PartitionRef]:
        """Every partition that has stored data, claimed or not."""
        ...

    def has_data(self, ref: PartitionRef) -> bool:
        """Whether the partition has stored data; one that was never claimed has none.

        Answered from memory or from local files: the broker asks about every partition that it leads, again and again.
        """
        ...

    def unclaimed(
        self, refs: Iterable[PartitionRef]
    ) -> Mapping[PartitionRef, UnclaimedLog | StorageError]:
        """Those of these partitions that are not claimed and have data, or why they cannot be read."""
        ...

    def offline(self) -> Mapping[PartitionRef, StorageError]:
        """Partitions that were found unusable when the store was opened, and why; a claim tries again."""
        ...

    def log_dirs(self) -> Sequence[LogDir]: ...

    @property
    def syncs(self) -> Histogram:
        """The durations of the syncs that made appended batches durable."""
        ...
