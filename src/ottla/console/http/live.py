"""The live stream: what happened, to every browser that listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from ottla.console.http.routes import ServerEvent

# A browser that does not keep up is told that it missed events, and looks again.
MAX_WAITING_EVENTS: Final = 256
MISSED: Final = "missed"


class LiveEvents:
    """Hands each event to all listeners."""

    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[ServerEvent | None]] = set()
        self._latest: dict[str, ServerEvent] = {}
        self._watched = asyncio.Event()

    @property
    def watcher_count(self) -> int:
        """How many browsers listen."""
        return len(self._queues)

    async def wait_for_watcher(self) -> None:
        """Return as soon as a browser listens."""
        await self._watched.wait()

    def send(self, event: ServerEvent, *, is_state: bool = False) -> None:
        """Tell all listeners; a state is told to new listeners, too."""
        if is_state:
            self._latest[event.name] = event
        for queue in self._queues:
            if queue.qsize() < MAX_WAITING_EVENTS:
                queue.put_nowait(event)
            elif queue.qsize() == MAX_WAITING_EVENTS:
                queue.put_nowait(ServerEvent(MISSED, {}))

    async def listen(self) -> AsyncGenerator[ServerEvent]:
        """The latest states, and then what happens, until `close`."""
        queue: asyncio.Queue[ServerEvent | None] = asyncio.Queue()
        for event in self._latest.values():
            queue.put_nowait(event)
        self._queues.add(queue)
        self._watched.set()
        try:
            while (found := await queue.get()) is not None:
                yield found
        finally:
            self._queues.discard(queue)
            if not self._queues:
                self._watched.clear()

    async def close(self) -> None:
        """End all streams."""
        for queue in self._queues:
            queue.put_nowait(None)
