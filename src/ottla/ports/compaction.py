"""Replacing segments of a claimed partition by compacted ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from ottla.ports.log import Buffer, Extent


class Replacement(Protocol):
    """A segment in the making that will take the place of others; reads do not see it before `commit`.

    Without a commit it leaves no trace. After a crash before or during `commit` there are either the old segments or
    the new one.
    """

    def append(self, data: Buffer, extents: Sequence[Extent]) -> None:
        """Adds whole batches that lie back to back; their offsets rise and lie within those of the old segments.

        Raises StorageFullError if there is no room: then the log stays as it is.
        """
        ...

    def flush(self) -> asyncio.Future[None] | None:
        """Makes it durable, as Log.flush; nothing may be added from here on."""
        ...

    def commit(self) -> asyncio.Future[bool] | bool:
        """Puts it in the place of the old segments; False, without any effect, if one of those is gone.

        Has to be flushed. Bytes that were read from the old segments stay valid.
        """
        ...

    def abandon(self) -> None:
        """Drops it; nothing happens if it was committed."""
        ...


class CompactedLog(Protocol):
    def scan(self, offset: int, max_bytes: int, end_offset: int) -> Buffer:
        """As Log.read, for maintenance: DamagedError does not end the claim, and an engine may bypass its caches."""
        ...

    def begin_replacement(self, base_offsets: Sequence[int]) -> Replacement:
        """Begins a segment that will replace these neighbours, of which none is the last; one at a time."""
        ...

    @property
    def cleaned_offset(self) -> int | None:
        """The offset that `save_cleaned_offset` saved last; None if there is none, or the log ends below it."""
        ...

    def save_cleaned_offset(self, offset: int) -> asyncio.Future[None] | None:
        """Durably saves the offset up to which the log was compacted; it outlives the claim."""
        ...
