"""Where a broker listens for other brokers, and how it connects to them: TLS with the certificates that both know."""

from __future__ import annotations

import asyncio
import itertools
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, cast

from ottla.broker.network.listen_error import ListenError
from ottla.broker.network.listener import BACKLOG, bind_all, close_all
from ottla.broker.peer_links.accepted_links import AcceptedLinks
from ottla.broker.peer_links.inside_relays import INSIDE, relay, streams_of
from ottla.broker.peer_links.peer_certificates import (
    OwnCertificate,
    context_for_all,
    context_for_peer,
    node_of,
)
from ottla.events import EventLog
from ottla.in_process.servers import connect_here
from ottla.model import Endpoint

logger = EventLog(__name__)

HANDSHAKE_SECONDS: Final = 5.0
# Unauthenticated connections at the same time.
MAX_HANDSHAKES: Final = 256
FULL_SECONDS: Final = 0.1
MAX_CONTEXTS: Final = 256

_numbers = itertools.count(1)


class PeerAddress(NamedTuple):
    """Where a broker is reached by others, and what it shows them (PEM)."""

    endpoint: Endpoint
    certificate: str


class PeerListener:
    """The end where other brokers connect."""

    def __init__(self, own: OwnCertificate) -> None:
        self._own = own
        self._sockets: list[socket.socket] = []
        self._certificates: dict[int, str] = {}
        # Where clients of other brokers' processes are served here, by what their connections are for.
        self._inside: Mapping[str, Endpoint] = {}
        self._context = context_for_all(own, {})
        self._accepting: list[asyncio.Task[None]] = []
        self._handshakes: set[asyncio.Task[None]] = set()
        self._relays: set[asyncio.Task[None]] = set()

    async def bind(self, endpoint: Endpoint) -> Endpoint:
        """Takes the port; returns it where the system picked it."""
        try:
            self._sockets, bound = await bind_all(endpoint)
            for each in self._sockets:
                each.setblocking(False)
                each.listen(BACKLOG)
        except OSError as error:
            raise ListenError(endpoint, error, ", the port for other brokers") from error
        return bound

    def serve(self, links: AcceptedLinks, inside: Mapping[str, Endpoint]) -> None:
        """Accepts connections, each of which becomes the link of the broker that it proves to be.

        Those of its process's own clients go to the endpoints in this process, `inside`, by the kinds of clients.
        """
        self._inside = {INSIDE + kind: endpoint for kind, endpoint in inside.items()}
        self._context = context_for_all(self._own, self._certificates, tuple(self._inside))
        loop = asyncio.get_running_loop()
        self._accepting = [loop.create_task(self._accept(each, links)) for each in self._sockets]

    def trust(self, certificates: Mapping[int, str]) -> None:
        """The certificates of all other brokers, by node; links that exist stay."""
        if certificates != self._certificates:
            self._certificates = dict(certificates)
            self._context = context_for_all(self._own, self._certificates, tuple(self._inside))

    async def _accept(self, listening: socket.socket, links: AcceptedLinks) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError:
                await asyncio.sleep(FULL_SECONDS)  # no descriptors are left
                continue
            if len(self._handshakes) >= MAX_HANDSHAKES:
                accepted.close()
                continue
            accepted.setblocking(False)
            # In the order in which the connections were made, whose handshake ends first.
            task = loop.create_task(self._authenticate(accepted, address, next(_numbers), links))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _authenticate(
        self, accepted: socket.socket, address: object, number: int, links: AcceptedLinks
    ) -> None:
        """Does the handshake, and hands the connection over to the links."""
        try:
            secured, _ = await asyncio.get_running_loop().connect_accepted_socket(
                _Unread, accepted, ssl=self._context, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
        except (OSError, ssl.SSLError) as error:
            accepted.close()
            logger.warning(
                "peer_refused",
                "a connection from %(peer)s to the port for brokers was refused: %(reason)s",
                peer=str(address),
                reason=str(error) or type(error).__name__,
            )
            return
        except BaseException:
            accepted.close()
            raise
        tls = secured.get_extra_info("ssl_object")
        node_id = node_of(tls.getpeercert(binary_form=True), self._certificates)
        purpose = tls.selected_alpn_protocol()
        if node_id is None:  # it was forgotten meanwhile
            secured.abort()
        elif purpose is None:
            links.accept_transport(node_id, secured, number)
        else:
            await self._serve_inside(secured, self._inside[purpose])

    async def _serve_inside(self, secured: asyncio.Transport, endpoint: Endpoint) -> None:
        """Serves a client of another broker's process as one of this process."""
        task = asyncio.current_task()
        assert task is not None
        self._handshakes.discard(task)
        self._relays.add(task)
        try:
            here = connect_here(endpoint.host)
        except OSError:
            secured.abort()
            return
        try:
            await relay(await asyncio.open_connection(sock=here), streams_of(secured))
        finally:
            self._relays.discard(task)

    def close(self) -> None:
        """Accepts no more; links are ended by their server."""
        for task in (*self._accepting, *self._handshakes, *self._relays):
            task.cancel()
        close_all(self._sockets)


class _Unread(asyncio.Protocol):
    """The protocol of a connection until it is that of a link."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).pause_reading()


class PeerConnector:
    """Connects to other brokers."""

    def __init__(self, own: OwnCertificate, find: Callable[[int], PeerAddress | None]) -> None:
        """`find` has the address of a broker that is live."""
        self._own = own
        self._find = find
        self._contexts: dict[tuple[str, str | None], ssl.SSLContext] = {}

    async def connect(self, node_id: int) -> socket.socket:
        """A connected socket; OSError if there is none to be had."""
        found = self._live(node_id)
        loop = asyncio.get_running_loop()
        infos = await loop.getaddrinfo(*found.endpoint, type=socket.SOCK_STREAM)
        failure: OSError | None = None
        for family, kind, protocol, _, address in infos:
            made = socket.socket(family, kind, protocol)
            made.setblocking(False)
            try:
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await loop.sock_connect(made, address)
            except OSError as error:
                made.close()
                failure = error
                continue
            except BaseException:
                made.close()
                raise
            return made
        raise failure or OSError(f"{found.endpoint.host} has no address")

    def tls_of(self, node_id: int) -> ssl.SSLContext:
        """The context for a link to a broker, which has to show its certificate."""
        return self._context(self._live(node_id).certificate, None)

    def inside(self, node_id: int, kind: str) -> tuple[Endpoint, ssl.SSLContext]:
        """Where a broker is, and the context for a client of this process, of some kind."""
        found = self._live(node_id)
        return found.endpoint, self._context(found.certificate, INSIDE + kind)

    def _live(self, node_id: int) -> PeerAddress:
        found = self._find(node_id)
        if found is None:
            raise OSError("the broker is not live")
        return found

    def _context(self, certificate: str, purpose: str | None) -> ssl.SSLContext:
        context = self._contexts.get((certificate, purpose))
        if context is None:
            if len(self._contexts) >= MAX_CONTEXTS:
                self._contexts.clear()  # of brokers that were there before, most of them
            context = context_for_peer(self._own, certificate, purpose)
            self._contexts[certificate, purpose] = context
        return context
