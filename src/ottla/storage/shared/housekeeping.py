"""Periodic work in the background: consolidation of the tail, and the tasks of the whole cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ottla.ports import PartitionRef
from ottla.storage.shared.log.partition_log import SharedLog
from ottla.storage.shared.log.store_parts import StoreParts
from ottla.storage.shared.objects.objects import Objects


class Housekeeping:
    """One round at a time."""

    def __init__(
        self, parts: StoreParts, objects: Objects, logs: Mapping[PartitionRef, SharedLog]
    ) -> None:
        self._parts = parts
        self._objects = objects
        self._logs = logs
        self._running: asyncio.Task[None] | None = None

    def tick(self, now_ms: int) -> None:
        """Begins a round, unless one runs."""

    async def close(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
