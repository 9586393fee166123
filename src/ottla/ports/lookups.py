"""Finding batches of a claimed partition by timestamp, epoch, segment and transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from ottla.core.aborted import AbortedSpan
from ottla.core.leader_epochs import EpochStart
from ottla.ports.log import Buffer


class SegmentInfo(NamedTuple):
    """A run of batches that retention deletes, and compaction replaces, as one piece.

    Without any timestamp in it, `max_timestamp_ms` is when it was last written to, as in Kafka.
    """

    base_offset: int
    end_offset: int
    size_bytes: int
    max_timestamp_ms: int


class Lookups(Protocol):
    @property
    def epochs(self) -> Sequence[EpochStart]:
        """Every epoch with records, oldest first."""
        ...

    def batch_at_timestamp(self, timestamp_ms: int, offset: int) -> Buffer | None:
        """The first batch at or after `offset` whose max timestamp is at least `timestamp_ms`."""
        ...

    def batch_of_max_timestamp(self) -> Buffer | None:
        """The first batch with the largest timestamp among those not below `start_offset`."""
        ...

    def segments(self) -> Sequence[SegmentInfo]:
        """The segments in order; the last one is still written to, and is never deleted or replaced."""
        ...

    def roll(self) -> None:
        """Ends the last segment, unless it is empty: the next append begins another one.

        Engines roll by the segment options themselves; this is for retention, to delete even the last segment.
        """
        ...

    def note_aborted(self, span: AbortedSpan) -> None:
        """Stores a span with the segment of its last offset.

        Spans of a segment come by rising last offset. One that is not above the last is known already, because a replay
        finds spans again: then nothing happens. A span is durable before any snapshot that is saved after it.
        """
        ...

    def aborted(self, offset: int) -> Iterator[AbortedSpan]:
        """The stored spans by rising last offset, at least those whose last offset is not below `offset`."""
        ...
