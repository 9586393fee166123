"""The addresses that clients are told."""

from __future__ import annotations

from ottla.broker.node import Node
from ottla.broker.request import RequestContext
from ottla.model import Endpoint


def brokers_seen_by(node: Node, context: RequestContext) -> list[tuple[int, Endpoint]]:
    """Every broker and where this client reaches it.

    Without an advertised address it is the one that the client connected to: it works by definition.
    """
    return [(node.node_id, node.advertised or context.local)]
