"""The events of the broker's log as they happen: asked for only while a browser listens, and once for all of them."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

from ottla.console.internals.page_client import InternalsClient
from ottla.console.internals.report import BrokerEvent
from ottla.errors import OttlaError
from ottla.events import EventLog

logger = EventLog(__name__)

PERIOD_SECONDS: Final = 1.0
MAX_SHARE: Final = 1 / 20
# As many as the broker keeps.
MAX_EVENTS: Final = 2_000
MAX_ASKED: Final = 1_000
# A browser that does not keep up with so many is told how many it missed.
MAX_WAITING: Final = 2_000


@dataclass(frozen=True)
class FeedEvent:
    """An event; `id` is unlike those of all others, also after a start of the broker."""

    id: str
    event: BrokerEvent


@dataclass(frozen=True)
class FeedState:
    """Whether the broker answers; and how many events it had dropped before they were read."""

    problem: str | None
    missed_count: int = 0


Told = FeedEvent | FeedState


class EventFeed:
    """The newest events, and those who listen to them."""

    def __init__(self, client: InternalsClient | None) -> None:
        self._client = client
        self._events: deque[FeedEvent] = deque(maxlen=MAX_EVENTS)
        self._instance: str | None = None
        self._newest = 0
        self._state = FeedState(None)
        self._queues: set[asyncio.Queue[Told | None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._looking = asyncio.Lock()

    async def listen(self) -> AsyncGenerator[Told]:
        """The events that are known, and then those that happen, until `stop`."""
        queue: asyncio.Queue[Told | None] = asyncio.Queue()
        if self._task is None and self._client is not None:
            # What happened while nobody listened is asked for first.
            await self._look(self._client)
        for event in self._events:
            queue.put_nowait(event)
        queue.put_nowait(self._state)
        self._queues.add(queue)
        if self._task is None and self._client is not None:
            self._task = asyncio.get_running_loop().create_task(self._run(self._client))
        try:
            while (found := await queue.get()) is not None:
                yield found
        finally:
            self._queues.discard(queue)

    async def stop(self) -> None:
        """End all streams."""
        for queue in self._queues:
            queue.put_nowait(None)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, client: InternalsClient) -> None:
        try:
            while self._queues:
                began = time.monotonic()
                await self._look(client)
                took = time.monotonic() - began
                await asyncio.sleep(max(PERIOD_SECONDS, took / MAX_SHARE))
        finally:
            self._task = None

    async def _look(self, client: InternalsClient) -> None:
        async with self._looking:
            await self._look_alone(client)

    async def _look_alone(self, client: InternalsClient) -> None:
        try:
            page = await client.events(self._newest, MAX_ASKED)
            if page.instance != self._instance and self._newest:
                # The broker has been started again, and its numbers begin anew.
                page = await client.events(0, MAX_ASKED)
                self._newest = 0
        except OttlaError as error:
            self._tell_state(FeedState(str(error)))
            return
        first = page.events[0].sequence if page.events else page.newest + 1
        missed = max(0, first - self._newest - 1) if self._instance == page.instance else 0
        self._instance, self._newest = page.instance, page.newest
        if page.events:
            self._newest = max(self._newest, page.events[-1].sequence)
        for event in page.events:
            told = FeedEvent(f"{page.instance}-{event.sequence}", event)
            self._events.append(told)
            self._tell(told)
        self._tell_state(FeedState(None, missed))

    def _tell_state(self, state: FeedState) -> None:
        if state != self._state or state.missed_count:
            self._state = state
            self._tell(state)

    def _tell(self, told: Told) -> None:
        for queue in self._queues:
            if queue.qsize() < MAX_WAITING:
                queue.put_nowait(told)
            elif queue.qsize() == MAX_WAITING:
                queue.put_nowait(FeedState(None, 1))
