"""The times of garbage collections in a broker's process.

A collection cannot be interrupted. A young one scans new objects, which takes milliseconds. A full one scans all
objects of the broker (groups, producers, parked fetches), which took half a second with 50,000 parked fetches and found
nothing: brokers make few cycles. So a full one waits until clients are idle, or until the last one was an hour ago.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from typing import Final

# The number of new objects that causes a young collection. With Python's 700, a start that replays 10,000 groups takes
# a fifth more processor time.
NEW_OBJECTS: Final = 10_000
YOUNG_COLLECTIONS: Final = 10
NEVER: Final = 2**31 - 1

CHECK_SECONDS: Final = 10.0
# A full collection: not before, if no client sent anything for a while, and not after.
LEAST_SECONDS: Final = 600.0
MOST_SECONDS: Final = 3600.0


class FullCollections:
    """Collects all generations, at a time when no client waits for a response."""

    def __init__(
        self,
        received_bytes: Callable[[], int],
        now: Callable[[], float] = time.monotonic,
        collect: Callable[[], object] = gc.collect,
    ) -> None:
        self._received_bytes = received_bytes
        self._now = now
        self._collect = collect
        self._last = now()
        self._received_before = 0
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """From now on only `check` runs full collections; the objects of the start are never scanned again."""
        gc.set_threshold(NEW_OBJECTS, YOUNG_COLLECTIONS, NEVER)
        gc.collect()
        gc.freeze()
        self._last = self._now()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def end(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            self.check()

    def check(self) -> None:
        """Runs a full collection if it is due."""
        received = self._received_bytes()
        is_idle = received == self._received_before
        self._received_before = received
        since = self._now() - self._last
        if since >= MOST_SECONDS or (is_idle and since >= LEAST_SECONDS):
            self._collect()
            self._last = self._now()
