"""How the nodes of a cluster ask each other: with the requests that clients use, or that Kafka's brokers do."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol


class UnreachableError(Exception):
    """The node that was asked is not there, or did not answer in time."""


class Peers(Protocol):
    """Carries requests from node to node, which are known by their ids."""

    def call(
        self, sender_id: int, node_id: int, request: Any, version: int
    ) -> asyncio.Future[Any] | Any:
        """The response, or its future; both may be an UnreachableError, which is not raised but given."""
        ...


class NoPeers:
    """Reaches no node; the program that starts the nodes replaces it."""

    def call(
        self, sender_id: int, node_id: int, request: Any, version: int
    ) -> asyncio.Future[Any] | Any:
        return UnreachableError(f"node {node_id} is not connected")
