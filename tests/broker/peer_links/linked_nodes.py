"""Nodes of one process that reach each other over links of sockets, as nodes of several processes do."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

from ottla.broker.coordination.peers import Peers, UnreachableError
from ottla.broker.peer_links.network_peers import NetworkPeers
from ottla.broker.peer_links.peer_link import LinkLimits
from ottla.broker.runtime import BrokerSettings, RunningBroker
from ottla.testing import Broker


class LinkedPeers:
    """Implements Peers for all nodes of a process; each has its links."""

    def __init__(
        self,
        broker: RunningBroker,
        own_node: Peers,
        are_separate: Callable[[int, int], bool] = lambda _sender_id, _node_id: False,
        limits: LinkLimits | None = None,
    ) -> None:
        self._broker = broker
        self._are_separate = are_separate
        self._own_node = own_node
        self._limits = limits
        self._senders: dict[int, NetworkPeers] = {}
        self.connections = 0

    def call(
        self, sender_id: int, node_id: int, request: Any, version: int
    ) -> asyncio.Future[Any] | Any:
        if self._are_separate(sender_id, node_id):
            return UnreachableError(f"node {sender_id} does not reach node {node_id}")
        return self.of(sender_id).call(sender_id, node_id, request, version)

    def of(self, sender_id: int) -> NetworkPeers:
        """The peers of one node."""
        found = self._senders.get(sender_id)
        if found is None:

            async def connect(node_id: int) -> socket.socket:
                return self._connect(sender_id, node_id)

            found = NetworkPeers(sender_id, self._own_node, connect, self._limits)
            self._senders[sender_id] = found
        return found

    def _connect(self, sender_id: int, node_id: int) -> socket.socket:
        server = self._broker.servers.get(node_id)
        if server is None:
            raise ConnectionRefusedError(f"node {node_id} is not running")
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        server.links.accept(sender_id, theirs)
        self.connections += 1
        return ours

    def close(self) -> None:
        for each in self._senders.values():
            each.close()


class LinkedBroker(Broker):
    """A broker for tests whose nodes reach each other over links."""

    peers: LinkedPeers

    async def _start_linked(self, settings: BrokerSettings) -> RunningBroker:
        broker = await super()._start_broker(settings)
        own_node = broker.cluster.peers
        self.peers = LinkedPeers(broker, own_node, self.faults.are_nodes_separate)
        broker.cluster.peers = self.peers
        return broker

    def _start_broker(self, settings: BrokerSettings) -> Coroutine[Any, Any, RunningBroker]:
        return self._start_linked(settings)
