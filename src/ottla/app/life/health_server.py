"""The HTTP server of the health routes, on a thread of its own: it answers while the app's loop is blocked."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Final

from ottla.app.life.health_routes import PROBES, HealthSource, health_routes, missing_packages
from ottla.doors.asgi_login import LoginRequired
from ottla.doors.asgi_server import server_config
from ottla.doors.door import Door
from ottla.errors import OttlaError
from ottla.model import Endpoint

if TYPE_CHECKING:
    import uvicorn

_STOP_SECONDS: Final = 5.0
_MAX_CONNECTIONS: Final = 64


class HealthServer:
    """Serves the health of an app; `door` has the port that was chosen once it has started."""

    def __init__(self, door: Door, source: HealthSource) -> None:
        self.door = door
        self._source = source
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self._socket: socket.socket | None = None

    @property
    def endpoint(self) -> Endpoint:
        """Where it listens."""
        return self.door.endpoint

    def start(self) -> None:
        """Listen and serve; raises at once if the address is taken."""
        try:
            import uvicorn
        except ImportError as error:
            raise missing_packages("--health") from error
        routes = health_routes(self._source)
        host = self.door.endpoint.host
        self._socket = _listen(self.door.endpoint)
        self.door = self.door.at(Endpoint(host, int(self._socket.getsockname()[1])))
        self.door.warn_if_open()
        login = self.door.login
        config = server_config(
            routes if login is None else LoginRequired(routes, login, PROBES),
            self.door,
            max_connections=_MAX_CONNECTIONS,
            stop_seconds=1,
            loop="asyncio",
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="ottla-app-health", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        assert self._server is not None
        # Signals belong to the main thread, which drains the app; uvicorn takes them only there.
        asyncio.run(self._server.serve(sockets=[self._socket] if self._socket else None))

    def stop(self) -> None:
        """Close the connections and the port."""
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()


def _listen(endpoint: Endpoint) -> socket.socket:
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((endpoint.host, endpoint.port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise OttlaError(
            f"--health {endpoint}: cannot listen there, {error.strerror or error}: give another HOST:PORT"
        ) from error
    return listening
