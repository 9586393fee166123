"""The one that asks the cluster, however many browsers look."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Final

from ottla.console.clients import Clients
from ottla.console.cluster.snapshot import ClusterSnapshot
from ottla.console.http.live import LiveEvents
from ottla.console.http.routes import ServerEvent
from ottla.errors import OttlaError
from ottla.events import EventLog

logger = EventLog(__name__)

WATCHED_SECONDS: Final = 2.0
UNWATCHED_SECONDS: Final = 30.0
# The console uses at most this part of a cluster's time.
MAX_SHARE: Final = 1 / 20


class ClusterPoller:
    """Makes a snapshot of the cluster now and then: often while somebody looks, seldom otherwise."""

    def __init__(self, clients: Clients, live: LiveEvents) -> None:
        self._clients = clients
        self._live = live
        self._task: asyncio.Task[None] | None = None
        self._snapshot: ClusterSnapshot | None = None

    @property
    def snapshot(self) -> ClusterSnapshot | None:
        """The newest; None before the cluster answered for the first time."""
        return self._snapshot

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            began = time.monotonic()
            await self._poll()
            took = time.monotonic() - began
            await self._pause(max(WATCHED_SECONDS, took / MAX_SHARE))

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if not self._live.watcher_count:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._live.wait_for_watcher(), UNWATCHED_SECONDS - seconds)

    async def _poll(self) -> None:
        version = 1 if self._snapshot is None else self._snapshot.version + 1
        try:
            cluster = await self._clients.admin().describe_cluster()
        except OttlaError as error:
            self._tell({"state": "unreachable", "reason": str(error)})
            return
        self._snapshot = ClusterSnapshot(version, int(time.time() * 1000), cluster)
        self._tell({"state": "connected", "version": version, "at_ms": self._snapshot.at_ms})

    def _tell(self, state: dict[str, object]) -> None:
        self._live.send(ServerEvent("snapshot", state), is_state=True)
