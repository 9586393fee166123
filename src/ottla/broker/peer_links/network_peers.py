"""The nodes of other processes as peers: requests go over links, those to the own node are calls of its handlers."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.broker.coordination.peers import Peers, UnreachableError
from ottla.broker.peer_links.peer_link import LinkLimits, OpenConnection, PeerLink, TlsOf


class NetworkPeers:
    """Implements Peers for one node; links are made when they are first used."""

    def __init__(
        self,
        node_id: int,
        own_node: Peers,
        connect: OpenConnection,
        limits: LinkLimits | None = None,
        tls_of: TlsOf = lambda node_id: None,
    ) -> None:
        """`own_node` takes the requests to the node itself; `connect` makes connected sockets to the others."""
        self._node_id = node_id
        self._own_node = own_node
        self._connect = connect
        self._limits = limits
        self._tls_of = tls_of
        self._links: dict[int, PeerLink] = {}
        self._is_closed = False

    def call(
        self, sender_id: int, node_id: int, request: Any, version: int
    ) -> asyncio.Future[Any] | Any:
        assert sender_id == self._node_id, "the links are those of one node"
        if node_id == self._node_id:
            return self._own_node.call(sender_id, node_id, request, version)
        link = self._links.get(node_id)
        if link is None:
            if self._is_closed:
                return UnreachableError(f"node {node_id} is not asked any more")
            link = PeerLink(self._node_id, node_id, self._connect, self._limits, self._tls_of)
            self._links[node_id] = link
        return link.call(request, version)

    def try_again(self, node_id: int) -> None:
        """A node may be there again: the next request to it is not refused because of earlier failures."""
        if node_id in self._links:
            self._links[node_id].try_again()

    def close(self) -> None:
        """Ends all links: requests in flight get an UnreachableError."""
        self._is_closed = True
        for link in self._links.values():
            link.close()
