"""The parts of a console that runs, and the order in which they start and stop."""

from __future__ import annotations

import asyncio
import logging
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ottla.console.settings import ConsoleSettings
from ottla.doors.door import Door
from ottla.doors.listening_socket import listen_at
from ottla.errors import ConfigError, OttlaError
from ottla.events import EventLog
from ottla.model import Endpoint

if TYPE_CHECKING:
    import uvicorn

    from ottla.console.console import Console

logger = EventLog("ottla.console")
# Libraries that log each request.
for _library in ("uvicorn", "httpx"):
    logging.getLogger(_library).setLevel(logging.WARNING)

MAX_CONNECTIONS: Final = 500
STOP_SECONDS: Final = 2


class RunningConsole:
    """Everything that has to be stopped; used on its loop."""

    def __init__(self, settings: ConsoleSettings, listening: socket.socket | None = None) -> None:
        """It listens at the door of its settings, or with a socket that is given."""
        self._settings = settings
        self._socket = listening
        self._console: Console | None = None
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self.door: Door = settings.door
        """Where it listens, with the port that was picked once it has started."""

    @property
    def console(self) -> Console:
        """The services, once it has started."""
        assert self._console is not None
        return self._console

    @property
    def url(self) -> str:
        """Where browsers of this machine find it."""
        return self.door.url

    async def start(self) -> None:
        """Listen and serve; the cluster need not answer yet."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        self._settings.validate()
        try:
            import uvicorn

            from ottla.console.api.all_routes import ALL_ROUTES
            from ottla.console.console import Console
            from ottla.console.http.application import application
        except ImportError as error:
            raise ConfigError(
                f"the console needs packages that are not installed ({error.name}): "
                "pip install 'ottla[console]'"
            ) from error
        from ottla.doors.asgi_server import server_config

        if self._socket is None:
            self._socket = _listen(self._settings.door.endpoint)
        port = int(self._socket.getsockname()[1])
        self.door = self.door.at(Endpoint(self.door.endpoint.host, port))
        console = self._console = Console(replace(self._settings, door=self.door))
        await console.start()
        config = server_config(
            application(console, ALL_ROUTES),
            self.door,
            max_connections=MAX_CONNECTIONS,
            stop_seconds=STOP_SECONDS,
        )
        self._server = uvicorn.Server(config)
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        while not self._server.started:
            if self._serving.done():
                await self._serving
                raise RuntimeError("the HTTP server did not start")
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        """Stop everything that was started."""
        if self._console is not None:
            # Streams that are open would keep the server from stopping.
            await self._console.end_streams()
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            await asyncio.gather(self._serving, return_exceptions=True)
        if self._socket is not None:
            self._socket.close()
        if self._console is not None:
            await self._console.stop()


def _listen(endpoint: Endpoint) -> socket.socket:
    try:
        return listen_at(endpoint)
    except OSError as error:
        raise OttlaError(
            f"cannot listen on {endpoint}: {error.strerror or error}: give another HOST:PORT, or port 0 for a free one"
        ) from error
