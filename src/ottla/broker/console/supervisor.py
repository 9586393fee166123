"""Starts the console of a broker, and starts it again when it ends."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ottla.broker.console.broker_console import BrokerConsole
from ottla.broker.console.child_settings import RegistryAccess, child_settings
from ottla.broker.console.console_process import FAILED, READY, REFUSED, ConsoleProcess
from ottla.broker.console.console_servers import ConsoleServers
from ottla.broker.network.listen_error import ListenError
from ottla.doors.door import Door
from ottla.doors.listening_socket import listen_at
from ottla.errors import ConfigError, OttlaError
from ottla.events import EventLog
from ottla.in_process.child_channel import ChildChannel
from ottla.model import Endpoint

logger = EventLog(__name__)

FIRST_PAUSE_SECONDS: Final = 1.0
MAX_PAUSE_SECONDS: Final = 60.0
# A console that ran for so long was well.
STEADY_SECONDS: Final = 60.0


class ConsoleSupervisor:
    """One console, whichever process serves it. The broker keeps the socket, so that its port stays the same."""

    def __init__(
        self,
        console: BrokerConsole,
        servers: Callable[[], ConsoleServers],
        registry: RegistryAccess | None,
    ) -> None:
        """`servers` are asked for at each start, since nodes come and go."""
        self._console = console
        self._servers = servers
        self._registry = registry
        self._listening: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None
        self._process: ConsoleProcess | None = None
        self._channel: ChildChannel | None = None
        self._first: asyncio.Future[None] | None = None
        self._failures: list[OttlaError] = []
        """What the process says of why it cannot serve."""

    @property
    def door(self) -> Door:
        """Where browsers find it."""
        return self._console.door

    @property
    def pid(self) -> int | None:
        """The process that serves it now."""
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Return when the console can be opened; an error if its first process cannot serve it."""
        endpoint = self.door.endpoint
        try:
            self._listening = listen_at(endpoint)
        except OSError as error:
            raise ListenError(endpoint, error) from error
        port = int(self._listening.getsockname()[1])
        self._console = replace(self._console, door=self.door.at(Endpoint(endpoint.host, port)))
        self._first = asyncio.get_running_loop().create_future()
        self._task = asyncio.get_running_loop().create_task(self._run(self._listening))
        try:
            await self._first
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End the console in order."""
        self._end_task()
        if self._process is not None:
            await self._process.stop()
        self._close()

    def kill(self) -> None:
        """End the console at once."""
        self._end_task()
        if self._process is not None:
            self._process.kill()
        self._close()

    def servers_changed(self) -> None:
        """A node has been started: the console may reach it, too."""
        if self._channel is not None:
            self._channel.allow(self._servers().hosts)

    def _end_task(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _close(self) -> None:
        if self._channel is not None:
            self._channel.close()
        if self._listening is not None:
            self._listening.close()

    async def _run(self, listening: socket.socket) -> None:
        assert self._first is not None
        pause = FIRST_PAUSE_SECONDS
        while True:
            began = time.monotonic()
            try:
                reason = await self._run_once(listening)
            except OSError as error:  # too many open files
                reason = str(error)
            if not self._first.done():
                unknown = OttlaError(f"the console did not start: {reason}")
                self._first.set_exception(next(iter(self._failures), unknown))
                return
            if time.monotonic() - began >= STEADY_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            logger.warning(
                "console_ended",
                "the console has ended, and is started again in %(seconds).0f s: %(reason)s",
                seconds=pause,
                reason=reason,
            )
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)

    async def _run_once(self, listening: socket.socket) -> str:
        """One process, until it ends; returns why it did."""
        self._failures.clear()
        servers = self._servers()
        if not servers.brokers:
            return "no node runs"
        process: ConsoleProcess | None = None
        problems: list[str] = []

        def channel_ended(reason: str | None) -> None:
            if reason is not None:
                problems.append(f"it was killed: {reason}")
            if process is not None:
                process.kill()

        channel = self._channel = ChildChannel(servers.hosts, channel_ended)
        try:
            settings = child_settings(
                self._console,
                servers,
                self._registry,
                channel=channel.childs_end.fileno(),
                listening=listening.fileno(),
            )
            process = self._process = ConsoleProcess(settings, self._take)
            process.start()
            await asyncio.shield(process.has_started)
            # Only the child has its end now: each side sees the end of the other.
            channel.childs_end.close()
            reason = await asyncio.shield(process.ended)
        finally:
            if not self._is_stopping:
                channel.close()
        return next(iter([*problems, *map(str, self._failures)]), reason)

    @property
    def _is_stopping(self) -> bool:
        # The channel lasts until the process has ended: its clients say goodbye.
        return self._task is None

    def _take(self, kind: str, text: str) -> None:
        assert self._first is not None
        if kind == READY:
            logger.info("console_started", "console at %(url)s", url=self.door.url)
            if not self._first.done():
                self._first.set_result(None)
        elif kind == REFUSED:
            self._failures.append(ConfigError(text))
        elif kind == FAILED:
            self._failures.append(OttlaError(text))
