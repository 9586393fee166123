"""A link to one peer: requests in flight with their deadlines, and connections that follow each other.

Invariant: no request takes effect at the peer after one that was sent later. So a marker that was given up and sent
again is never written after the answer to its repetition, when the producer of a transaction of version 1, whose
markers all look the same, may be in its next one. One connection keeps the order; a connection that replaces another
is served only when the peer has done with that one (`accepted_links.py`).
"""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ottla.broker.coordination.peers import UnreachableError
from ottla.broker.peer_links.peer_socket import PeerSocket
from ottla.events import EventLog
from ottla.ports import Buffer
from ottla.wire.framing import request_parts
from ottla.wire.response_decoders import CORRELATION_ID, Decode, decoder_of
from ottla.wire.types import MalformedMessageError

logger = EventLog(__name__)

CORRELATION_IDS: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class LinkLimits:
    """What a link waits for, and what it keeps."""

    # A request that has no answer by then has failed.
    answer_seconds: float = 10.0
    # Between the end of a connection that never served, or of an attempt, and the next attempt.
    first_pause_seconds: float = 0.01
    last_pause_seconds: float = 0.5
    # Requests without answers, those among them that were given up; and their bytes that the peer has not taken.
    most_in_flight: int = 4096
    most_unsent_bytes: int = 16 << 20


class Awaited(NamedTuple):
    """A request whose answer has not come."""

    answer: asyncio.Future[Any]
    decode: Decode
    sent: float


# Makes a connected socket to a node, or raises OSError.
OpenConnection = Callable[[int], Awaitable[socket.socket]]
# The TLS of a connection to a node, None for one that needs none; or raises OSError.
TlsOf = Callable[[int], ssl.SSLContext | None]


