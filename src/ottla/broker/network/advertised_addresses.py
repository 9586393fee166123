"""The addresses that clients are told."""

from __future__ import annotations

from ottla.broker.node import Node
from ottla.broker.requests.request import RequestContext
from ottla.model import Endpoint


def address_of(node: Node, context: RequestContext) -> Endpoint:
    """Where the client that asks reaches a node.

    Without an advertised address it is the host that the client connected to: it works by definition.
    """
    if node.advertised is not None:
        return node.advertised
    if node.endpoint is None:
        return context.local
    return Endpoint(context.local.host, node.endpoint.port)


def brokers_seen_by(node: Node, context: RequestContext) -> list[tuple[int, Endpoint]]:
    """Every live broker and where this client reaches it."""
    return [(node_id, address_of(other, context)) for node_id, other in node.cluster.nodes.items()]
