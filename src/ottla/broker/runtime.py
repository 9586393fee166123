"""Starting and stopping a broker on a running event loop, for `ottla serve` and `ottla.Broker`."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ottla.broker.clock import SystemClock, SystemIds
from ottla.broker.cluster import Cluster
from ottla.broker.console.broker_console import BrokerConsole, user_login_of
from ottla.broker.console.console_servers import ConsoleServers
from ottla.broker.loop.garbage import FullCollections
from ottla.broker.loop.loop_monitor import LoopMonitor
from ottla.broker.metrics import request_counts
from ottla.broker.network.in_process import CONSOLE, IN_PROCESS, InProcessKind, console_users
from ottla.broker.network.listen_error import ListenError
from ottla.broker.network.server import Server
from ottla.broker.node import Node
from ottla.broker.requests.api import Api
from ottla.broker.requests.apis import SERVED
from ottla.broker.requests.local_peers import LocalPeers
from ottla.broker.security.first_users import ensure_users
from ottla.broker.topics import adopt_topics
from ottla.config.broker import BrokerConfig
from ottla.config.listeners import MAX_PORT, ListenerSettings, following_ports
from ottla.config.tls import TlsConfig
from ottla.doors.door import Door
from ottla.errors import ConfigError, IllegalStateError, OttlaError
from ottla.events import EventLog
from ottla.model import Endpoint
from ottla.ports import Clock, LogStore
from ottla.ports.futures import settled
from ottla.storage.shared.storage_urls import StorageUrls

if TYPE_CHECKING:
    from ottla.broker.console.child_settings import RegistryAccess
    from ottla.broker.console.supervisor import ConsoleSupervisor
    from ottla.broker.internals.event_ring import EventRing
    from ottla.broker.metrics.monitoring import Monitoring


logger = EventLog(__name__)


def certificate_of(config: BrokerConfig) -> TlsConfig | None:
    """The TLS of the first listener that has some, which is also that of other doors."""
    for listener in config.all_listeners:
        if listener.uses_tls:
            return config.of_listener(listener.name)
    return None


@dataclass(frozen=True)
class BrokerSettings:
    """The settings of a broker; without `data_dir` and `storage` all data is in memory, `metrics` is for Prometheus.

    Several nodes have the ids `node.id`, `node.id` + 1 and so on, and ports that follow each other likewise, unless
    the port is 0.
    """

    config: BrokerConfig
    data_dir: str | None = None
    # Shared with brokers of other processes.
    storage: StorageUrls | None = None
    nodes: int = 1
    metrics: Door | None = None
    # It is started by `RunningBroker.start_console`, and asks what Kafka's protocol does not tell.
    console: BrokerConsole | None = None
    # No other code runs on its loop, so that every blocking of the loop is logged.
    has_own_process: bool = False
    # A worker: its supervisor serves its pages, that of the metrics among them if it has one.
    tells_pages: bool = False
    has_metrics_page: bool = False
    # Passwords by user's name: their credentials are set if they do not fit.
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    # Where nodes have to listen that listened before, by the names of listeners, whatever `listeners` says.
    addresses: Mapping[int, Mapping[str, Endpoint]] = field(default_factory=dict)

    @property
    def is_watched(self) -> bool:
        """Whether anything will ask for metrics or internals, so that requests and events are counted and kept."""
        return self.metrics is not None or self.console is not None or self.tells_pages

    @property
    def node_ids(self) -> range:
        return range(self.config.node_id, self.config.node_id + self.nodes)

    def config_of(self, node_id: int) -> BrokerConfig:
        """The options of a node: those of the first, with the id and the ports that are its own."""
        number = node_id - self.config.node_id
        if number == 0:
            return self.config
        advertised = self.config.advertised_listeners
        return replace(
            self.config,
            node_id=node_id,
            listeners=following_ports(self.config.listeners, number),
            advertised_listeners=following_ports(advertised, number) if advertised else None,
        )

    def listeners_of(self, node_id: int) -> list[ListenerSettings]:
        """The listeners of a node; one that listened before has the same ports again."""
        known = self.addresses.get(node_id, {})
        return [
            each._replace(listen=known.get(each.name, each.listen))
            for each in self.config_of(node_id).all_listeners
        ]

    def validate(self) -> None:
        """Checks rules that involve several settings."""
        if type(self.nodes) is not int or self.nodes < 1:
            raise ConfigError(f"nodes={self.nodes!r}: give a number of nodes, at least 1")
        for listener in self.config.all_listeners:
            for first in filter(None, (listener.listen, listener.advertised)):
                if first.port and first.port + self.nodes - 1 > MAX_PORT:
                    raise ConfigError(
                        f"{listener.name}://{first} with nodes={self.nodes} ends above port "
                        f"{MAX_PORT}: give a lower port, or 0 for any"
                    )
        self._check_ports_differ()
        self._check_peer_options()
        if self.console is not None:
            self.console.validate(self.config)

    def _check_peer_options(self) -> None:
        for name in ("broker.rack", "ottla.peer.listener", "ottla.peer.advertised.listener"):
            if self.storage is None and name in self.config.given:
                raise ConfigError(
                    f"{name} has no effect without --storage: only brokers that share a storage have others beside them"
                )

    def _check_ports_differ(self) -> None:
        """Refuses listeners whose following ports meet."""
        ports: dict[int, str] = {}
        for node_id in self.node_ids:
            for listener in self.config_of(node_id).all_listeners:
                port = listener.listen.port
                if port and ports.setdefault(port, listener.name) != listener.name:
                    raise ConfigError(
                        f"with nodes={self.nodes}, port {port} would be of listener {ports[port]} "
                        f"and of {listener.name}: give ports that are further apart, or 0 for any"
                    )


@dataclass(frozen=True)
class Instruments:
    """What a test puts into a broker: a clock that it moves, and something around its handlers, storage and peers."""

    clock: Clock = field(default_factory=SystemClock)
    intercept: Callable[[Mapping[int, Api[Any, Any]]], Mapping[int, Api[Any, Any]]] | None = None
    # The same for the requests that nodes send each other, and themselves.
    intercept_between_nodes: (
        Callable[[Mapping[int, Api[Any, Any]]], Mapping[int, Api[Any, Any]]] | None
    ) = None
    wrap_store: Callable[[LogStore], LogStore] | None = None
    # Whether requests of a node do not reach another.
    are_nodes_separate: Callable[[int, int], bool] = lambda _sender_id, _node_id: False


def open_store(settings: BrokerSettings, clock: Clock) -> LogStore:
    """The storage engine that the settings ask for."""
    config = settings.config
    if settings.data_dir is None:
        from ottla.storage.memory import MemoryStore

        return MemoryStore(clock=clock, max_bytes=config.ottla_ephemeral_max_bytes)
    from ottla.storage.local import LocalStoreOptions, open_local_store

    options = LocalStoreOptions(
        node_id=config.node_id,
        checkpoint_interval_ms=config.log_flush_offset_checkpoint_interval_ms,
    )
    return open_local_store(settings.data_dir, clock=clock, options=options)


class RunningBroker:
    """A broker that serves until it is stopped: one node, or several over one store."""

    def __init__(
        self,
        settings: BrokerSettings,
        cluster: Cluster,
        instruments: Instruments,
        ring: EventRing | None = None,
        inherited: Mapping[str, Sequence[socket.socket]] | None = None,
    ) -> None:
        """`inherited` are sockets of the only node that were bound before, by the names of listeners."""
        self._settings = settings
        self._inherited = inherited
        # Called before a node handles the requests of a receive.
        self.before_requests: Callable[[], None] | None = None
        # What nodes ask before they handle the requests of a receive (`Node.may_lead`): if the lease does not last,
        # only Fetch is answered.
        self.may_lead: Callable[[], bool] | None = None
        self._instruments = instruments
        self.cluster = cluster
        intercept = instruments.intercept_between_nodes
        apis = SERVED if intercept is None else intercept(SERVED)
        self._apis_between_nodes = apis
        cluster.peers = LocalPeers(self._find_node, apis, instruments.are_nodes_separate)
        self.servers: dict[int, Server] = {}  # of live nodes
        # Where each node listens, or listened before it was killed.
        self.addresses: dict[int, Mapping[str, Endpoint]] = {
            node_id: {each.name: each.listen for each in settings.listeners_of(node_id)}
            for node_id in settings.node_ids
        }
        self._reserved: dict[int, list[socket.socket]] = {}
        self._changing = asyncio.Lock()  # one node at a time is started or ended
        self._ring = ring
        self._monitoring: Monitoring | None = None
        self._console: ConsoleSupervisor | None = None
        self._loop_monitor = LoopMonitor(self._received_bytes)
        self._full_collections = FullCollections(self._received_bytes)

    def _received_bytes(self) -> int:
        return sum(server.traffic.received_bytes for server in self.servers.values())

    def _find_node(self, node_id: int) -> Node | None:
        server = self.servers.get(node_id)
        return None if server is None else server.node

    @property
    def server(self) -> Server:
        """The server of the first live node."""
        return self.servers[min(self.servers)]

    @property
    def node(self) -> Node:
        """The first live node."""
        return self.server.node

    @property
    def endpoint(self) -> Endpoint:
        """The address of the first live node's first listener."""
        return self.server.endpoint

    @property
    def metrics_door(self) -> Door | None:
        """The address of the metrics, for Prometheus."""
        return None if self._monitoring is None else self._monitoring.door

    @property
    def console(self) -> ConsoleSupervisor | None:
        """The console that it serves."""
        return self._console

    async def start_console(self, registry: RegistryAccess | None = None) -> None:
        """Serves the console of the settings; returns when it can be opened."""
        assert self._settings.console is not None
        from ottla.broker.console.supervisor import ConsoleSupervisor

        self._console = ConsoleSupervisor(self._settings.console, self.console_servers, registry)
        await self._console.start()

    async def start_all(self) -> None:
        """Starts every node; all join before the first serves, so that none leads more than its share."""
        await self._start_monitoring()
        for node_id in self._settings.node_ids:
            await self._bind(node_id)
        for server in self.servers.values():
            self.cluster.join(server.node)
        await self._before_serving()
        if self.cluster.spans_processes:
            # No coordinator has to wait for the first block.
            await settled(self.cluster.producer_ids.reserve())
        for server in self.servers.values():
            server.node.partitions.find_offline()
            await server.serve()
        for listener in self.server.open_listeners:
            logger.warning(
                "listener_open_to_all",
                "anybody who reaches %(address)s is a client: listener %(listener)s (%(protocol)s) asks for no "
                "password and no certificate",
                listener=listener.name,
                protocol=listener.settings.protocol,
                address=str(listener.endpoint),
            )
        for listener in self.server.readable_logins:
            logger.warning(
                "listener_not_encrypted",
                "clients log in to listener %(listener)s at %(address)s without encryption: use SASL_SSL where "
                "others could read or change what goes over the network",
                listener=listener.name,
                address=str(listener.endpoint),
            )
        if self._monitoring is not None:
            self._monitoring.serving()
        if self._monitoring is not None or self._settings.has_own_process:
            self._loop_monitor.start()
        if self._settings.has_own_process:
            self._full_collections.begin()

    async def _before_serving(self) -> None:
        """What a kind of broker does when its nodes have their ports, and before the first client is served."""

    async def _start_monitoring(self) -> None:
        if self._ring is not None:
            from ottla.broker.internals.collection import BrokerParts
            from ottla.broker.metrics.monitoring import Monitoring

            settings = self._settings
            labels = {"node": str(settings.config.node_id)} if settings.tells_pages else {}
            parts = BrokerParts(
                self.cluster, self.servers, self._loop_monitor, settings.data_dir, labels
            )
            self._monitoring = Monitoring(parts, self._ring, self._settings.metrics)
            await self._monitoring.start()

    async def start_node(self, node_id: int) -> None:
        """Starts a node that was killed, on the port that it had."""
        if node_id not in self._settings.node_ids:
            known = ", ".join(map(str, self._settings.node_ids))
            raise OttlaError(f"there is no node {node_id}: the nodes are {known}")
        async with self._changing:
            if node_id in self.servers:
                raise IllegalStateError(f"node {node_id} is running already")
            server = await self._bind(node_id)
            self.cluster.join(server.node)
            server.node.partitions.find_offline()
            try:
                await server.serve()
            except BaseException:
                del self.servers[node_id]
                self.cluster.lose_node(node_id)
                raise
            self._release_port(node_id)
            if self._console is not None:
                self._console.servers_changed()

    async def _bind(self, node_id: int) -> Server:
        node = Node(self.cluster, self._settings.config_of(node_id))
        settings = self._settings
        node.has_metrics_page = settings.metrics is not None or settings.has_metrics_page
        known = self.addresses[node_id]
        server = Server(
            node,
            [
                each._replace(listen=known[each.name])
                for each in self._settings.listeners_of(node_id)
            ],
            self._inherited,
        )
        if self._instruments.intercept is not None:
            server.apis = self._instruments.intercept(server.apis)
        server.apis_between_nodes = self._apis_between_nodes
        server.before_requests = self._checks_before_requests(node)
        if self._settings.is_watched or request_counts.logger.shows_debug:
            server.observe_requests()
        await server.bind()
        self.servers[node_id] = server
        self.addresses[node_id] = dict(node.endpoints)
        return server

    def _checks_before_requests(self, node: Node) -> Callable[[], None] | None:
        before = self.before_requests
        if self.may_lead is None:
            return before
        node.may_lead = self.may_lead

        def check() -> None:
            if before is not None:
                before()
            node.check_lease()

        return check

    async def tell_pages(self, connection: socket.socket) -> None:
        """Tells metrics and internals over a connection to whoever has started this process."""
        assert self._monitoring is not None
        await self._monitoring.accept(connection)

    def in_process_servers(self) -> str:
        """The addresses of all running nodes for clients in this process, which need no login and may do anything."""
        return self._served_in_process(IN_PROCESS)

    def console_servers(self) -> ConsoleServers:
        """What a console in this process, or in a child of it, is given; for settings that are watched."""
        assert self._monitoring is not None
        login = user_login_of(self._settings.config)
        return ConsoleServers(
            brokers=self._served_in_process(CONSOLE),
            internals=self._monitoring.serve_console(),
            brokers_of_users=None
            if login is None
            else self._served_in_process(console_users(login.listener)),
            mechanisms=() if login is None else login.mechanisms,
            addresses={node_id: self._first_address(node_id) for node_id in self.addresses},
        )

    def _first_address(self, node_id: int) -> Endpoint:
        """Where clients find a node, also one that does not run now."""
        first = self._settings.listeners_of(node_id)[0]
        return first.advertised or self.addresses[node_id][first.name]

    def _served_in_process(self, kind: InProcessKind) -> str:
        return ",".join(str(server.serve_in_process(kind)) for server in self.servers.values())

    def _release_port(self, node_id: int) -> None:
        for reserved in self._reserved.pop(node_id, ()):
            reserved.close()

    async def kill_node(self, node_id: int) -> None:
        """Ends a node as kill -9 does: connections are cut, nothing is saved, other nodes lead its partitions."""
        async with self._changing:
            server = self.servers.get(node_id)
            if server is None:
                raise IllegalStateError(f"node {node_id} is not running")
            del self.servers[node_id]
            server.kill()
            self.cluster.lose_node(node_id)
            self._reserved[node_id] = await server.stop_killed()

    async def kill(self) -> None:
        """Ends all nodes as kill -9 does: connections are cut and nothing is saved. The storage is left as it is."""
        async with self._changing:
            self._loop_monitor.stop()
            self._full_collections.end()
            if self._console is not None:
                self._console.kill()
            await self._stop_monitoring()
            for server in self.servers.values():
                server.kill()
            for node_id, server in self.servers.items():
                self._reserved[node_id] = await server.stop_killed()

    def take_reserved_ports(self) -> list[socket.socket]:
        """The sockets that keep the ports of killed nodes from others; the caller closes them."""
        return [each for node_id in list(self._reserved) for each in self._reserved.pop(node_id)]

    async def move_clock(self, move: Callable[[], None]) -> None:
        """Moves the clock of a test, and does everything that is due by it then."""
        async with self._changing:
            move()
            for server in self.servers.values():
                server.node.catch_up()
            for server in list(self.servers.values()):
                await server.catch_up()

    async def stop(self) -> None:
        """Finishes accepted requests, makes everything durable, and leaves the folder clean."""
        async with self._changing:
            await self._stop()

    async def _stop(self) -> None:
        if self._monitoring is not None:
            self._monitoring.stopping()
        try:
            await self.stop_listening()
        finally:
            try:
                for server in self.servers.values():
                    server.node.audit.close(self.cluster.clock.monotonic_seconds())
                    server.node.partitions.close()
                for node_id in list(self._reserved):
                    self._release_port(node_id)
            finally:
                await settled(self.cluster.store.close())

    async def stop_listening(self) -> None:
        """Finishes accepted requests, and accepts no more."""
        if self._console is not None:
            await self._console.stop()
        await asyncio.gather(*(server.stop() for server in self.servers.values()))
        self._loop_monitor.stop()
        self._full_collections.end()
        await self._stop_monitoring()

    async def _stop_monitoring(self) -> None:
        if self._monitoring is not None:
            await self._monitoring.stop()
        if self._ring is not None:
            self._ring.detach()


