"""What can be said of partitions without claiming them: for metrics, retention and operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from ottla.histogram import Histogram
from ottla.ports.errors import StorageError
from ottla.ports.log import PartitionRef


class UnclaimedLog(NamedTuple):
    """A partition that is not claimed.

    The timestamp is -1 where it is not known; the end offset is then what is known to be there.
    """

    size_bytes: int
    first_segment_max_timestamp_ms: int
    start_offset: int
    end_offset: int


class LogDir(NamedTuple):
    """A place where logs are kept, for DescribeLogDirs; -1 where a size is not known."""

    path: str
    total_bytes: int
    usable_bytes: int
    partitions: Mapping[tuple[str, int], int]


class Inspection(Protocol):
    def partitions(self) -> Sequence[PartitionRef]:
        """Every partition that has stored data, claimed or not."""
        ...

    def has_data(self, ref: PartitionRef) -> bool:
        """Whether anything is stored of the partition; one that was never claimed has nothing."""
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
        """How long it took, each time, to make appended batches durable."""
        ...