class PeerLink:
    """Requests to one peer; used on a running loop."""

    def __init__(
        self,
        sender_id: int,
        node_id: int,
        connect: OpenConnection,
        limits: LinkLimits | None = None,
        tls_of: TlsOf = lambda node_id: None,
    ) -> None:
        self._client_id = f"node-{sender_id}"
        self._node_id = node_id
        self._connect = connect
        self._tls_of = tls_of
        self._limits = limits or LinkLimits()
        self._loop = asyncio.get_running_loop()
        self._socket: PeerSocket | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._next_id = 0
        # By correlation id, in the order of sending.
        self._awaited: dict[int, Awaited] = {}
        # Given up, but the peer may still answer.
        self._given_up: set[int] = set()
        self._unsent: list[Buffer] = []
        self._unsent_bytes = 0
        self._writes_soon = False
        self._timer: asyncio.TimerHandle | None = None
        self._last_received = 0.0
        self._pause_seconds = 0.0
        self._next_attempt = 0.0
        # Whether the last thing that the log says is that the peer is not reached.
        self._is_told_lost = False
        self._is_closed = False

    def call(self, request: Any, version: int) -> asyncio.Future[Any] | UnreachableError:
        """The future of the response, or of an UnreachableError."""
        refusal = self._refusal()
        if refusal is not None:
            return UnreachableError(f"node {self._node_id} {refusal}")
        number = self._next_id
        self._next_id = (number + 1) % CORRELATION_IDS
        parts = request_parts(request, version, number, self._client_id)
        self._unsent += parts
        self._unsent_bytes += sum(map(len, parts))
        answer: asyncio.Future[Any] = self._loop.create_future()
        now = self._loop.time()
        self._awaited[number] = Awaited(answer, decoder_of(type(request), version), now)
        if self._timer is None:
            self._timer = self._loop.call_at(now + self._limits.answer_seconds, self._expire)
        if self._socket is not None:
            self._write_soon()
        elif self._connecting is None:
            self._connecting = self._loop.create_task(self._begin())
        return answer

    def _refusal(self) -> str | None:
        limits = self._limits
        if self._is_closed:
            return "is not asked any more"
        if self._socket is None and self._connecting is None:
            return "is not connected" if self._loop.time() < self._next_attempt else None
        if len(self._awaited) + len(self._given_up) >= limits.most_in_flight:
            return f"owes {limits.most_in_flight} answers"
        unsent = self._unsent_bytes + (0 if self._socket is None else self._socket.unsent_bytes)
        if unsent >= limits.most_unsent_bytes:
            return f"has not taken {unsent} bytes of requests"
        return None

    def try_again(self) -> None:
        """The peer may be there again: the next request does not wait for the end of a pause."""
        self._pause_seconds = self._next_attempt = 0.0

    def close(self) -> None:
        """Ends the link: requests in flight get an UnreachableError."""
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        if self._socket is not None:
            self._socket.close()
        self._fail_all("is not asked any more")

    # Connections.

    async def _begin(self) -> None:
        """Connects, and sends what has been waiting for that."""
        made = PeerSocket(self._answered, self._write_soon, self._lost)
        try:
            await self._connect_socket(made)
        except asyncio.CancelledError:
            made.close()
            raise
        # What a member says of itself may be no host name (UnicodeError), or no certificate (ssl.SSLError, ValueError).
        except Exception as error:
            made.close()
            reason = str(error) or type(error).__name__
            self._pause("no connection in time" if isinstance(error, TimeoutError) else reason)
            return
        finally:
            self._connecting = None
        self._socket = made
        self._last_received = 0.0
        if made.end_reason is not None:
            self._lost(made, made.end_reason)
        else:
            self._write_soon()

    async def _connect_socket(self, made: PeerSocket) -> None:
        async with asyncio.timeout(self._limits.answer_seconds):
            connected = await self._connect(self._node_id)
        try:
            tls = self._tls_of(self._node_id)
            # A peer is known by its certificate, not by a host name.
            name = None if tls is None else ""
            await self._loop.create_connection(
                lambda: made, sock=connected, ssl=tls, server_hostname=name
            )
        except BaseException:
            connected.close()
            raise

    def _lost(self, lost: PeerSocket, reason: str) -> None:
        if lost is self._socket:
            self._socket = None
            self._pause(reason)

    def _pause(self, reason: str) -> None:
        """All requests have failed; the next attempt is due at once only if the connection has served."""
        limits = self._limits
        now = self._loop.time()
        # Not all nodes at the same moment.
        self._next_attempt = now + self._pause_seconds * random.uniform(0.5, 1.0)
        self._pause_seconds = min(
            max(2 * self._pause_seconds, limits.first_pause_seconds), limits.last_pause_seconds
        )
        if not self._is_told_lost:
            self._is_told_lost = True
            logger.warning(
                "peer_lost",
                "node %(node)d is not reached: %(reason)s",
                node=self._node_id,
                reason=reason,
            )
        self._fail_all(f"is not reached: {reason}")

    def _fail_all(self, reason: str) -> None:
        awaited, self._awaited = self._awaited, {}
        self._given_up.clear()
        self._unsent, self._unsent_bytes = [], 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for each in awaited.values():
            self._fail(each, reason)

    def _fail(self, awaited: Awaited, reason: str) -> None:
        if not awaited.answer.done():
            awaited.answer.set_result(UnreachableError(f"node {self._node_id} {reason}"))

    # Requests and responses.

    def _write_soon(self) -> None:
        """Requests of one turn of the loop are written together."""
        if not self._writes_soon and self._unsent:
            self._writes_soon = True
            self._loop.call_soon(self._write)

    def _write(self) -> None:
        self._writes_soon = False
        if self._socket is None or self._socket.is_full or not self._unsent:
            return
        unsent, self._unsent, self._unsent_bytes = self._unsent, [], 0
        self._socket.write(unsent)

    def _answered(self, frame: memoryview) -> None:
        (number,) = CORRELATION_ID.unpack_from(frame)
        awaited = self._awaited.pop(number, None)
        self._last_received = self._loop.time()
        if awaited is None:
            if number not in self._given_up:
                raise ValueError(f"there is no request {number}")
            self._given_up.remove(number)
            return
        try:
            response = awaited.decode(frame)
        except (MalformedMessageError, ValueError, IndexError, struct.error) as error:
            self._fail(awaited, "has answered what makes no sense")
            raise ValueError(str(error)) from error
        self._pause_seconds = 0.0
        if self._is_told_lost:
            self._is_told_lost = False
            logger.info("peer_reached", "node %(node)d is reached again", node=self._node_id)
        if not awaited.answer.done():
            awaited.answer.set_result(response)

    def _expire(self) -> None:
        """Gives requests up that have waited too long, and the connection if it is silent."""
        self._timer = None
        now = self._loop.time()
        limit = self._limits.answer_seconds
        while self._awaited:
            number, oldest = next(iter(self._awaited.items()))
            if oldest.sent + limit > now:
                self._timer = self._loop.call_at(oldest.sent + limit, self._expire)
                return
            is_silent = self._last_received <= oldest.sent
            owes_too_much = 2 * len(self._given_up) >= self._limits.most_in_flight
            if self._socket is not None and (is_silent or owes_too_much):
                # The peer hangs, or the connection leads nowhere.
                useless, self._socket = self._socket, None
                useless.close()
                self._pause(f"no answer within {limit:g} s")
                return
            del self._awaited[number]
            self._given_up.add(number)
            self._fail(oldest, f"has not answered within {limit:g} s")
