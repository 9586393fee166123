"""What an Ottla broker's own log says of groups: why members left, when a rebalance began. Other brokers tell nothing.

The broker is asked after each rebalance that the log shows, and when a browser looks: not more often than each second.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from ottla.console.groups.timeline import RebalanceNote
from ottla.console.groups.timelines import Timelines
from ottla.console.internals.page_client import InternalsClient
from ottla.console.internals.report import BrokerEvent
from ottla.errors import OttlaError

MIN_SECONDS: Final = 1.0
MAX_ASKED: Final = 1_000
MAX_WAITING_GROUPS: Final = 1_000
MAX_WAITING_NOTES: Final = 50
BEGINS: Final = "rebalance_begins"
# What members did, and what the coordinator did with them; the generations themselves are in the log.
NAMES: Final = frozenset(
    {
        BEGINS,
        "join_refused",
        "member_expired",
        "members_expired",
        "member_joined",
        "member_left",
        "member_never_joined",
        "member_replaced",
        "rebalance_timed_out",
        "group_upgraded",
        "group_downgraded",
    }
)


class BrokerNotes:
    """Reads the broker's events behind the last one that was read."""

    def __init__(self, client: InternalsClient | None, timelines: Timelines) -> None:
        self._client = client
        self._timelines = timelines
        self._instance: str | None = None
        self._newest = 0
        self._asked_at = 0.0
        self._waiting: OrderedDict[str, list[RebalanceNote]] = OrderedDict()
        self._looking = asyncio.Lock()
        self._soon: asyncio.Task[None] | None = None
        self.problem: str | None = None
        """Why the broker tells nothing."""

    @property
    def is_offered(self) -> bool:
        """Whether there is a broker to ask."""
        return self._client is not None

    def look_soon(self) -> None:
        """Ask in the background."""
        if self._client is not None and (self._soon is None or self._soon.done()):
            self._soon = asyncio.get_running_loop().create_task(self._look_in_time())

    async def _look_in_time(self) -> None:
        await asyncio.sleep(max(0.0, self._asked_at + MIN_SECONDS - time.monotonic()))
        await self.look()

    async def look(self) -> None:
        """Ask now, unless the last answer is newer than a second."""
        client = self._client
        if client is None:
            return
        async with self._looking:
            self._hand_over()
            if time.monotonic() - self._asked_at < MIN_SECONDS:
                return
            try:
                await self._look(client)
                self.problem = None
            except OttlaError as error:
                self.problem = str(error)
            self._hand_over()
            self._asked_at = time.monotonic()

    async def _look(self, client: InternalsClient) -> None:
        page = await client.events(self._newest, MAX_ASKED)
        if page.instance != self._instance and self._newest:
            # The broker has been started again, and its numbers begin anew.
            page = await client.events(0, MAX_ASKED)
        self._instance, self._newest = page.instance, page.newest
        for event in page.events:
            self._newest = max(self._newest, event.sequence)
            self._add(event)

    def _add(self, event: BrokerEvent) -> None:
        if event.name not in NAMES:
            return
        group = str(event.fields.get("group"))
        self._waiting.setdefault(group, []).append(
            RebalanceNote(event.at_ms, event.name or "", _sentence(event))
        )
        if len(self._waiting) > MAX_WAITING_GROUPS:
            self._waiting.popitem(last=False)

    def _hand_over(self) -> None:
        """The broker may tell of a group before the console has read of it in the log."""
        for group in list(self._waiting):
            timeline = self._timelines.of(group)
            if timeline is not None:
                for note in self._waiting.pop(group):
                    timeline.note(note)
            else:
                del self._waiting[group][:-MAX_WAITING_NOTES]

    async def stop(self) -> None:
        """End."""
        if self._soon is not None:
            self._soon.cancel()
            await asyncio.gather(self._soon, return_exceptions=True)


def _sentence(event: BrokerEvent) -> str:
    """What is said without the name of the group, which stands above it already."""
    fields: Mapping[str, object] = event.fields
    if event.name == BEGINS:
        return f"began because {fields.get('reason')}"
    return event.sentence.removeprefix(f"group {fields.get('group')}: ")
