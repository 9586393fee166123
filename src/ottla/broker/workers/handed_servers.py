"""The workers as servers of the supervisor's process: its other parts, and its children, need no listener of theirs.

A connection is a pair of sockets, one end of which the supervisor hands over to the worker.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial

from ottla import in_process
from ottla.broker.network.in_process import PORT
from ottla.model import Endpoint

# Gives a worker a connected socket of a kind; ConnectionRefusedError if it is not live.
HandOver = Callable[[int, str, socket.socket], None]


class HandedServers:
    """The addresses of workers for these kinds of clients; used on the supervisor's loop."""

    def __init__(self, node_ids: Iterable[int], kinds: Iterable[str]) -> None:
        self._loop = asyncio.get_running_loop()
        self.hand_over: HandOver = _refuse
        kinds = tuple(kinds)
        self.addresses: Mapping[int, Mapping[str, Endpoint]] = {
            node_id: {
                kind: Endpoint(in_process.serve(partial(self._accept, node_id, kind)), PORT)
                for kind in kinds
            }
            for node_id in node_ids
        }
        """By node id and kind: workers tell their clients of this kind about each other by them."""

    def bootstrap_servers(self, kind: str) -> str:
        """All workers, for clients of a kind."""
        return ",".join(str(each[kind]) for each in self.addresses.values())

    def _accept(self, node_id: int, kind: str, accepted: socket.socket) -> None:
        """On the thread of the client."""
        try:
            self._loop.call_soon_threadsafe(self._hand, node_id, kind, accepted)
        except RuntimeError:  # the loop was closed
            accepted.close()

    def _hand(self, node_id: int, kind: str, accepted: socket.socket) -> None:
        # The client of a worker that is not live, or for which there are too many open files, sees the end of its
        # connection.
        with accepted, suppress(OSError):
            self.hand_over(node_id, kind, accepted)

    def close(self) -> None:
        """Nobody connects any more."""
        for by_kind in self.addresses.values():
            for endpoint in by_kind.values():
                in_process.withdraw(endpoint.host)


def _refuse(_node_id: int, _kind: str, _accepted: socket.socket) -> None:
    raise ConnectionRefusedError
