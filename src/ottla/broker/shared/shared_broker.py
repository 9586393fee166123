"""Starting and stopping a broker that shares its store with others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from ipaddress import ip_address
from typing import Protocol

from ottla.broker.clock import SystemIds
from ottla.broker.cluster import Cluster
from ottla.broker.console.broker_console import user_login_of
from ottla.broker.leaders.lease_keeper import LeaseKeeper
from ottla.broker.leaders.leased import LeasedLeaders
from ottla.broker.network.in_process import CONSOLE, IN_PROCESS, InProcessKind, console_users
from ottla.broker.network.listen_error import ListenError
from ottla.broker.network.listener import bind_all
from ottla.broker.peer_links.inside_relays import InsideRelays
from ottla.broker.peer_links.network_peers import NetworkPeers
from ottla.broker.peer_links.peer_certificates import OwnCertificate, make_certificate
from ottla.broker.peer_links.peer_listener import PeerAddress, PeerConnector, PeerListener
from ottla.broker.runtime import BrokerSettings, Instruments, RunningBroker, event_ring
from ottla.broker.security.first_users import change_users
from ottla.broker.workers.worker_sockets import BoundListeners
from ottla.config.broker import BrokerConfig
from ottla.errors import ConfigError
from ottla.events import EventLog
from ottla.model import Endpoint
from ottla.ports import Clock, LogStore
from ottla.ports.futures import settled
from ottla.ports.leases import BrokerAddresses, Leases
from ottla.storage.shared.cluster_storage import open_as_broker
from ottla.storage.shared.storage_urls import StorageUrls

logger = EventLog(__name__)


class SharedLogStore(LogStore, Protocol):
    """A store of several brokers, opened by one of them."""

    @property
    def leases(self) -> Leases: ...

    def abandon(self) -> None:
        """Ends as a kill does: nothing is handed over, and the lease runs out."""
        ...


# Opens the store for a broker of some name; with a node id if that was chosen.
OpenSharedStore = Callable[[str, int | None, Clock], Awaitable[SharedLogStore]]


class SharedBroker(RunningBroker):
    """A broker of one node that leads what it holds a lease of."""

    def __init__(
        self,
        settings: BrokerSettings,
        cluster: Cluster,
        store: SharedLogStore,
        leaders: LeasedLeaders,
        instruments: Instruments,
        bound: BoundListeners,
        own: OwnCertificate,
    ) -> None:
        ring = event_ring(settings)
        super().__init__(settings, cluster, instruments, ring, inherited=bound.sockets)
        self._store = store
        self._leaders = leaders
        self._own = own
        self._peer_listener = PeerListener(own)
        connector = PeerConnector(own, self._find_peer)
        self._relays = InsideRelays(connector.inside)
        self._peers = NetworkPeers(
            leaders.leases.node_id, cluster.peers, connector.connect, tls_of=connector.tls_of
        )
        cluster.peers = self._peers
        self._keeper: LeaseKeeper | None = None
        self.may_lead = leaders.leases.may_lead
        self._known_live: frozenset[int] = frozenset()

    def _find_peer(self, node_id: int) -> PeerAddress | None:
        for member in self._leaders.leases.members():
            if member.node_id == node_id and member.is_live and member.addresses.peer is not None:
                return PeerAddress(member.addresses.peer, member.addresses.certificate)
        return None

    async def _before_serving(self) -> None:
        """Tells the others where this broker is, and claims its share."""
        node, leases = self.node, self._leaders.leases
        config = node.options.config
        peer = await self._peer_listener.bind(_peer_endpoint(config))
        kinds = self._kinds_inside()
        self._peer_listener.serve(
            self.server.links, {kind.name: self.server.serve_in_process(kind) for kind in kinds}
        )
        self._leaders.inside = {kind.name: self._relays for kind in kinds}
        await leases.describe(
            BrokerAddresses(
                dict(node.endpoints),
                {
                    name: endpoint
                    for name, endpoint in node.advertised.items()
                    if name in node.endpoints
                },
                _advertised_peer(config, peer),
                self._own.certificate,
            )
        )
        self._keeper = LeaseKeeper(
            self._leaders, node.partitions, self.cluster.catalog, self.cluster.clock
        )
        self._keeper.members_followed = self._members_changed
        await self._keeper.start()

    def _kinds_inside(self) -> list[InProcessKind]:
        """The kinds of clients of this process that other brokers serve too."""
        login = user_login_of(self.node.options.config)
        users = [] if login is None else [console_users(login.listener)]
        return [IN_PROCESS, CONSOLE, *users]

    def _members_changed(self) -> None:
        members = self._leaders.leases.members()
        own_id = self._leaders.leases.node_id
        self._peer_listener.trust(
            {
                each.node_id: each.addresses.certificate
                for each in members
                if each.is_live and each.node_id != own_id and each.addresses.certificate
            }
        )
        live = frozenset(each.node_id for each in members if each.is_live)
        for node_id in live - self._known_live:
            self._peers.try_again(node_id)
        self._known_live = live

    async def stop_listening(self) -> None:
        try:
            await super().stop_listening()
        finally:
            try:
                if self._keeper is not None:
                    await self._keeper.stop()
            finally:
                self._close_links()

    def _close_links(self) -> None:
        self._relays.close()
        self._peer_listener.close()
        self._peers.close()

    async def kill(self) -> None:
        if self._keeper is not None:
            await self._keeper.kill()
        self._close_links()
        await super().kill()
        self._store.abandon()


async def start_on_storage(
    settings: BrokerSettings, storage: StorageUrls, instruments: Instruments | None = None
) -> SharedBroker:
    """As `start_shared_broker`, on the storage of some URLs."""
    rack = settings.config.broker_rack

    async def open_store(name: str, node_id: int | None, clock: Clock) -> SharedLogStore:
        return await open_as_broker(storage, name, node_id, rack, clock)

    return await start_shared_broker(settings, open_store, instruments)


async def start_shared_broker(
    settings: BrokerSettings, open_store: OpenSharedStore, instruments: Instruments | None = None
) -> SharedBroker:
    """Takes the ports, opens the store as the broker of these addresses, and serves."""
    instruments = instruments or Instruments()
    settings.validate()
    _check_addresses(settings.config)
    bound = await _bind(settings.config)
    try:
        name = _name_of(settings.config, bound)
        own = make_certificate(name)
        node_id = settings.config.node_id if "node.id" in settings.config.given else None
        store = await open_store(name, node_id, instruments.clock)
    except BaseException:
        bound.close()
        raise
    broker = None
    try:
        leases = store.leases
        settings = replace(settings, config=replace(settings.config, node_id=leases.node_id))
        settings = replace(settings, addresses={leases.node_id: bound.endpoints})
        wrapped: LogStore = store
        if instruments.wrap_store is not None:
            wrapped = instruments.wrap_store(store)
        cluster = Cluster(wrapped, instruments.clock, SystemIds(), leases=leases)
        assert cluster.leased is not None
        await change_users(cluster, settings.users)
        broker = SharedBroker(settings, cluster, store, cluster.leased, instruments, bound, own)
        await broker.start_all()
    except BaseException:
        try:
            if broker is not None:
                await _undone(broker.stop_listening())
        finally:
            bound.close()
            await _undone(settled(store.close()))
        raise
    return broker


async def _undone(step: Awaitable[None]) -> None:
    """A step that undoes a start; its failure must not hide why the start has failed."""
    try:
        await step
    except Exception as error:
        logger.bug("work_failed", "a failed start was not undone: this is a bug", error)


# Addresses.


async def _bind(config: BrokerConfig) -> BoundListeners:
    bound = BoundListeners()
    try:
        for listener in config.all_listeners:
            try:
                sockets, endpoint = await bind_all(listener.listen)
            except OSError as error:
                raise ListenError(listener.listen, error) from error
            bound.sockets[listener.name], bound.endpoints[listener.name] = sockets, endpoint
    except BaseException:
        bound.close()
        raise
    return bound


def _name_of(config: BrokerConfig, bound: BoundListeners) -> str:
    """The address of the first listener as clients get it; a broker with a chosen id has its name from that."""
    if "node.id" in config.given:
        return f"node {config.node_id}"
    first = config.all_listeners[0]
    return str(first.advertised or bound.endpoints[first.name])


def _check_addresses(config: BrokerConfig) -> None:
    """Refuses listeners whose address other machines cannot use and the others cannot guess."""
    for listener in config.all_listeners:
        if listener.advertised is None and _is_every_address(listener.listen.host):
            raise ConfigError(
                f"listener {listener.name} at {listener.listen} has no address that other brokers could give to their "
                f"clients: give one, as in --advertise {listener.name}://broker-1.example.com:{listener.listen.port}"
            )


def _is_every_address(host: str) -> bool:
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return not host


def _peer_endpoint(config: BrokerConfig) -> Endpoint:
    """Where to listen for other brokers."""
    if config.ottla_peer_listener:
        return Endpoint.parse(config.ottla_peer_listener)
    return Endpoint(config.all_listeners[0].listen.host, 0)


def _advertised_peer(config: BrokerConfig, bound: Endpoint) -> Endpoint:
    """Where other brokers connect."""
    if config.ottla_peer_advertised_listener:
        return Endpoint.parse(config.ottla_peer_advertised_listener)
    if not _is_every_address(bound.host):
        return bound
    advertised = config.all_listeners[0].advertised
    assert advertised is not None, "checked before"
    return Endpoint(advertised.host, bound.port)
