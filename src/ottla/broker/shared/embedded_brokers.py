"""Several brokers of one process that share a storage, each with a session of its own, for `ottla.Broker(storage=…)`.

They are as separate as brokers of several machines: nothing but the process is common to them.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace

from ottla.broker.cluster import Cluster
from ottla.broker.network.server import Server
from ottla.broker.runtime import BrokerSettings, Instruments
from ottla.broker.shared.shared_broker import SharedBroker, start_on_storage
from ottla.config.broker import BrokerConfig
from ottla.config.listeners import following_ports
from ottla.errors import IllegalStateError, OttlaError
from ottla.model import NO_LEADER, Endpoint

# Who has just been made the leader may have to be asked by its predecessor.
MOVE_SECONDS = 10.0


class EmbeddedBrokers:
    """The brokers that run, and those that were killed and may be started again, by node id."""

    def __init__(self, settings: BrokerSettings, instruments: Instruments | None = None) -> None:
        self._settings = settings
        self._instruments = instruments or Instruments()
        self._brokers: dict[int, SharedBroker] = {}
        # How each broker was started, with the addresses that it then got.
        self._started: dict[int, BrokerSettings] = {}
        # They keep the ports of killed brokers from others.
        self._reserved: dict[int, list[socket.socket]] = {}
        self._changing = asyncio.Lock()

    # Starting and stopping.

    async def start(self) -> None:
        """Starts all brokers at the same time, so that none leads everything first."""
        begun = await asyncio.gather(
            *(self._begin(self._settings_of(number)) for number in range(self._settings.nodes)),
            return_exceptions=True,
        )
        for each in begun:
            if isinstance(each, BaseException):
                await self.stop()
                raise each

    def _settings_of(self, number: int) -> BrokerSettings:
        """The settings of one broker; only the first has the doors."""
        settings, config = self._settings, self._settings.config
        if "node.id" in config.given:
            config = settings.config_of(config.node_id + number)
        elif number:
            advertised = config.advertised_listeners
            config = replace(
                config,
                listeners=following_ports(config.listeners, number),
                advertised_listeners=following_ports(advertised, number) if advertised else None,
            )
        if number:
            settings = replace(settings, metrics=None, console=None)
        return replace(settings, config=config, nodes=1)

    async def _begin(self, settings: BrokerSettings) -> None:
        assert settings.storage is not None
        broker = await start_on_storage(settings, settings.storage, self._instruments)
        node_id = broker.node.node_id
        self._brokers[node_id] = broker
        self._brokers = dict(sorted(self._brokers.items()))
        self._started[node_id] = replace(settings, config=_bound(settings.config, broker))

    async def stop(self) -> None:
        """Stops all brokers cleanly."""
        async with self._changing:
            for node_id in list(self._reserved):
                self._release_ports(node_id)
            brokers, self._brokers = self._brokers, {}
            await asyncio.gather(*(each.stop() for each in brokers.values()))

    async def kill_node(self, node_id: int) -> None:
        """Ends a broker as kill -9 does; the others lead its partitions when its lease has run out."""
        async with self._changing:
            broker = self._find(node_id)
            del self._brokers[node_id]
            await broker.kill()
            self._reserved[node_id] = broker.take_reserved_ports()

    async def start_node(self, node_id: int) -> None:
        """Starts a broker that was killed, at the address that it had."""
        async with self._changing:
            if node_id in self._brokers:
                raise IllegalStateError(f"node {node_id} is running already")
            if node_id not in self._started:
                known = ", ".join(map(str, sorted(self._started)))
                raise OttlaError(f"there is no node {node_id}: the nodes are {known}")
            self._release_ports(node_id)
            await self._begin(self._started[node_id])

    def _release_ports(self, node_id: int) -> None:
        for each in self._reserved.pop(node_id, ()):
            each.close()

    def _find(self, node_id: int) -> SharedBroker:
        broker = self._brokers.get(node_id)
        if broker is None:
            raise IllegalStateError(f"node {node_id} is not running")
        return broker

    # What its owner asks.

    @property
    def first(self) -> SharedBroker:
        """The first broker that runs."""
        if not self._brokers:
            raise IllegalStateError("every node was killed: call start_node()")
        return next(iter(self._brokers.values()))

    @property
    def servers(self) -> dict[int, Server]:
        """The servers of all brokers that run, by node id."""
        return {node_id: broker.server for node_id, broker in self._brokers.items()}

    @property
    def cluster(self) -> Cluster:
        """The cluster as the first broker sees it."""
        return self.first.cluster

    def leader_of(self, topic: str, partition: int) -> int:
        """The leader, as that broker itself says; NO_LEADER if none does."""
        for node_id, broker in self._brokers.items():
            cluster = broker.cluster
            if cluster.leader_of(cluster.find_partition(topic, partition), partition) == node_id:
                return node_id
        return NO_LEADER

    async def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        """Has the leader of a partition release it for another broker, and waits until that one leads."""
        self._find(node_id)
        async with asyncio.timeout(MOVE_SECONDS):
            await self._until(lambda: self.leader_of(topic, partition) != NO_LEADER)
            leader = self.leader_of(topic, partition)
            if leader != node_id:
                self._find(leader).cluster.move_leader(topic, partition, node_id)
                await self._until(lambda: self.leader_of(topic, partition) == node_id)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            await asyncio.sleep(0.01)


def _bound(config: BrokerConfig, broker: SharedBroker) -> BrokerConfig:
    """The options of a broker with the ports that it has got."""
    endpoints: Mapping[str, Endpoint] = broker.node.endpoints
    listeners = tuple(
        f"{listener.name}://{endpoints[listener.name]}" for listener in config.all_listeners
    )
    return replace(config, listeners=listeners)
