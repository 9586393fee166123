"""A node's listeners, its connections, and its periodic work."""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import select
import socket
import struct
import termios
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from ottla.broker.cluster import Housekeeping
from ottla.broker.loop.loop_share import LoopShare
from ottla.broker.metrics.request_counts import ApiCounts, observed
from ottla.broker.network.connection import Connection, Traffic
from ottla.broker.network.handshakes import CHECK_MS, Handshakes
from ottla.broker.network.in_process import InProcessKind, InProcessListener
from ottla.broker.network.listen_error import ListenError
from ottla.broker.network.listener import Listener
from ottla.broker.network.receive_buffers import Buffers
from ottla.broker.network.refusal_log import RefusalLog
from ottla.broker.network.tls_layer import TlsLayer
from ottla.broker.network.unfinished_frames import UnfinishedFrames
from ottla.broker.node import Node
from ottla.broker.partitions.compactor import Compactor
from ottla.broker.partitions.retention import Retention
from ottla.broker.peer_links.accepted_links import AcceptedLinks
from ottla.broker.requests.api import Api
from ottla.broker.requests.apis import SERVED
from ottla.broker.security.connection_rates import MAX_HELD
from ottla.broker.security.logins import Logins
from ottla.broker.security.sasl_gate import SaslGate
from ottla.config.listeners import ListenerSettings, connections_per_address
from ottla.config.options import INT_MAX
from ottla.errors import ConfigError
from ottla.events import EventLog
from ottla.model import Endpoint
from ottla.ports import monotonic_ms

logger = EventLog(__name__)

RECEIVE_BUFFER_BYTES = 1 << 20
# For the bytes of TLS connections before they are decrypted.
ENCRYPTED_BUFFER_BYTES = 128 << 10
CERTIFICATE_CHECK_MS = 1000
DRAIN_SECONDS = 3.0
# After this time a stop logs which clients it waits for.
SLOW_STOP_SECONDS = 0.3
LOGGED_PEERS = 5
TRIM_SECONDS = 1.0
# The event of a client that has closed its side, where the system has it; polled for on connections that are not read.
DEPARTED: Final = getattr(select, "POLLRDHUP", 0)
DEPARTED_CHECK_MS: Final = 1000
# The turns of the loop between an accepted socket and its connection.
ACCEPT_TURNS = 8


