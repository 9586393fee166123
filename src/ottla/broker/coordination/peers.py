"""Requests between the nodes of a cluster: those of clients, or those of Kafka's brokers."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol


class UnreachableError(Exception):
    """The other node is not live, or did not answer in time."""


class Peers(Protocol):
    """Sends requests to other nodes, by their ids."""

    def call(
        self, sender_id: int, node_id: int, request: Any, version: int
    ) -> asyncio.Future[Any] | Any:
        """The response, or its future; an UnreachableError is returned as the result, not raised."""
        ...


class NoPeers:
    """Reaches no node; the program that starts the nodes replaces it."""

    def call(
        self, sender_id: int, node_id: int, request: Any, version: int
    ) -> asyncio.Future[Any] | Any:
        return UnreachableError(f"node {node_id} is not connected")
