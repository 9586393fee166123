"""The answering end of links: connections of other nodes, which may do what a node may."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from ottla.broker.network.connection import Connection, Host
from ottla.broker.network.listener import Listener
from ottla.broker.network.response_queue import (
    MAX_UNANSWERED,
    PendingResponse,
    ResponseQueue,
)
from ottla.broker.requests.api import Api
from ottla.broker.requests.large_request import Framed
from ottla.broker.requests.request import NoReply
from ottla.config.listeners import ListenerConfig, ListenerSettings
from ottla.model import Endpoint
from ottla.ports import Buffer

# The name of the listener that links have, which nothing listens for.
PEERS: Final = "PEERS"

_numbers = itertools.count(1)


class ResponsesWhenReady(ResponseQueue):
    """Responses leave as soon as they are ready, since a node matches them by their correlation ids.

    So a marker that waits for a slow disk holds back no other marker, and no verification.
    """

    __slots__ = ("_late", "_ready")

    def __init__(self) -> None:
        super().__init__()
        self._late: dict[PendingResponse, asyncio.Future[Any]] = {}
        self._ready: deque[PendingResponse] = deque()

    @property
    def is_empty(self) -> bool:
        return not self._late and not self._ready and not self.unsent_bytes

    @property
    def is_full(self) -> bool:
        return len(self._late) + len(self._ready) >= MAX_UNANSWERED

    @property
    def next_is_done(self) -> bool:
        """Whether the oldest is done, so that its callback is due and sends those that are ready with it."""
        return any(future.done() for future in itertools.islice(self._late.values(), 1))

    def reserve(
        self, version: int, correlation_id: int, future: asyncio.Future[Any]
    ) -> PendingResponse:
        pending = PendingResponse(version, correlation_id, future)
        self._late[pending] = future
        return pending

    def complete(self, pending: PendingResponse, response: Any) -> None:
        super().complete(pending, response)
        if self._late.pop(pending, None) is not None:
            self._ready.append(pending)

    def add_framed(self, parts: list[Buffer]) -> None:
        self._queue(parts)

    def release_next(self) -> bool:
        if not self._ready:
            return False
        self._queue(self._ready.popleft().framed())
        return True

    def cancel(self) -> None:
        late, self._late = self._late, {}
        self._ready.clear()
        for future in late.values():
            future.cancel()


class PeerConnection(Connection):
    """A link of another node, at the end where its requests are answered."""

    def __init__(
        self, host: Host, listener: Listener, sender_id: int, apis: Mapping[int, Api[Any, Any]]
    ) -> None:
        super().__init__(host, listener)
        self._apis = apis
        self._answers_plain = False  # responses leave as they come, and few requests are alike
        self._responses = ResponsesWhenReady()
        self._sender_id = sender_id
        self._at_work: asyncio.Future[Framed | NoReply] | None = None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when no request of it can take effect any more."""
        self.caller.is_node = True

    def _locate(self, transport: asyncio.BaseTransport) -> None:
        # Each connection has a peer of its own.
        self.caller.peer = Endpoint(f"node-{self._sender_id}", next(_numbers))
        self.caller.local = self.listener.endpoint

    def _run(
        self, coroutine: Coroutine[Any, Any, Framed | NoReply], version: int, correlation_id: int
    ) -> asyncio.Future[Framed | NoReply]:
        self._at_work = super()._run(coroutine, version, correlation_id)
        return self._at_work

    def connection_lost(self, exc: Exception | None) -> None:
        # This cancels what is at work.
        super().connection_lost(exc)
        if self._at_work is None or self._at_work.done():
            self._end_of_work()
        else:
            self._at_work.add_done_callback(self._end_of_work)

    def _end_of_work(self, _: object = None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


class _ArrivedSocket:
    """A connection that another process has handed over."""

    def __init__(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        self._socket = accepted

    def close(self) -> None:
        self._socket.close()

    async def begin(self, protocol: PeerConnection) -> bool:
        """Whether it is served from now on."""
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol, sock=self._socket
            )
        except OSError:
            self._socket.close()
            return False
        return True


class _ArrivedTransport:
    """A connection that was made before; it does not read yet."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def close(self) -> None:
        self._transport.abort()

    async def begin(self, protocol: PeerConnection) -> bool:
        """Whether it is served from now on."""
        if self._transport.is_closing():
            return False
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        self._transport.resume_reading()
        return True


class AcceptedLinks:
    """The links of other nodes to this one: one of each, the latest."""

    def __init__(self, host: Host, apis: Callable[[], Mapping[int, Api[Any, Any]]]) -> None:
        """`apis` are those that other nodes may ask."""
        self._host = host
        self._apis = apis
        self._loop = asyncio.get_running_loop()
        settings = ListenerSettings(PEERS, "PLAINTEXT", Endpoint("peers", 1), None)
        self.listener = Listener(settings, ListenerConfig())
        self._links: dict[int, PeerConnection] = {}
        # Sockets whose turn has not come.
        self._waiting: dict[int, deque[_ArrivedSocket | _ArrivedTransport]] = {}
        self._last_numbers: dict[int, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def are_used(self) -> bool:
        """Whether another node has connected ever."""
        return bool(self._links)

    def accept(self, sender_id: int, accepted: socket.socket) -> None:
        """Serves the connection of a node, instead of the one that the node had before.

        That one is ended first, with all that it has sent and that is not handled: requests of a node take effect in
        the order in which it has sent them.
        """
        self._accept(sender_id, _ArrivedSocket(accepted))

    def accept_transport(self, sender_id: int, transport: asyncio.Transport, number: int) -> None:
        """As `accept`, of a connection that proved whose it is, and that does not read yet.

        Numbers rise with the connections: one that was made before the sender's last one is closed, although its
        handshake has taken longer. What it brings was given up.
        """
        if number < self._last_numbers.get(sender_id, 0):
            transport.abort()
            return
        self._last_numbers[sender_id] = number
        self._accept(sender_id, _ArrivedTransport(transport))

    def _accept(self, sender_id: int, arrived: _ArrivedSocket | _ArrivedTransport) -> None:
        if self._is_closed:
            arrived.close()
            return
        waiting = self._waiting.get(sender_id)
        if waiting is not None:
            waiting.append(arrived)
            return
        self._waiting[sender_id] = deque([arrived])
        task = self._loop.create_task(self._replace(sender_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _replace(self, sender_id: int) -> None:
        waiting = self._waiting[sender_id]
        try:
            while waiting:
                arrived = waiting.popleft()
                earlier = self._links.pop(sender_id, None)
                if earlier is not None:
                    earlier.abort()
                    await earlier.ended
                if waiting:  # a later one has come
                    arrived.close()
                    continue
                await self._serve(sender_id, arrived)
        finally:
            for each in waiting:
                each.close()
            del self._waiting[sender_id]

    async def _serve(self, sender_id: int, arrived: _ArrivedSocket | _ArrivedTransport) -> None:
        made = PeerConnection(self._host, self.listener, sender_id, self._apis())
        if await arrived.begin(made):
            self._links[sender_id] = made

    def close(self) -> None:
        """Accepts no more; links that are served are ended by their server, as all its connections."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
