"""What `ottla serve --workers` has beside its workers: pages of metrics, a schema registry, the console.

They are clients of the workers that need none of their listeners. The console is a process of its own, and the registry
has a thread of the supervisor's process.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ottla import in_process
from ottla.broker.console.broker_console import user_login_of
from ottla.broker.console.console_servers import ConsoleServers
from ottla.broker.console.supervisor import ConsoleSupervisor
from ottla.broker.internals.event_ring import EventRing
from ottla.broker.metrics.listener import HttpConversations, MetricsListener
from ottla.broker.metrics.monitoring import OPEN
from ottla.broker.network.in_process import CONSOLE, IN_PROCESS, console_users
from ottla.broker.network.listen_error import ListenError
from ottla.broker.runtime import BrokerSettings
from ottla.broker.workers.handed_servers import HandedServers
from ottla.broker.workers.supervisor import Supervisor
from ottla.broker.workers.worker_pages import WorkerPages
from ottla.cli.errors import CommandError
from ottla.cli.serve import LISTEN_ADVICE
from ottla.doors.door import Door
from ottla.errors import ConfigError
from ottla.events import EventLog

if TYPE_CHECKING:
    from ottla.schemas.registry.embedded import SchemaRegistry

logger = EventLog("ottla.serve")


class WorkerNeighbours:
    """All of them; used on the supervisor's loop."""

    def __init__(self, settings: BrokerSettings, registry: Door | None, worker_count: int) -> None:
        self._settings = settings
        self._registry_door = registry
        first = settings.config.node_id
        login = self._login = user_login_of(settings.config)
        kinds = [IN_PROCESS.name, CONSOLE.name]
        if login is not None:
            kinds.append(console_users(login.listener).name)
        self.servers = HandedServers(range(first, first + worker_count), kinds)
        self._ring: EventRing | None = None
        self._pages: WorkerPages | None = None
        self._listener: MetricsListener | None = None
        self._for_console: HttpConversations | None = None
        self._internals = ""
        self._supervisor: Supervisor
        self._console: ConsoleSupervisor | None = None
        self._registry: SchemaRegistry | None = None

    @property
    def metrics_door(self) -> Door | None:
        """The address of the metrics, for Prometheus."""
        return None if self._listener is None else self._listener.door

    @property
    def console_door(self) -> Door | None:
        """Where browsers find the console."""
        return None if self._console is None else self._console.door

    @property
    def registry_door(self) -> Door | None:
        return None if self._registry is None else self._registry.door

    async def begin(self, supervisor: Supervisor) -> None:
        """Before the workers are started: health says that they are not there yet."""
        self._supervisor = supervisor
        self.servers.hand_over = supervisor.hand_over
        if not self._settings.is_watched:
            return
        ring = self._ring = EventRing()
        ring.attach(["ottla"])
        door = self._settings.metrics
        reason = OPEN if door is not None and door.is_open else None
        self._pages = WorkerPages(supervisor, ring)
        self._for_console = HttpConversations(self._pages.find)
        if door is not None:
            self._listener = MetricsListener(door, self._pages.for_strangers(reason))
            with _listening("--metrics"):
                await self._listener.start()

    async def serve(self) -> None:
        """When the workers serve."""
        if self._pages is not None:
            self._pages.serving()
        if self._listener is not None:
            logger.info(
                "metrics_served", "metrics at %(url)s", url=f"{self._listener.door.url}/metrics"
            )
        access = None
        door = self._registry_door
        if door is not None:
            key = None
            if self._settings.console is not None:
                from ottla.cli.console.registry_access import with_key

                door, key = with_key(door)
            await self._start_registry(door)
            assert self._registry is not None
            access = None if key is None else key.access(self._registry)
        if self._settings.console is not None:
            self._console = ConsoleSupervisor(self._settings.console, self._console_servers, access)
            with _listening("--console"):
                await self._console.start()
            print(f"console at {self._console.door.url}", flush=True)

    async def _start_registry(self, door: Door) -> None:
        from ottla.schemas.registry.embedded import SchemaRegistry

        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        servers = self.servers.bootstrap_servers(IN_PROCESS.name)
        registry = SchemaRegistry(bootstrap_servers=servers, listen=door)
        starting = asyncio.ensure_future(asyncio.to_thread(registry.start))
        try:
            await asyncio.shield(starting)
        except ConfigError as error:
            advice = "--registry HOST:PORT chooses another address"
            raise CommandError(str(error), advice) from error
        except asyncio.CancelledError:
            # A thread cannot be cancelled: the stop waits for it, and then stops the registry.
            await asyncio.wait([starting])
            if starting.exception() is None:
                self._registry = registry
            raise
        self._registry = registry

    def _console_servers(self) -> ConsoleServers:
        login, config = self._login, self._settings.config
        return ConsoleServers(
            brokers=self.servers.bootstrap_servers(CONSOLE.name),
            internals=self._serve_internals(),
            brokers_of_users=None
            if login is None
            else self.servers.bootstrap_servers(console_users(login.listener).name),
            mechanisms=() if login is None else login.mechanisms,
            addresses=dict(
                zip(
                    self._supervisor.members,
                    self._supervisor.addresses_for_clients(config.all_listeners[0]),
                    strict=True,
                )
            ),
        )

    def _serve_internals(self) -> str:
        """The host name at which the console finds the internals."""
        assert self._for_console is not None
        if not self._internals:
            loop, conversations = asyncio.get_running_loop(), self._for_console

            def accept(connection: socket.socket) -> None:
                asyncio.run_coroutine_threadsafe(conversations.accept_socket(connection), loop)

            self._internals = in_process.serve(accept)
        return self._internals

    async def end(self) -> None:
        """Before the workers are stopped: their clients say goodbye."""
        if self._pages is not None:
            self._pages.stopping()
        if self._console is not None:
            await self._console.stop()
        if self._registry is not None:
            await asyncio.to_thread(self._registry.stop)

    async def close(self) -> None:
        """When the workers have stopped."""
        self.servers.close()
        if self._internals:
            in_process.withdraw(self._internals)
        if self._listener is not None:
            await self._listener.stop()
        if self._for_console is not None:
            await self._for_console.stop()
        if self._pages is not None:
            await self._pages.stop()
        if self._ring is not None:
            self._ring.detach()


@contextmanager
def _listening(flag: str) -> Iterator[None]:
    try:
        yield
    except ListenError as error:
        advice = LISTEN_ADVICE.get(error.errno or 0, "")
        raise CommandError(str(error), advice.format(flag=flag)) from error
