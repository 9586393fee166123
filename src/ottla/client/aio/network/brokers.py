"""The brokers of a cluster: finding them, keeping connections, following their metadata."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable
from typing import Any

from ottla.client.aio.network.connection import COORDINATOR_IDS, Connection
from ottla.client.aio.network.connector import Opener
from ottla.client.aio.network.peer import Peer
from ottla.client.state.backoff import Backoff
from ottla.client.state.metadata import ClusterMetadata, MetadataState, Topic
from ottla.config.client import ClientConfig
from ottla.errors import ErrorCode, KafkaError, RetriableError, TimedOutError, exception_for
from ottla.model import Endpoint
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

log = logging.getLogger("ottla.client")

KEY_GROUP = 0
KEY_TRANSACTION = 1

_IDLE_CHECKS_PER_PERIOD = 8
# A broker that does not answer must not keep us from asking others until its attempt has timed out.
_NEXT_CANDIDATE_SECONDS = 1.0
REBOOTSTRAP = "rebootstrap"


class Network:
    """All that a client needs to talk to its cluster. Made on a running loop, it connects at once."""

    def __init__(self, config: ClientConfig, metadata: MetadataState | None = None) -> None:
        self._config = config
        self._loop = asyncio.get_running_loop()
        self.retry = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self.metadata = metadata or MetadataState(
            max_age_ms=config.metadata_max_age_ms, backoff=self.retry
        )
        self.features: dict[str, int] = {}
        """The finalized features of the cluster, such as transaction.version, by name."""
        self.on_update: list[Callable[[ClusterMetadata], None]] = []
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
        self._retired: list[Peer] = []
        self._coordinators: dict[tuple[int, str], int] = {}
        self._asking_since_ms: float | None = None
        self._starts_again = False
        self.trouble: KafkaError | None = None
        """Why the last request for metadata failed, if it did."""
        self._closed = False
        self._wake = asyncio.Event()
        self._answer: asyncio.Future[None] = self._loop.create_future()
        self._fatal: KafkaError | None = None
        self._following = self._loop.create_task(self._follow_metadata())
        self._idle_timer: asyncio.TimerHandle | None = None
        self._watch_idle()

    # Metadata

    @property
    def cluster(self) -> ClusterMetadata:
        """The newest snapshot."""
        return self.metadata.cluster

    @property
    def failure(self) -> KafkaError | None:
        """Why there is no metadata and asking again will not help, such as refused credentials."""
        return self._fatal

    def want_topic(self, name: str) -> None:
        """Follow a topic."""
        self.metadata.want(name, self._now_ms())
        self._wake.set()

    def want_only(self, names: list[str]) -> None:
        """Follow these topics and no others."""
        self.metadata.want_only(names, self._now_ms())
        self._wake.set()

    def want_all_topics(self) -> None:
        """Follow all topics."""
        self.metadata.want_all()
        self._wake.set()

    def request_update(self) -> None:
        """Ask for metadata as soon as the backoff allows."""
        self.metadata.request_update()
        self._wake.set()

    def update_leader(
        self, topic: str, partition: int, leader: int, leader_epoch: int, nodes: dict[int, Any]
    ) -> bool:
        """Take a broker's word for who leads a partition (KIP-951)."""
        changed = self.metadata.update_leader(topic, partition, leader, leader_epoch, nodes)
        if changed:
            self._follow_nodes()
            self._tell()
        return changed

    async def updated(self, timeout_ms: float) -> None:
        """Wait for the next answer to a metadata request; TimedOutError if none comes."""
        self._check_open()
        if self._fatal is not None:
            raise self._fatal
        try:
            # Not wait_for: in Python 3.11 it loses a cancellation that comes together with the answer.
            async with asyncio.timeout(timeout_ms / 1000):
                await asyncio.shield(self._answer)
        except TimeoutError:
            raise self._no_metadata(timeout_ms) from None

    async def topic(self, name: str, timeout_ms: float) -> Topic:
        """The topic, once it is known."""
        deadline = self._loop.time() + timeout_ms / 1000
        self.want_topic(name)
        while True:
            found = self.cluster.topics.get(name)
            if found is not None:
                return found
            error = self.cluster.errors.get(name)
            if error is not None and not error.retriable:
                raise self.cluster.error_of(name)
            left_ms = (deadline - self._loop.time()) * 1000
            if left_ms <= 0:
                raise self.no_topic(name, timeout_ms)
            try:
                await self.updated(left_ms)
            except TimedOutError:
                raise self.no_topic(name, timeout_ms) from None

    def no_topic(self, name: str, timeout_ms: float) -> KafkaError:
        """What to tell of a topic that is not known after so long."""
        error = self.cluster.errors.get(name)
        if error is None:
            why = f"Topic {name} is not known after {round(timeout_ms)} ms."
        elif error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            why = f"Topic {name} does not exist after {round(timeout_ms)} ms ({error.name}): create it."
        else:
            why = f"Topic {name} is not there after {round(timeout_ms)} ms: {error.name}."
        if self.metadata.version == 0 or self.trouble is not None:
            why += f" {self._unreachable()}"
        return TimedOutError(message=why, context={"api": "Metadata", "topic": name})

    def _no_metadata(self, timeout_ms: float) -> KafkaError:
        message = f"No metadata came within {round(timeout_ms)} ms. {self._unreachable()}"
        return TimedOutError(message=message, context={"api": "Metadata"})

    def _unreachable(self) -> str:
        servers = ", ".join(self._config.bootstrap_servers)
        why = "check that one runs there." if self.trouble is None else self.trouble.message
        return f"The brokers asked are {servers}: {why}"

    async def _follow_metadata(self) -> None:
        while not self._closed:
            wait_ms = self.metadata.due_in_ms(self._now_ms())
            if wait_ms > 0:
                self._wake.clear()
                with contextlib.suppress(asyncio.TimeoutError):
                    async with asyncio.timeout(wait_ms / 1000):
                        await self._wake.wait()
                continue
            try:
                await self._refresh()
            except Exception:
                # A bug must not leave everybody waiting without a word.
                log.exception("metadata could not be taken in")
                self.metadata.failed(self._now_ms(), random.random())

    async def _refresh(self) -> None:
        if self._asking_since_ms is None:
            self._asking_since_ms = self._now_ms()
        request = self.metadata.next_request(self._now_ms())
        try:
            node_id = await self.any_node()
            response = await self.call(node_id, request)
            if response.error_code:
                raise exception_for(
                    response.error_code, None, api="Metadata", broker=self.name_of(node_id)
                )
            if not response.brokers:
                # It has just started; to believe it would be to forget the others.
                why = f"{self.name_of(node_id)} knows no brokers yet."
                raise exception_for(ErrorCode.LEADER_NOT_AVAILABLE, why, api="Metadata")
        except KafkaError as error:
            self._not_refreshed(error)
            return
        self._fatal = self.trouble = None
        self._asking_since_ms = None
        self._starts_again = False
        for topic, why in self.metadata.apply(request, response, self._now_ms(), random.random()):
            log.warning("%s: topic %s: %s", self._config.client_id, topic, why)
        self._follow_nodes()
        self._tell()

    def _not_refreshed(self, error: KafkaError) -> None:
        """Ask again later; of whom, if nobody whom we know answers (KIP-899, KIP-1102)."""
        now_ms = self._now_ms()
        self.trouble = error
        self.metadata.failed(now_ms, random.random())
        log.debug("no metadata: %s", error)
        if self._config.metadata_recovery_strategy == REBOOTSTRAP:
            assert self._asking_since_ms is not None
            limit_ms = self._config.metadata_recovery_rebootstrap_trigger_ms
            is_told = error.code is ErrorCode.REBOOTSTRAP_REQUIRED
            if is_told or now_ms - self._asking_since_ms >= limit_ms:
                self._start_again()
                if is_told:
                    return
        if not isinstance(error, RetriableError):
            self._fail(error)

    def _start_again(self) -> None:
        """Forget the connections to brokers, and ask the bootstrap servers for others."""
        if self._starts_again or not self.cluster.nodes:
            return
        log.info("starting again from bootstrap.servers")
        self._starts_again = True
        self._coordinators.clear()
        for peer in self._peers.values():
            peer.close("the client starts again from bootstrap.servers")

    def _tell(self) -> None:
        answer, self._answer = self._answer, self._loop.create_future()
        answer.set_result(None)
        self._call_back()

    def _fail(self, error: KafkaError) -> None:
        """Tell those who wait that asking again will not help: the credentials are refused, say."""
        self._fatal = error
        answer, self._answer = self._answer, self._loop.create_future()
        answer.set_exception(error)
        answer.exception()
        if not self._closed:
            self._call_back()

    def _call_back(self) -> None:
        for callback in list(self.on_update):
            try:
                callback(self.cluster)
            except Exception:
                log.exception("a callback for metadata failed")

    # Nodes

    async def any_node(self) -> int:
        """The node with the least to do, connected; those that cannot be reached are passed over."""
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
                raise self._nobody(tried)
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
        if self._starts_again or not self.cluster.nodes:
            return list(self._bootstrap.values())
        known = [peer for id, peer in self._peers.items() if id in self.cluster.nodes]
        if self._config.metadata_recovery_strategy != REBOOTSTRAP:
            return known
        # Where every known broker is gone, the bootstrap servers may lead to others (KIP-899).
        if any(not peer.unreachable for peer in known):
            return known
        return [*known, *self._bootstrap.values()]

    def _nobody(self, tried: dict[int, KafkaError]) -> KafkaError:
        reasons = " ".join(f"{self.name_of(id)}: {error.message}" for id, error in tried.items())
        return exception_for(ErrorCode.NETWORK_EXCEPTION, f"No broker can be reached: {reasons}")

    async def controller(self) -> int:
        """The controller if it is known, else any node: where there is none, any broker passes requests on."""
        if self.metadata.version == 0:
            await self.updated(self._config.request_timeout_ms)
        controller = self.cluster.controller_id
        return controller if controller in self.cluster.nodes else await self.any_node()

    async def connection(self, node_id: int) -> Connection:
        """The connection to a node, made if there is none."""
        self._check_open()
        return await self._peer_of(node_id).connection()

    def connection_now(self, node_id: int) -> Connection | None:
        """The connection to a node if it is there and takes requests at this moment."""
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

    # Coordinators

    async def coordinator(self, key_type: int, key: str) -> int:
        """The node to ask about a group or a transactional id; looked up once until it is forgotten."""
        found = self._coordinators.get((key_type, key))
        if found is not None:
            return found

        def build(version: int) -> FindCoordinatorRequest:
            if version >= 4:
                return FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            return FindCoordinatorRequest(key=key, key_type=key_type)

        node_id = await self.any_node()
        response = await self.call_versioned(node_id, FindCoordinatorRequest, build)
        endpoint, coordinator_id = self._read_coordinator(response, key, node_id)
        if key_type == KEY_GROUP:
            coordinator_id = COORDINATOR_IDS - coordinator_id
            self._set_peer(coordinator_id, endpoint)
        elif coordinator_id not in self.cluster.nodes:
            self._set_peer(coordinator_id, endpoint)
        self._coordinators[key_type, key] = coordinator_id
        return coordinator_id

    def forget_coordinator(self, key_type: int, key: str) -> None:
        """The coordinator moved or cannot be reached: the next use looks it up."""
        self._coordinators.pop((key_type, key), None)

    def _read_coordinator(
        self, response: FindCoordinatorResponse, key: str, node_id: int
    ) -> tuple[Endpoint, int]:
        found = next((each for each in response.coordinators if each.key == key), None) or response
        if found.error_code:
            raise exception_for(
                found.error_code,
                found.error_message,
                api="FindCoordinator",
                key=key,
                broker=self.name_of(node_id),
            )
        return Endpoint(found.host, found.port), found.node_id

    # Peers

    def _peer(self, node_id: int, endpoint: Endpoint) -> Peer:
        return Peer(node_id, endpoint, self._opener, self._reconnect, self._setup)

    def _peer_of(self, node_id: int) -> Peer:
        found = self._peers.get(node_id)
        if found is None:
            # It may come back, or somebody else will have what is wanted.
            self.request_update()
            raise exception_for(
                ErrorCode.NETWORK_EXCEPTION, f"Broker {node_id} is not in the cluster's metadata."
            )
        return found

    def _set_peer(self, node_id: int, endpoint: Endpoint) -> None:
        known = self._peers.get(node_id)
        if known is not None and known.endpoint == endpoint:
            return
        if known is not None:
            self._retire(known, "the broker has another address now")
        self._peers[node_id] = self._peer(node_id, endpoint)

    def _retire(self, peer: Peer, why: str) -> None:
        peer.close(why)
        self._retired = [each for each in self._retired if each.is_ending]
        self._retired.append(peer)

    def _follow_nodes(self) -> None:
        """Peers for the nodes of the newest snapshot; bootstrap connections become those of their nodes."""
        for node in self.cluster.nodes.values():
            endpoint = Endpoint(node.host, node.port)
            known = self._peers.get(node.id)
            if known is None or known.endpoint != endpoint:
                self._set_peer(node.id, endpoint)
        for node_id, peer in list(self._peers.items()):
            if 0 <= node_id < COORDINATOR_IDS // 2 and node_id not in self.cluster.nodes:
                if node_id in self._coordinators.values():
                    continue
                self._retire(peer, "the broker left the cluster")
                del self._peers[node_id]
        for peer in self._bootstrap.values():
            for node_id in self.cluster.nodes:
                if self._peers[node_id].endpoint == peer.endpoint:
                    self._peers[node_id].adopt(peer)
            if peer.current is not None and not peer.current.in_flight:
                peer.close("the cluster's brokers are known")

    def _lost(self, connection: Connection, error: KafkaError) -> None:
        peer = self._peers.get(connection.node_id)
        if peer is not None and peer.lost(connection, error) and not self._closed:
            # The broker may have gone, and others lead now.
            self.request_update()

    def _learn_features(self, response: ApiVersionsResponse) -> None:
        if response.finalized_features_epoch >= self._features_epoch:
            self._features_epoch = response.finalized_features_epoch
            self.features = {
                each.name: each.max_version_level for each in response.finalized_features
            }

    # Idle connections, and the end

    def _watch_idle(self) -> None:
        max_idle_ms = self._config.connections_max_idle_ms
        if max_idle_ms < 0:
            return
        oldest = self._loop.time() - max_idle_ms / 1000
        for peer in self._peers.values():
            current = peer.current
            if current is not None and not current.in_flight and current.last_used < oldest:
                peer.close("it was idle")
        period = max(max_idle_ms / 1000 / _IDLE_CHECKS_PER_PERIOD, 0.01)
        self._idle_timer = self._loop.call_later(period, self._watch_idle)

    def _now_ms(self) -> float:
        return self._loop.time() * 1000

    def _check_open(self) -> None:
        if self._closed:
            raise exception_for(ErrorCode.NETWORK_EXCEPTION, "The client was closed.")

    async def close(self) -> None:
        """Close every connection; requests that wait for answers fail."""
        if self._closed:
            return
        self._closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)
        self._fail(exception_for(ErrorCode.NETWORK_EXCEPTION, "The client was closed."))
        peers = [*self._peers.values(), *self._bootstrap.values(), *self._retired]
        for peer in peers:
            peer.close()
        for peer in peers:
            await peer.ended()
        await self._opener.close()
