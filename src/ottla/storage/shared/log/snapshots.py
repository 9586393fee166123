"""The snapshots of a log: the sequencer keeps the newest two, saved under its check of the epoch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

from ottla.ports import SaveTime, Snapshot, StorageError
from ottla.storage.shared_future import SharedFuture, unwatched_future

KEPT: Final = 2


class LogSnapshots:
    """Those that are stored, the one that is being saved, and those that wait."""

    def __init__(
        self, stored: Sequence[tuple[int, bytes]], save: Callable[[Snapshot], Awaitable[bool]]
    ) -> None:
        """`save` returns whether it was stored; it raises StorageError."""
        self._stored = dict(sorted(stored))
        self._save = save
        self._next: tuple[Snapshot, SharedFuture] | None = None
        self._running: asyncio.Task[None] | None = None
        self.at_close: Snapshot | None = None

    def begin(self, snapshot: Snapshot, when: SaveTime) -> asyncio.Future[None] | None:
        """Saves a snapshot; while one is being saved, a newer one takes the place of the one that waits."""
        if when is SaveTime.AT_CLOSE:
            self.at_close = snapshot
            return None
        if self._next is None:
            self._next = snapshot, unwatched_future()
        else:
            self._next = snapshot, self._next[1]
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())
        return self._next[1]

    async def _run(self) -> None:
        while self._next is not None:
            (snapshot, saved), self._next = self._next, None
            try:
                if await self._save(snapshot):
                    self._keep(snapshot)
            except StorageError as error:
                saved.set_exception(error)
            else:
                saved.set_result(None)
        self._running = None

    def _keep(self, snapshot: Snapshot) -> None:
        kept = sorted({**self._stored, snapshot.offset: snapshot.data}.items())
        self._stored = dict(kept[-KEPT:])

    def newest_first(self, end_offset: int) -> Iterator[Snapshot]:
        for offset, data in sorted(self._stored.items(), reverse=True):
            if offset <= end_offset:
                yield Snapshot(offset, data)

    async def save_at_close(self) -> None:
        """Saves the last one, once everything that was appended is durable."""
        if self._running is not None:
            await asyncio.wait([self._running])
        if self.at_close is not None:
            snapshot, self.at_close = self.at_close, None
            if await self._save(snapshot):
                self._keep(snapshot)
