"""Offsets of partitions, as `Admin` takes and returns them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class OffsetSpec(IntEnum):
    """Which offset is asked for; a number from 0 on means: the first record at or after that time in ms."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


class IsolationLevel(IntEnum):
    """Up to where "latest" goes: to the high watermark, or to the last stable offset."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@dataclass(frozen=True)
class ListedOffset:
    """An offset that was asked for; -1 if there is no such record."""

    offset: int
    timestamp_ms: int
    leader_epoch: int | None = None

    @property
    def timestamp(self) -> int:
        """The same as `timestamp_ms`, which is preferred: its name has the unit."""
        return self.timestamp_ms


@dataclass(frozen=True)
class EpochEnd:
    """Where the records of a leader epoch end (exclusive); -1 where the leader does not know the epoch."""

    leader_epoch: int
    end_offset: int
