"""Offsets of partitions, as `Admin` takes and returns them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class OffsetSpec(IntEnum):
    """Which offset to list; a number from 0 on stands for the first record at or after that time in ms."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


class IsolationLevel(IntEnum):
    """Whether LATEST is the high watermark, or the last stable offset."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@dataclass(frozen=True)
class ListedOffset:
    """A listed offset; -1 if there is no such record."""

    offset: int
    timestamp_ms: int
    leader_epoch: int | None = None

    @property
    def timestamp(self) -> int:
        """The same as `timestamp_ms`, which programs should use: its name has the unit."""
        return self.timestamp_ms


@dataclass(frozen=True)
class EpochEnd:
    """The end offset of a leader epoch (exclusive); -1 if the leader does not know the epoch."""

    leader_epoch: int
    end_offset: int
