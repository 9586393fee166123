"""The parts of a registry that runs, and the order in which they start and stop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ottla.doors.door import Door
from ottla.events import EventLog
from ottla.model import Endpoint

if TYPE_CHECKING:
    import uvicorn

    from ottla.schemas.registry.http_server import RegistryServer
    from ottla.schemas.registry.leadership import Leadership
    from ottla.schemas.registry.schema_log import SchemaLog
    from ottla.schemas.registry.service import RegistryService

logger = EventLog("ottla.schemas.registry")

MAX_CONNECTIONS: Final = 500
HTTP_STOP_SECONDS: Final = 3


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """What a registry is made of."""

    options: Mapping[str, object]
    door: Door
    advertise: Endpoint | None
    topic: str
    group: str
    replication_factor: int | None
    session_timeout_ms: int


class RunningRegistry:
    """Everything that has to be stopped; used on its loop."""

    def __init__(self, settings: RegistrySettings, listening: socket.socket) -> None:
        self._settings = settings
        self._socket = listening
        host, port = listening.getsockname()[:2]
        self._door = settings.door.at(Endpoint(host, port))
        self._log: SchemaLog | None = None
        self._leadership: Leadership | None = None
        self._service: RegistryService | None = None
        self._app: RegistryServer | None = None
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def door(self) -> Door:
        """Where it listens."""
        return self._door

    @property
    def url(self) -> str:
        """Where clients of this machine reach it."""
        return self._door.at(_reachable(self._door.endpoint)).url

    @property
    def is_leader(self) -> bool:
        """Whether this registry writes."""
        return self._leadership is not None and self._leadership.is_leader

    async def start(self, timeout: float) -> None:
        """Read the topic, serve HTTP and take part in the election."""
        try:
            await self._start(timeout)
        except BaseException:
            await self.stop()
            raise

    async def _start(self, timeout: float) -> None:
        from ottla.schemas.registry.http_server import RegistryServer
        from ottla.schemas.registry.leadership import Leadership
        from ottla.schemas.registry.routes import Api, ClusterIdentity
        from ottla.schemas.registry.schema_log import SchemaLog
        from ottla.schemas.registry.service import RegistryService

        settings = self._settings
        self._log = SchemaLog(settings.options, settings.topic)
        await self._log.start(settings.replication_factor, timeout)
        cluster = await self._log.admin.describe_cluster()
        own_url = self._door.at(self._advertised()).url
        self._leadership = Leadership(
            settings.options,
            self._log,
            group=settings.group,
            own_url=own_url,
            session_timeout_ms=settings.session_timeout_ms,
        )
        self._service = RegistryService(self._log, self._leadership)
        identity = ClusterIdentity(cluster.cluster_id or "", settings.group)
        api = Api(self._service, identity)
        self._app = RegistryServer(
            api,
            self._log,
            self._leadership,
            login=self._door.login,
            trust=self._door.trust(),
        )
        await self._serve_http(self._app)
        self._leadership.start()
        self._door.warn_if_open()
        logger.info("registry_started", "schema registry at %(url)s", url=self.url)

    def _advertised(self) -> Endpoint:
        given = self._settings.advertise
        if given is not None:
            # Port 0 stands for the one that was picked.
            return Endpoint(given.host, given.port or self._door.endpoint.port)
        if self._door.endpoint.host in ("0.0.0.0", "::"):
            return Endpoint(socket.gethostname(), self._door.endpoint.port)
        return self._door.endpoint

    async def _serve_http(self, app: RegistryServer) -> None:
        import uvicorn

        from ottla.doors.asgi_server import server_config

        config = server_config(
            app, self._door, max_connections=MAX_CONNECTIONS, stop_seconds=HTTP_STOP_SECONDS
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
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            await asyncio.gather(self._serving, return_exceptions=True)
        self._socket.close()
        if self._leadership is not None:
            await self._leadership.close()
        if self._app is not None:
            await self._app.close()
        if self._service is not None:
            self._service.close()
        if self._log is not None:
            await self._log.close()


def _reachable(endpoint: Endpoint) -> Endpoint:
    # No client can connect to "every interface": clients of this machine use the loopback.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(endpoint.host, endpoint.host)
    return Endpoint(host, endpoint.port)
