"""What a broker tells those who watch it, by HTTP: on the metrics listener, and to the console without a network."""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from typing import TYPE_CHECKING

from ottla import in_process
from ottla.broker.internals.collection import BrokerParts, collect
from ottla.broker.internals.internals_page import InternalsPage
from ottla.broker.metrics.broker_metrics import page_of
from ottla.broker.metrics.listener import HttpConversations, MetricsListener
from ottla.broker.metrics.pages import BrokerPages, MetricsPage
from ottla.doors.door import Door

if TYPE_CHECKING:
    from ottla.broker.internals.event_ring import EventRing

OPEN = "anybody could read this here: give the broker --metrics-login FILE, or let the metrics listen on 127.0.0.1"


class Monitoring:
    """The pages of a broker, and where they are served."""

    def __init__(self, parts: BrokerParts, ring: EventRing, door: Door | None) -> None:
        tell = partial(collect, parts)
        metrics = MetricsPage(
            partial(page_of, parts.cluster, parts.servers, parts.loop_monitor, parts.labels)
        )
        open_reason = OPEN if door is not None and door.is_open else None
        self._pages = BrokerPages(metrics, InternalsPage(tell, ring, open_reason=open_reason))
        self.listener = None if door is None else MetricsListener(door, self._pages.find)
        self._for_console = HttpConversations(BrokerPages(metrics, InternalsPage(tell, ring)).find)
        self._console_host: str | None = None

    @property
    def door(self) -> Door | None:
        """The address of the metrics, for Prometheus."""
        return None if self.listener is None else self.listener.door

    async def start(self) -> None:
        """Listens, if that was asked for."""
        if self.listener is not None:
            await self.listener.start()

    def serve_console(self) -> str:
        """The host name at which a console in this process, or in a child of it, finds the internals."""
        if self._console_host is None:
            loop = asyncio.get_running_loop()

            def accept(connection: socket.socket) -> None:
                asyncio.run_coroutine_threadsafe(self._for_console.accept_socket(connection), loop)

            self._console_host = in_process.serve(accept)
        return self._console_host

    async def accept(self, connection: socket.socket) -> None:
        """Tells the pages over a connection that was made elsewhere, and whose other end may see everything."""
        await self._for_console.accept_socket(connection)

    def serving(self) -> None:
        """From now on the broker is healthy."""
        self._pages.serving()

    def stopping(self) -> None:
        """From now on the broker is not healthy: it accepts no more requests."""
        self._pages.stopping()

    async def stop(self) -> None:
        """Closes everything."""
        if self._console_host is not None:
            in_process.withdraw(self._console_host)
        await self._for_console.stop()
        if self.listener is not None:
            await self.listener.stop()
