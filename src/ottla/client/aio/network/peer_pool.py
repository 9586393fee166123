"""The brokers of a cluster as peers: which there are, the connections to them, and which to ask if any will do."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Container, Mapping
from typing import Any, Final

from ottla.client.aio.network.connection import COORDINATOR_IDS, Connection
from ottla.client.aio.network.connector import Opener
from ottla.client.aio.network.peer import Peer
from ottla.client.model import Node
from ottla.client.state.backoff import Backoff
from ottla.config.client import ClientConfig
from ottla.errors import ErrorCode, KafkaError, RetriableError, exception_for
from ottla.model import Endpoint
from ottla.wire.messages.api_versions import ApiVersionsResponse

_IDLE_CHECKS_PER_PERIOD: Final = 8
# After this long without a connection the next broker is tried as well, while the first attempt goes on.
_NEXT_CANDIDATE_SECONDS: Final = 1.0


class PeerPool:
    """Peers by node id. Bootstrap servers, whose node ids are not known, have negative ids."""

    def __init__(
        self, config: ClientConfig, request_update: Callable[[], None], *, falls_back: bool
    ) -> None:
        """`request_update` is called when metadata may be out of date.

        `falls_back`: whether bootstrap servers are tried when no known broker can be reached (KIP-899).
        """
        self.features: dict[str, int] = {}
        """The finalized features of the cluster, such as transaction.version, by name."""
        self.is_rebootstrapping = False
        """Whether only the bootstrap servers are asked, until one of them has answered."""
        self._config = config
        self._request_update = request_update
        self._falls_back = falls_back
        self._loop = asyncio.get_running_loop()
        self._features_epoch = -1
        self._reconnect = Backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms)
        self._setup = Backoff(
            config.socket_connection_setup_timeout_ms,
            config.socket_connection_setup_timeout_max_ms,
        )
        self._opener = Opener(config, self._lost, self._learn_features)
        self._bootstrap = {
            -1 - index: self._peer(-1 - index, endpoint)
            for index, endpoint in enumerate(dict.fromkeys(config.bootstrap_endpoints))
        }
        self._peers: dict[int, Peer] = dict(self._bootstrap)
        self._nodes: Mapping[int, Node] = {}
        self._retired: list[Peer] = []
        self._is_closed = False
        self._idle_timer: asyncio.TimerHandle | None = None
        self._close_idle()

    # Asking

    async def any_node(self) -> int:
        """The node with the least to do, connected; nodes that cannot be reached are passed over."""
        tried: dict[int, KafkaError] = {}
        attempts: dict[asyncio.Future[Connection], Peer] = {}
        while True:
            self._check_open()
            under_way = {peer.node_id for peer in attempts.values()}
            candidates = [
                peer
                for peer in self._candidates()
                if peer.node_id not in tried and peer.node_id not in under_way
            ]
            if candidates:
                random.shuffle(candidates)
                peer = min(candidates, key=lambda each: each.load)
                if peer.current is not None:
                    return peer.node_id
                attempts[peer.attempt()] = peer
            if not attempts:
                raise self._none_reachable(tried)
            patience = _NEXT_CANDIDATE_SECONDS if len(candidates) > 1 else None
            await asyncio.wait(attempts, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            for attempt in [attempt for attempt in attempts if attempt.done()]:
                peer = attempts.pop(attempt)
                error = attempt.exception()
                if error is None:
                    return peer.node_id
                if not isinstance(error, RetriableError):
                    raise error
                tried[peer.node_id] = error

    def _candidates(self) -> list[Peer]:
        if self.is_rebootstrapping or not self._nodes:
            return list(self._bootstrap.values())
        known = [peer for id, peer in self._peers.items() if id in self._nodes]
        if not self._falls_back or any(not peer.unreachable for peer in known):
            return known
        # Where every known broker is gone, the bootstrap servers may lead to others (KIP-899).
        return [*known, *self._bootstrap.values()]

    def _none_reachable(self, tried: dict[int, KafkaError]) -> KafkaError:
        reasons = " ".join(f"{self.name_of(id)}: {error.message}" for id, error in tried.items())
        return exception_for(ErrorCode.NETWORK_EXCEPTION, f"No broker can be reached: {reasons}")

    async def connection(self, node_id: int) -> Connection:
        """The connection to a node, made if there is none."""
        self._check_open()
        peer = self._peers.get(node_id)
        if peer is None:
            # The broker may come back, or another one may lead its partitions.
            self._request_update()
            raise exception_for(
                ErrorCode.NETWORK_EXCEPTION, f"Broker {node_id} is not in the cluster's metadata."
            )
        return await peer.connection()

    def connection_now(self, node_id: int) -> Connection | None:
        """The connection to a node if there is one that takes requests at this moment."""
        peer = self._peers.get(node_id)
        current = None if peer is None else peer.current
        if current is None or current.throttled_until > self._loop.time():
            return None
        return current

    async def call(
        self,
        node_id: int,
        request: Any,
        *,
        timeout_ms: float | None = None,
        at_most: int | None = None,
    ) -> Any:
        """Send a request at the newest version that both sides speak; its answer."""
        connection = await self.connection(node_id)
        version = connection.version_of(type(request), at_most)
        return await connection.send(request, version, timeout_ms)

    async def call_versioned(
        self,
        node_id: int,
        request_class: type[Any],
        build: Callable[[int], Any],
        *,
        timeout_ms: float | None = None,
        at_most: int | None = None,
    ) -> Any:
        """As `call`, for requests whose contents depend on the version."""
        connection = await self.connection(node_id)
        version = connection.version_of(request_class, at_most)
        return await connection.send(build(version), version, timeout_ms)

    def name_of(self, node_id: int) -> str:
        """How messages name a node."""
        peer = self._peers.get(node_id)
        if peer is None:
            return str(node_id)
        own = COORDINATOR_IDS - node_id if node_id > COORDINATOR_IDS // 2 else node_id
        return f"{own} at {peer.endpoint}" if own >= 0 else str(peer.endpoint)

    # Which peers there are

    def follow(self, nodes: Mapping[int, Node], coordinators: Container[int]) -> None:
        """Have a peer for each node of the newest metadata, and retire those that left, unless they coordinate."""
        self._nodes = nodes
        for node in nodes.values():
            self.set_endpoint(node.id, Endpoint(node.host, node.port))
        for node_id, peer in list(self._peers.items()):
            if 0 <= node_id < COORDINATOR_IDS // 2 and node_id not in nodes:
                if node_id in coordinators:
                    continue
                self._retire(peer, "the broker left the cluster")
                del self._peers[node_id]
        self._hand_over_bootstrap_connections()

    def _hand_over_bootstrap_connections(self) -> None:
        for peer in self._bootstrap.values():
            for node_id in self._nodes:
                if self._peers[node_id].endpoint == peer.endpoint:
                    self._peers[node_id].adopt(peer)
            if peer.current is not None and not peer.current.in_flight:
                peer.close("the cluster's brokers are known")

    def set_endpoint(self, node_id: int, endpoint: Endpoint) -> None:
        """Note the address of a node; a connection to a former address is closed."""
        known = self._peers.get(node_id)
        if known is not None and known.endpoint == endpoint:
            return
        if known is not None:
            self._retire(known, "the broker has another address now")
        self._peers[node_id] = self._peer(node_id, endpoint)

    def is_listed(self, node_id: int) -> bool:
        """Whether the newest metadata has the node."""
        return node_id in self._nodes

    def rebootstrap(self) -> bool:
        """Close all connections and ask the bootstrap servers only; False if that is the case already."""
        if self.is_rebootstrapping or not self._nodes:
            return False
        self.is_rebootstrapping = True
        for peer in self._peers.values():
            peer.close("the client starts again from bootstrap.servers")
        return True

    def _peer(self, node_id: int, endpoint: Endpoint) -> Peer:
        return Peer(node_id, endpoint, self._opener, self._reconnect, self._setup)

    def _retire(self, peer: Peer, why: str) -> None:
        peer.close(why)
        self._retired = [each for each in self._retired if each.is_ending]
        self._retired.append(peer)

    # Reports of connections

    def _lost(self, connection: Connection, error: KafkaError) -> None:
        peer = self._peers.get(connection.node_id)
        if peer is not None and peer.lost(connection, error) and not self._is_closed:
            # The broker may be gone, and other brokers may lead its partitions.
            self._request_update()

    def _learn_features(self, response: ApiVersionsResponse) -> None:
        if response.finalized_features_epoch >= self._features_epoch:
            self._features_epoch = response.finalized_features_epoch
            self.features = {
                each.name: each.max_version_level for each in response.finalized_features
            }

    # Idle connections, and the end

    def _close_idle(self) -> None:
        """Close connections that were idle for connections.max.idle.ms, and look again later."""
        max_idle_ms = self._config.connections_max_idle_ms
        if max_idle_ms < 0:
            return
        oldest = self._loop.time() - max_idle_ms / 1000
        for peer in self._peers.values():
            current = peer.current
            if current is not None and not current.in_flight and current.last_used < oldest:
                peer.close("it was idle")
        period = max(max_idle_ms / 1000 / _IDLE_CHECKS_PER_PERIOD, 0.01)
        self._idle_timer = self._loop.call_later(period, self._close_idle)

    def _check_open(self) -> None:
        if self._is_closed:
            raise exception_for(ErrorCode.NETWORK_EXCEPTION, "The client was closed.")

    def refuse_calls(self) -> None:
        """Open no more connections: the client is being closed."""
        self._is_closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()

    async def close(self) -> None:
        """Close every connection; requests that wait for answers fail."""
        self.refuse_calls()
        peers = [*self._peers.values(), *self._bootstrap.values(), *self._retired]
        for peer in peers:
            peer.close()
        for peer in peers:
            await peer.ended()
        await self._opener.close()
