"""Where the pages of workers are served: at the address of the metrics, by the supervisor."""

from __future__ import annotations

from ottla.broker.internals.event_ring import EventRing
from ottla.broker.metrics.listener import MetricsListener
from ottla.broker.metrics.monitoring import OPEN
from ottla.broker.workers.supervisor import Supervisor
from ottla.broker.workers.worker_pages import WorkerPages
from ottla.doors.door import Door


class ServedPages:
    """The pages and their address; used on the supervisor's loop."""

    def __init__(self, supervisor: Supervisor, door: Door) -> None:
        self._ring = EventRing()
        self._ring.attach(["ottla"])
        self._pages = WorkerPages(
            supervisor, self._ring, open_reason=OPEN if door.is_open else None
        )
        self._listener = MetricsListener(door, self._pages.find)

    @property
    def door(self) -> Door:
        """Its address, for Prometheus."""
        return self._listener.door

    async def start(self) -> None:
        """Listens; ListenError if the port is taken."""
        try:
            await self._listener.start()
        except BaseException:
            self._ring.detach()
            raise

    def serving(self) -> None:
        """All workers serve."""
        self._pages.serving()

    def stopping(self) -> None:
        """The workers accept no more requests."""
        self._pages.stopping()

    async def stop(self) -> None:
        """Closes everything."""
        await self._listener.stop()
        await self._pages.stop()
        self._ring.detach()
