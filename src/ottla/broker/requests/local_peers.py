"""The nodes of one process as each other's peers: a request is a call of the other node's handler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from ottla.broker.coordination.peers import UnreachableError
from ottla.broker.node import Node
from ottla.broker.requests.api import Api
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.caller import Caller
from ottla.model import Endpoint
from ottla.wire.declare import info_of

# Nodes of one process have no sockets between them.
HERE = Endpoint("127.0.0.1", 0)


class LocalPeers:
    """Implements Peers; `find_node` gives the node of an id, if it is live.

    `are_separate` is for tests: it says of two nodes whether they do not reach each other.
    """

    def __init__(
        self,
        find_node: Callable[[int], Node | None],
        apis: Mapping[int, Api[Any, Any]],
        are_separate: Callable[[int, int], bool] = lambda _sender_id, _node_id: False,
    ) -> None:
        self._find_node = find_node
        self._apis = apis
        self._are_separate = are_separate

    def call(
        self, sender_id: int, node_id: int, request: Any, version: int
    ) -> asyncio.Future[Any] | Any:
        node = self._find_node(node_id)
        if node is None:
            return UnreachableError(f"node {node_id} is not running")
        if self._are_separate(sender_id, node_id):
            return UnreachableError(f"node {sender_id} does not reach node {node_id}")
        api = self._apis[info_of(type(request)).api_key]
        context = RequestContext(version, f"node-{sender_id}", Caller(HERE, HERE, is_node=True))
        answer = api.handle(node, request, context)
        return asyncio.ensure_future(answer) if asyncio.iscoroutine(answer) else answer