class Server:
    """Listens for one node."""

    def __init__(
        self,
        node: Node,
        listeners: Iterable[ListenerSettings],
        inherited: Mapping[str, Sequence[socket.socket]] | None = None,
    ) -> None:
        """`inherited` are sockets that were bound before, by the names of listeners."""
        self.node = node
        self.apis: Mapping[int, Api[Any, Any]] = SERVED
        # What other nodes ask over links.
        self.apis_between_nodes: Mapping[int, Api[Any, Any]] = SERVED
        self.api_counts: list[ApiCounts] = []
        # Called before the requests of each receive are handled.
        self.before_requests: Callable[[], None] | None = None
        self.traffic = Traffic()
        self.receive_buffer = memoryview(bytearray(RECEIVE_BUFFER_BYTES))
        self.buffers = Buffers()
        self.unfinished = UnfinishedFrames(node.options.config.socket_request_max_bytes)
        self._connections: dict[Connection, None] = {}
        self._per_host: dict[str, int] = {}
        # Connections that are over the quota of their address, and are closed soon.
        self._held: dict[Connection, None] = {}
        # max.connections.per.ip.overrides, and what it says.
        self._overrides_text = ""
        self._overrides: dict[str, int] = {}
        self._listeners = [
            Listener(
                settings,
                node.options.config.of_listener(settings.name),
                (inherited or {}).get(settings.name, ()),
            )
            for settings in listeners
        ]
        self.logins = Logins(node, [listener.settings for listener in self._listeners])
        has_tls = any(listener.tls is not None for listener in self._listeners)
        self.encrypted_buffer = memoryview(bytearray(ENCRYPTED_BUFFER_BYTES if has_tls else 0))
        self.handshakes = Handshakes(self.now)
        self.refusals = RefusalLog(self.now)
        self._in_process: dict[str, InProcessListener] = {}
        self.links = AcceptedLinks(self, lambda: self.apis_between_nodes)
        self._silent: set[Connection] = set()  # not read at the last check
        self._trims_soon = False
        self._is_over = False
        self._tasks: list[asyncio.Task[None]] = []
        self.retention = Retention(node.cluster, node.options, node.partitions)
        self.compactor = Compactor(node)
        self._loop = asyncio.get_running_loop()

    @property
    def endpoint(self) -> Endpoint:
        """The address of the first listener."""
        return self._listeners[0].endpoint

    @property
    def open_listeners(self) -> list[Listener]:
        """The listeners that other machines can reach, and that ask clients for no proof of who they are."""
        return [each for each in self._listeners if not (each.authenticates or each.is_on_loopback)]

    @property
    def readable_logins(self) -> list[Listener]:
        """The listeners where clients log in over a network without encryption."""
        return [
            each
            for each in self._listeners
            if each.requires_login and each.tls is None and not each.is_on_loopback
        ]

    @property
    def share(self) -> LoopShare:
        return self.node.cluster.share

    @property
    def max_frame_bytes(self) -> int:
        return self.node.options.config.socket_request_max_bytes

    def now(self) -> float:
        return self._loop.time()

    def note_receive(self) -> float:
        if self.before_requests is not None:
            self.before_requests()
        return self._loop.time()

    def observe_requests(self) -> None:
        """Counts requests from now on; to be called before there are any."""
        self.apis, self.api_counts = observed(self.apis)

    async def bind(self) -> None:
        """Binds the ports; the node then knows those that the system picked."""
        try:
            for listener in self._listeners:
                await listener.bind(self._maker_of_connections(listener))
                self.node.endpoints[listener.name] = listener.endpoint
        except ListenError:
            await self._stop_listening()
            raise

    def serve_in_process(self, kind: InProcessKind) -> Endpoint:
        """Accepts connections of this process, too; returns the address for clients of this kind."""
        listener = self._in_process.get(kind.name)
        if listener is None:
            listener = self._in_process[kind.name] = InProcessListener(self, kind)
            self.node.advertised[kind.name] = listener.endpoint
        return listener.endpoint

    def accept_in_process(self, kind: InProcessKind, accepted: socket.socket) -> None:
        """Serves a connection of a client of this kind that another process has handed over."""
        if self._is_over or kind.name not in self._in_process:
            accepted.close()
        else:
            self._in_process[kind.name].begin(accepted)

    def _maker_of_connections(self, listener: Listener) -> Callable[[], asyncio.BaseProtocol]:
        tls = listener.tls
        if tls is None:
            return partial(Connection, self, listener)
        return lambda: TlsLayer(self, tls, Connection(self, listener))

    async def serve(self) -> None:
        """Accepts connections, and begins the periodic work."""
        try:
            await self.logins.start()
            for listener in self._listeners:
                await listener.serve()
        except (ListenError, ConfigError):
            self.logins.stop()
            await self._stop_listening()
            raise
        self.node.uptime.watch()
        # Interrupted work goes on: members have sessions, prepared transactions need markers.
        self._loop.call_soon(self.node.tick)
        node = self.node
        config = node.options.config
        self._every(config.log_retention_check_interval_ms, self.retention.apply)
        self._every(config.producer_id_expiration_check_interval_ms, self._expire_producers)
        self._every(min(config.log_flush_scheduler_interval_ms, 1000), self._tick_store)
        self._tasks.append(self._loop.create_task(node.patterns.run()))
        if config.log_cleaner_enable:
            self._tasks.append(self._loop.create_task(self.compactor.run()))
        if DEPARTED:
            self._every(DEPARTED_CHECK_MS, self._notice_departed)
        if any(listener.tls is not None for listener in self._listeners):
            self._every(CHECK_MS, self._expire_handshakes)
            self._every(CERTIFICATE_CHECK_MS, self._reload_certificates)
        if config.connections_max_idle_ms >= 0:
            self._every(max(10, min(config.connections_max_idle_ms // 4, 10_000)), self._close_idle)

    async def catch_up(self) -> None:
        """Does the periodic work that is due by a clock that was moved."""
        for connection in [*self._connections, *self._held]:
            connection.end_mute_in_time()
        await self._tick_store()
        await self._reload_certificates()
        await self._expire_producers()
        await self.retention.apply()
        if self.node.options.config.log_cleaner_enable:
            await self.compactor.clean_all()

    def _every(self, interval_ms: int, work: Callable[[], Awaitable[None]]) -> None:
        self._tasks.append(self._loop.create_task(self._repeat(interval_ms / 1000, work)))

    async def _repeat(self, interval_seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(interval_seconds)
            try:
                await work()
            except Exception as error:
                logger.bug("work_failed", "periodic work failed: this is a bug", error)

    async def _expire_handshakes(self) -> None:
        self.handshakes.expire()

    async def _reload_certificates(self) -> None:
        for listener in self._listeners:
            if listener.tls is not None:
                await listener.tls.reload_if_changed()

    async def _expire_producers(self) -> None:
        self.node.partitions.expire_producers()

    async def _tick_store(self) -> None:
        cluster = self.node.cluster
        self.node.tick()
        if cluster.is_first_here(self.node.node_id):  # nodes of one process have one store
            cluster.store.tick(monotonic_ms(cluster.clock))
        if cluster.keeps_house(self.node.node_id, Housekeeping.DELETIONS):
            await cluster.deletion.finish()

    async def _notice_departed(self) -> None:
        """Closes connections that are not read and whose client has gone.

        A request that waits, such as a fetch of very many partitions, keeps its connection from being read.
        """
        before, self._silent = self._silent, set()
        poll = select.poll()
        silent = {}
        for connection in self._connections:
            descriptor = connection.silent_socket
            if descriptor is None:
                continue
            self._silent.add(connection)
            if connection in before:
                silent[descriptor] = connection
                poll.register(descriptor, DEPARTED)
        if silent:
            for descriptor, _ in poll.poll(0):
                if not has_unread_bytes(descriptor):
                    silent[descriptor].abort()

    async def _close_idle(self) -> None:
        idle_ms = self.node.options.config.connections_max_idle_ms
        oldest = self.now() - idle_ms / 1000
        for connection in list(self._connections):
            waits = connection.waits_for_broker
            if connection.last_active < oldest and connection.is_idle and not waits:
                logger.info(
                    "connection_idle",
                    "connection from %(peer)s closed: idle for connections.max.idle.ms=%(idle_ms)d",
                    peer=str(connection.peer),
                    idle_ms=idle_ms,
                )
                connection.expire()

    def admit(self, connection: Connection) -> str | None:
        config = self.node.options.config
        host = connection.peer.host
        here = self._per_host.get(host, 0)
        if self._is_over:
            return "the node was killed"
        # Clients that take all connections do not keep nodes from each other.
        is_link = connection.listener is self.links.listener
        if len(self._connections) >= config.max_connections and not is_link:
            return f"max.connections={config.max_connections} is reached"
        most_here = self._most_connections_of(host)
        if connection.listener.requires_login and self.logins.refuses(host):
            return "too many logins from its address have failed"
        if here >= most_here and not is_link:
            return f"max.connections.per.ip={most_here} is reached"
        listener = connection.listener
        most_of_listener = min(
            config.scoped.get(listener.max_connections_name, INT_MAX), listener.most_connections
        )
        if listener.connections >= most_of_listener:
            return f"max.connections={most_of_listener} of listener {listener.name} is reached"
        listener.connections += 1
        self._connections[connection] = None
        self._per_host[host] = here + 1
        self.traffic.accepted += 1
        return None

    def _most_connections_of(self, host: str) -> int:
        config = self.node.options.config
        text = config.max_connections_per_ip_overrides
        if text != self._overrides_text:
            self._overrides_text, self._overrides = text, connections_per_address(text)
        return self._overrides.get(host, config.max_connections_per_ip)

    def hold(self, connection: Connection) -> bool:
        if len(self._held) >= MAX_HELD or self._is_over:
            return False
        self._held[connection] = None
        return True

    def gate_for(self, connection: Connection) -> SaslGate:
        listener = self.logins.by_listener[connection.listener.login_name]
        self.logins.pending.add(connection)
        return SaslGate(listener, self.apis, connection.caller)

    def login_over(self, connection: Connection) -> None:
        self.logins.pending.remove(connection)

    def forget(self, connection: Connection) -> None:
        self._held.pop(connection, None)
        if connection not in self._connections:
            return
        del self._connections[connection]
        self.logins.pending.remove(connection)
        connection.listener.connections -= 1
        self.node.sessions.end_of(connection.peer)
        self.node.telemetry.end_of(connection.peer)
        if not self._trims_soon:
            self._trims_soon = True
            self._loop.call_later(TRIM_SECONDS, self._trim)
        left = self._per_host[connection.peer.host] - 1
        if left:
            self._per_host[connection.peer.host] = left
        else:
            del self._per_host[connection.peer.host]

    def _trim(self) -> None:
        """Returns memory to the system.

        Answers that a slow reader did not take are tens of megabytes; when it has gone, glibc would keep them as holes
        between smaller blocks.
        """
        self._trims_soon = False
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def connections_by_listener(self) -> dict[str, int]:
        """How many connections are open, by listener; those of the process itself included."""
        inner = [each.listener for each in self._in_process.values()]
        if self.links.are_used:
            inner.append(self.links.listener)
        return {listener.name: listener.connections for listener in (*self._listeners, *inner)}

    async def _stop_listening(self) -> None:
        """Accepts no more connections; sockets that were accepted get theirs first.

        The standard loop would forget them: neither connected nor closed, their clients wait for ever.
        """
        for name, inner in self._in_process.items():
            inner.close()
            del self.node.advertised[name]
        self._in_process.clear()
        self.links.close()
        for listener in self._listeners:
            for listening in listener.sockets:
                self._loop.remove_reader(listening)
        for _ in range(ACCEPT_TURNS):
            await asyncio.sleep(0)
        for listener in self._listeners:
            listener.close()

    async def stop(self) -> None:
        """Finishes accepted requests, then closes: at most `DRAIN_SECONDS` for clients that do not read."""
        await self._stop_listening()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in list(self._held):
            connection.abort()
        for connection in list(self._connections):
            connection.drain()
        self.node.partitions.release_waiters()
        deadline = self.now() + DRAIN_SECONDS
        slow_log = self._loop.call_later(SLOW_STOP_SECONDS, self._log_slow_clients)
        while (
            any(not connection.is_idle for connection in self._connections)
            and self.now() < deadline
        ):
            await asyncio.sleep(0.01)
        for connection in list(self._connections):
            connection.close()
        while self._connections and self.now() < deadline:
            await asyncio.sleep(0.01)
        slow_log.cancel()
        for connection in list(self._connections):
            connection.abort()
        self.logins.stop()

    def _log_slow_clients(self) -> None:
        """Logs the clients for which a stop waits."""
        peers = [str(connection.peer) for connection in self._connections]
        logger.info(
            "stop_waits",
            "waiting %(seconds).0f s at most for %(clients)d client(s) to take their answers: %(peers)s",
            clients=len(peers),
            peers=", ".join(peers[:LOGGED_PEERS]) + (" …" if len(peers) > LOGGED_PEERS else ""),
            seconds=DRAIN_SECONDS,
        )

    def kill(self) -> None:
        """Cuts every connection and cancels all work; `stop_killed` does the rest."""
        self._is_over = True
        self.logins.stop()
        for task in self._tasks:
            task.cancel()
        for connection in [*self._connections, *self._held]:
            connection.abort()

    async def stop_killed(self) -> list[socket.socket]:
        """Closes the sockets of a killed server; returns sockets that reserve its port."""
        addresses = [
            (listening.family, listening.getsockname())
            for listener in self._listeners
            for listening in listener.sockets
        ]
        await self._stop_listening()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for listener in self._listeners:
            with suppress(TimeoutError):
                await asyncio.wait_for(listener.wait_closed(), DRAIN_SECONDS)
        return [reserve_port(*address) for address in addresses]


def has_unread_bytes(descriptor: int) -> bool:
    """Whether a socket has received bytes that were not read."""
    waiting = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
    return struct.unpack("i", waiting) != (0,)


def reserve_port(family: int, address: tuple[str, int]) -> socket.socket:
    """Binds a socket that does not listen: clients are refused, as by a machine without the broker."""
    reserved = socket.socket(family, socket.SOCK_STREAM)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        reserved.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    with suppress(OSError):
        reserved.bind(address[:2])
    return reserved
