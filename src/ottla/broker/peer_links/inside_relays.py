"""The way of this process's own clients (registry, console) to brokers of other processes.

Such clients have no login: they connect to the broker of their own process without a listener. For another broker they
get an address in this process too. What comes there goes over TLS between the two brokers, which know each other, and
at the other end into the listener that the other broker has for its own process.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from ottla import in_process
from ottla.broker.network.in_process import PORT
from ottla.model import Endpoint

# What a connection is for, told in the handshake (ALPN): nothing for a link, else this and the kind of the clients.
INSIDE: Final = "ottla-inside/"
PIECE_BYTES: Final = 64 << 10
CONNECT_SECONDS: Final = 10.0

# Where a broker of another process is, and the TLS for one kind of connection to it; OSError if it is not live.
FindPeer = Callable[[int, str], tuple[Endpoint, ssl.SSLContext]]


class InsideRelays:
    """The addresses, in this process, of brokers of other processes."""

    def __init__(self, find: FindPeer) -> None:
        self._find = find
        self._loop = asyncio.get_running_loop()
        self._endpoints: dict[tuple[int, str], Endpoint] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def endpoint(self, node_id: int, kind: str) -> Endpoint:
        """Where clients of a kind find a broker."""
        found = self._endpoints.get((node_id, kind))
        if found is None:
            host = in_process.serve(partial(self._accept, node_id, kind))
            found = self._endpoints[node_id, kind] = Endpoint(host, PORT)
        return found

    def _accept(self, node_id: int, kind: str, accepted: socket.socket) -> None:
        """On the thread of the client."""
        self._loop.call_soon_threadsafe(self._begin, node_id, kind, accepted)

    def _begin(self, node_id: int, kind: str, accepted: socket.socket) -> None:
        task = self._loop.create_task(self._relay(node_id, kind, accepted))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _relay(self, node_id: int, kind: str, accepted: socket.socket) -> None:
        try:
            endpoint, context = self._find(node_id, kind)
            async with asyncio.timeout(CONNECT_SECONDS):
                there = await asyncio.open_connection(*endpoint, ssl=context, server_hostname="")
        except (OSError, ssl.SSLError):
            accepted.close()
            return
        await relay(await asyncio.open_connection(sock=accepted), there)

    def close(self) -> None:
        """Ends all connections, and accepts no more."""
        for endpoint in self._endpoints.values():
            in_process.withdraw(endpoint.host)
        for task in self._tasks:
            task.cancel()


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def relay(one: Streams, other: Streams) -> None:
    """Carries bytes both ways until either end has closed."""
    ways = [
        asyncio.ensure_future(_carry(one[0], other[1])),
        asyncio.ensure_future(_carry(other[0], one[1])),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        for _, writer in (one, other):
            writer.close()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, ssl.SSLError):
        while piece := await reader.read(PIECE_BYTES):
            writer.write(piece)
            await writer.drain()


def streams_of(transport: asyncio.Transport) -> Streams:
    """Streams over a connection that does not read yet."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    transport.resume_reading()
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)
