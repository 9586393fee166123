"""Connections of clients in the broker's own process, or in a child of it, which need no listener and no TLS."""

from __future__ import annotations

import asyncio
import itertools
import socket
from typing import Final, NamedTuple

from ottla import in_process
from ottla.broker.network.connection import Connection, Host
from ottla.broker.network.listener import Listener
from ottla.config.listeners import ListenerConfig, ListenerSettings
from ottla.config.options import INT_MAX
from ottla.model import Endpoint

# Addresses have one.
PORT: Final = 1

_numbers = itertools.count(1)


class InProcessKind(NamedTuple):
    """Whose connections a listener in the process is for, and whether they may do what a node may.

    `host` is what the log names as their address, and `logs_in_at` the listener whose logins theirs are.
    """

    name: str
    host: str
    logs_in_at: str | None = None
    most_connections: int = INT_MAX


# Parts of the broker's own process.
IN_PROCESS: Final = InProcessKind("IN_PROCESS", "in-process")
MAX_CONSOLE_CONNECTIONS: Final = 500
# The console, which is a child process.
CONSOLE: Final = InProcessKind("CONSOLE", "console", most_connections=MAX_CONSOLE_CONNECTIONS)


def console_users(logs_in_at: str) -> InProcessKind:
    """Connections of the console that log in as any client has to."""
    return CONSOLE._replace(name="CONSOLE_USERS", logs_in_at=logs_in_at)


class InProcessConnection(Connection):
    """A client without a network; unless it has to log in, it may do what a node may."""

    def __init__(self, host: Host, listener: Listener, kind: InProcessKind) -> None:
        super().__init__(host, listener)
        self.caller.is_node = kind.logs_in_at is None
        self._kind = kind

    def _locate(self, transport: asyncio.BaseTransport) -> None:
        # Each connection has a peer of its own.
        self.caller.peer = Endpoint(self._kind.host, next(_numbers))
        self.caller.local = self.listener.endpoint


class InProcessListener:
    """Where clients of one kind connect to a node in this process."""

    def __init__(self, host: Host, kind: InProcessKind) -> None:
        self._for = host
        self._kind = kind
        self._loop = asyncio.get_running_loop()
        self._accepting: set[asyncio.Task[object]] = set()
        self.endpoint = Endpoint(in_process.serve(self._accept), PORT)
        protocol = "PLAINTEXT" if kind.logs_in_at is None else "SASL_PLAINTEXT"
        self.listener = Listener(
            ListenerSettings(kind.name, protocol, self.endpoint, None), ListenerConfig()
        )
        self.listener.most_connections = kind.most_connections
        if kind.logs_in_at is not None:
            self.listener.login_name = kind.logs_in_at

    def _accept(self, accepted: socket.socket) -> None:
        self._loop.call_soon_threadsafe(self.begin, accepted)

    def begin(self, accepted: socket.socket) -> None:
        """Serves a connection that was made elsewhere; on the loop."""
        connecting = self._loop.connect_accepted_socket(
            lambda: InProcessConnection(self._for, self.listener, self._kind), sock=accepted
        )
        task: asyncio.Task[object] = self._loop.create_task(connecting)
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)

    def close(self) -> None:
        in_process.withdraw(self.endpoint.host)
