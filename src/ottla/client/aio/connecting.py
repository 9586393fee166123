"""From an address to a connection that is ready for requests."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from ottla.client.aio.connection import Connection
from ottla.client.aio.versions import ask_versions
from ottla.config.client import ClientConfig
from ottla.errors import KafkaError
from ottla.model import Endpoint
from ottla.wire.messages.api_versions import ApiVersionsResponse


class Opener:
    """Opens connections as the configuration says."""

    def __init__(
        self,
        config: ClientConfig,
        on_lost: Callable[[Connection, KafkaError], None],
        on_versions: Callable[[ApiVersionsResponse], None],
    ) -> None:
        self._config = config
        self._on_lost = on_lost
        self._on_versions = on_versions

    async def open(self, endpoint: Endpoint, node_id: int, limit_ms: float) -> Connection:
        """Connect, and learn what the broker speaks."""
        connection = await asyncio.wait_for(self._dial(endpoint, node_id), limit_ms / 1000)
        try:
            self._on_versions(await ask_versions(connection))
        except BaseException:
            connection.close("it was given up")
            raise
        return connection

    async def _dial(self, endpoint: Endpoint, node_id: int) -> Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: Connection(
                endpoint,
                node_id,
                self._config.client_id,
                self._config.request_timeout_ms,
                self._on_lost,
            ),
            endpoint.host,
            endpoint.port,
        )
        self._tune(connection.tcp_socket)
        return connection

    def _tune(self, opened: socket.socket) -> None:
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # -1 leaves the operating system's own size.
        if self._config.send_buffer_bytes >= 0:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._config.send_buffer_bytes)
        if self._config.receive_buffer_bytes >= 0:
            size_bytes = self._config.receive_buffer_bytes
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size_bytes)
