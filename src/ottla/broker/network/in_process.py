"""Connections of clients in the broker's own process, which need no listener, no TLS and no login."""

from __future__ import annotations

import asyncio
import itertools
import socket
from typing import Final

from ottla import in_process
from ottla.broker.network.connection import Connection, Host
from ottla.broker.network.listener import Listener
from ottla.config.listeners import ListenerConfig, ListenerSettings
from ottla.model import Endpoint

IN_PROCESS: Final = "IN_PROCESS"
# Addresses have one.
PORT: Final = 1

_numbers = itertools.count(1)


class InProcessConnection(Connection):
    """A part of the process that is a client, too: it may do what a node may."""

    def __init__(self, host: Host, listener: Listener) -> None:
        super().__init__(host, listener)
        self.caller.is_node = True

    def _locate(self, transport: asyncio.BaseTransport) -> None:
        # Each connection has a peer of its own.
        self.caller.peer = Endpoint("in-process", next(_numbers))
        self.caller.local = self.listener.endpoint


class InProcessListener:
    """Where the clients of a node in its own process connect to."""

    def __init__(self, host: Host) -> None:
        self._for = host
        self._loop = asyncio.get_running_loop()
        self._accepting: set[asyncio.Task[object]] = set()
        self.endpoint = Endpoint(in_process.serve(self._accept), PORT)
        self._listener = Listener(
            ListenerSettings(IN_PROCESS, "PLAINTEXT", self.endpoint, None), ListenerConfig()
        )

    def _accept(self, accepted: socket.socket) -> None:
        self._loop.call_soon_threadsafe(self._begin, accepted)

    def _begin(self, accepted: socket.socket) -> None:
        connecting = self._loop.connect_accepted_socket(
            lambda: InProcessConnection(self._for, self._listener), sock=accepted
        )
        task: asyncio.Task[object] = self._loop.create_task(connecting)
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)

    def close(self) -> None:
        in_process.withdraw(self.endpoint.host)
