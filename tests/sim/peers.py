"""How simulated nodes ask each other: over the same network as clients, with every call on a connection of its own.

So a marker can be slow, be lost, come twice, or come after one that was sent later.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from tests.sim.network import Exchange, Link, LinkBrokenError, Network

from ottla.broker.coordination.peers import Peers, UnreachableError
from ottla.core.txn.events import VERSION_2
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersRequest

TIMEOUT_SECONDS = 3.0
# Of EndTxn and TxnOffsetCommit.
FIRST_VERSION_OF_TRANSACTION_V2 = 5


def can_be_told_apart(request: Any, version: int) -> bool:
    """Whether brokers can tell that a request is a late one, of a transaction that is over.

    In transactions of version 1 these carry nothing that tells one transaction of a producer from its next (KIP-890).
    """
    if isinstance(request, WriteTxnMarkersRequest):
        return all(marker.transaction_version >= VERSION_2 for marker in request.markers)
    is_of_one = isinstance(request, EndTxnRequest | TxnOffsetCommitRequest)
    return not is_of_one or version >= FIRST_VERSION_OF_TRANSACTION_V2


class SimulatedPeers:
    """Implements Peers; a node may reach itself without the network."""

    def __init__(self, at_once: Peers, network: Network, rng: random.Random) -> None:
        self._network = network
        self._rng = rng
        self._at_once = at_once

    def call(
        self, sender_id: int, node_id: int, request: Any, version: int
    ) -> asyncio.Future[Any] | Any:
        if node_id == sender_id and self._rng.random() < 0.5:
            return self._at_once.call(sender_id, node_id, request, version)
        first = len(self._network.exchanges)
        try:
            link = self._network.connect_at_once(f"node-{sender_id}", node_id)
        except LinkBrokenError as error:
            return UnreachableError(str(error))
        link.is_between_nodes = True
        exchange = link.send(request, version)
        return self._network.loop.create_task(self._wait(link, exchange, first))

    async def _wait(self, link: Link, exchange: Exchange, first: int) -> Any:
        try:
            return await link.wait(exchange, TIMEOUT_SECONDS)
        except (TimeoutError, LinkBrokenError) as error:
            if not can_be_told_apart(exchange.request, exchange.version):
                await self._network.until_over(exchange.request, first)
            return UnreachableError(str(error))
        finally:
            link.close()
