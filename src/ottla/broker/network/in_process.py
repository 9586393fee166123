"""Connections of clients in the broker's own process, which need no listener, no TLS and no login."""

from __future__ import annotations

import asyncio
import itertools
import socket
from typing import TYPE_CHECKING, Final

from ottla import in_process
from ottla.broker.network.connection import Connection
from ottla.broker.network.listener import Listener
from ottla.config.listeners import ListenerConfig, ListenerSettings
from ottla.model import Endpoint

if TYPE_CHECKING:
    from ottla.broker.network.server import Server

LISTENER: Final = "IN_PROCESS"
# Addresses have one.
PORT: Final = 1

_numbers = itertools.count(1)


class InProcessConnection(Connection):
    """A part of the process that is a client, too: it may do what a node may."""

    def __init__(self, server: Server, listener: Listener) -> None:
        super().__init__(server, listener)
        self.caller.is_node = True

    def _locate(self, transport: asyncio.BaseTransport) -> None:
        # Each connection has a peer of its own.
        self.caller.peer = Endpoint("in-process", next(_numbers))
        self.caller.local = self.listener.endpoint


class InProcessListener:
    """Where the clients of a node in its own process connect to."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._accepting: set[asyncio.Task[object]] = set()
        self._host = in_process.serve(self._accept)
        self.endpoint = Endpoint(self._host, PORT)
        self._listener = Listener(
            ListenerSettings(LISTENER, "PLAINTEXT", self.endpoint, None), ListenerConfig()
        )
        server.node.advertised[LISTENER] = self.endpoint

    def _accept(self, accepted: socket.socket) -> None:
        self._loop.call_soon_threadsafe(self._begin, accepted)

    def _begin(self, accepted: socket.socket) -> None:
        connecting = self._loop.connect_accepted_socket(
            lambda: InProcessConnection(self._server, self._listener), sock=accepted
        )
        task: asyncio.Task[object] = self._loop.create_task(connecting)
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)

    def close(self) -> None:
        in_process.withdraw(self._host)
        del self._server.node.advertised[LISTENER]
