"""Saved state of a claimed partition, so that a replay need not read the whole log."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Iterator
from typing import NamedTuple, Protocol


class Snapshot(NamedTuple):
    """State as of `offset`; engines do not look into the data."""

    offset: int
    data: bytes


class SaveTime(enum.Enum):
    """When a snapshot is to be saved."""

    NOW = "now"
    # Written on a thread where a loop is running. While others are being written an engine may drop it for a newer one,
    # and the future is done when that is.
    SOON = "soon"
    # When the claim is closed, once everything that was appended is durable; the snapshot may cover all of it.
    AT_CLOSE = "at close"


class Snapshots(Protocol):
    def save_snapshot(
        self, snapshot: Snapshot, when: SaveTime = SaveTime.NOW
    ) -> asyncio.Future[None] | None:
        """Keeps a snapshot; older ones go, except for the newest few, and the newest at or below each segment's base.

        The caller saves only durable state: a snapshot never lies above the high watermark, or that of a fenced
        leader would count once the log of its successor has grown beyond it.
        """
        ...

    def snapshots(self) -> Iterator[Snapshot]:
        """The snapshots at or below the end offset, newest first, each read on demand; not checked."""
        ...
