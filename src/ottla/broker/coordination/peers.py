"""How the nodes of a cluster ask each other: with the requests that clients use, or that Kafka's brokers do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from ottla.model import Endpoint
from ottla.wire.declare import info_of

if TYPE_CHECKING:
    from ottla.broker.cluster import Cluster
    from ottla.broker.node import Node

# Nodes of one process have no sockets between them.
HERE = Endpoint("127.0.0.1", 0)


class UnreachableError(Exception):
    """The node that was asked is not there, or did not answer in time."""


class Peers(Protocol):
    """Carries requests from node to node."""

    def call(
        self, sender: Node, node_id: int, request: Any, version: int
    ) -> asyncio.Future[Any] | Any:
        """The response, or its future; both may be an UnreachableError, which is not raised but given."""
        ...


class LocalPeers:
    """The nodes of one process: a request is a call of the other node's handler."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def call(
        self, sender: Node, node_id: int, request: Any, version: int
    ) -> asyncio.Future[Any] | Any:
        # Handlers call their peers: they are not there yet when this module is imported.
        from ottla.broker.requests.apis import SERVED
        from ottla.broker.requests.request import RequestContext

        node = self._cluster.nodes.get(node_id)
        if node is None:
            return UnreachableError(f"node {node_id} is not running")
        api = SERVED[info_of(type(request)).api_key]
        context = RequestContext(version, f"node-{sender.node_id}", HERE, HERE)
        answer = api.handle(node, request, context)
        return asyncio.ensure_future(answer) if asyncio.iscoroutine(answer) else answer