def _check_is_free(endpoint: Endpoint) -> None:
    """Refuses a port that another process has, before a data folder is created."""
    try:
        found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except OSError:
        return  # listening will fail with the reason
    for family, kind, protocol, _, address in found:
        with suppress(OSError), socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(address)
            except OSError as error:
                if error.errno in (errno.EADDRINUSE, errno.EACCES):
                    raise ListenError(endpoint, error) from error


async def start_broker(
    settings: BrokerSettings, instruments: Instruments | None = None
) -> RunningBroker:
    """Opens the storage and listens."""
    instruments = instruments or Instruments()
    assert settings.storage is None, "such a broker is started by broker/shared"
    settings.validate()
    if settings.data_dir is not None and not os.path.exists(settings.data_dir):
        for node_id in settings.node_ids:
            for listener in settings.listeners_of(node_id):
                _check_is_free(listener.listen)
        if settings.metrics is not None:
            _check_is_free(settings.metrics.endpoint)
        if settings.console is not None:
            _check_is_free(settings.console.door.endpoint)
    ring = event_ring(settings)
    try:
        return await _start_broker(settings, instruments, ring)
    except BaseException:
        if ring is not None:
            ring.detach()
        raise


def event_ring(settings: BrokerSettings) -> EventRing | None:
    """The events of this process if it is the broker's own, else those of the broker's part of it."""
    if not settings.is_watched:
        return None
    from ottla.broker.internals.event_ring import EventRing

    ring = EventRing()
    ring.attach(["ottla"] if settings.has_own_process else ["ottla.broker", "ottla.storage"])
    return ring


async def _start_broker(
    settings: BrokerSettings, instruments: Instruments, ring: EventRing | None
) -> RunningBroker:
    clock = instruments.clock
    store = open_store(settings, clock)
    if instruments.wrap_store is not None:
        store = instruments.wrap_store(store)
    broker = None
    try:
        cluster = Cluster(store, clock, SystemIds())
        cluster.deletion.finish_at_once()
        adopt_topics(cluster)
        ensure_users(cluster, settings.users)
        broker = RunningBroker(settings, cluster, instruments, ring)
        await broker.start_all()
    except BaseException:
        if broker is not None:
            await broker.stop_listening()
        await settled(store.close())
        raise
    return broker
