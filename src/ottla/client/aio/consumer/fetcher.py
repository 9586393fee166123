"""Fetches records: one Fetch in flight to each broker, also while the program works on earlier records."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ottla.client.aio.network.connection import Connection
from ottla.client.aio.network.network import Network
from ottla.client.metrics.consumer_metrics import ConsumerMetrics
from ottla.client.model import Node
from ottla.client.plugins.serializers import BytesDeserializer, Deserializer
from ottla.client.state.consumer.fetch_buffer import FetchBuffer
from ottla.client.state.consumer.fetch_session import (
    FetchSession,
    FetchSettings,
    SessionFetch,
    WantedPartition,
)
from ottla.client.state.consumer.fetched_partition import (
    Deserialize,
    FetchedPartition,
    ReadSettings,
)
from ottla.client.state.consumer.positions import AssignedPartition
from ottla.client.state.consumer.subscriptions import SubscriptionState
from ottla.config.consumer import ConsumerConfig
from ottla.errors import ErrorCode, FatalError, KafkaError
from ottla.model import NO_LEADER, TopicPartition
from ottla.records.record import INT64_MAX
from ottla.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData

log = logging.getLogger("ottla.client")

# The leader has changed, or does not know yet that it leads: refresh the metadata, then fetch again.
_STALE_METADATA = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
# The broker's metadata is older than ours, or it has a temporary problem: fetch again.
_TEMPORARY = frozenset({ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR})
_LEADER_HINTS = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class Fetcher:
    """Sends fetches for the partitions that the subscription state allows, and buffers their records."""

    def __init__(
        self,
        network: Network,
        subscriptions: SubscriptionState,
        config: ConsumerConfig,
        deserializers: Sequence[Deserializer],
        metrics: ConsumerMetrics,
        on_change: Callable[[], None],
    ) -> None:
        key, value = deserializers
        self._network = network
        self._subscriptions = subscriptions
        self._settings = FetchSettings(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            partition_max_bytes=config.max_partition_fetch_bytes,
            isolation_level=int(config.reads_committed),
            rack_id=config.client_rack,
        )
        self._reading = ReadSettings(
            check_crcs=config.check_crcs,
            read_committed=config.reads_committed,
            key_of=_deserialize(key),
            value_of=_deserialize(value),
        )
        self._metadata_max_age_ms = config.metadata_max_age_ms
        self._metrics = metrics
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self.buffer = FetchBuffer(subscriptions, self._settings.max_bytes)
        self.is_wanted = False
        """Whether a poll waits for records: an empty answer is then followed by another fetch."""
        self.end_offsets: Mapping[TopicPartition, int] = {}
        """Where the program stops reading: records behind these offsets are not fetched ahead."""
        self._sessions: dict[int, FetchSession] = {}
        self._in_flight: dict[int, asyncio.Future[FetchResponse]] = {}
        self._connecting: dict[int, asyncio.Task[None]] = {}
        self._not_before: dict[TopicPartition | int, float] = {}
        self._failures: dict[TopicPartition | int, int] = {}
        self._error: KafkaError | None = None
        self.last_errors: dict[TopicPartition, str] = {}
        """The error of the last fetch of a partition, for reports."""
        self._closed = False

    def show_marked(self, *, shows_control: bool, shows_aborted: bool) -> None:
        """Also return control records, or records of aborted transactions; call it before anything is fetched."""
        self._reading = self._reading._replace(
            shows_control=shows_control, shows_aborted=shows_aborted
        )

    def raise_error(self) -> None:
        """Raise, once, an error that prevents all fetches."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    # Sending

    def send_fetches(self) -> None:
        """Send a fetch to every broker that has none in flight."""
        # If every broker has one, there is no need to look at the partitions.
        if self._closed or 0 < len(self._network.cluster.nodes) <= len(self._in_flight):
            return
        now = self._loop.time()
        wanted: dict[int, dict[TopicPartition, WantedPartition]] = {}
        full: set[int] = set()
        for partition, state in self._subscriptions.states().items():
            position = state.position
            if position is None or not state.is_fetchable:
                continue
            # A partition that has reached its end must not mark its broker as full.
            end_offset = self.end_offsets.get(partition, INT64_MAX)
            if position.offset >= end_offset:
                continue
            node = self._node_for(partition, state, now)
            if node == NO_LEADER or node in self._in_flight or self._pauses(partition, now):
                continue
            offset = self.buffer.fetch_offset(partition, position.offset)
            if offset is None:
                full.add(node)
                continue
            if offset >= end_offset:
                continue
            topic_id = self._network.cluster.topic_id(partition.topic)
            want = WantedPartition(offset, position.leader.epoch, topic_id)
            wanted.setdefault(node, {})[partition] = want
        for node, partitions in wanted.items():
            # A fetch of only the other partitions would delay the next fetch of a partition that is full now, and
            # would remove it from the session and add it again every time (KAFKA-17182).
            if node not in full and not self._pauses(node, now):
                self._send(node, partitions)

    def _node_for(self, partition: TopicPartition, state: AssignedPartition, now: float) -> int:
        """The replica to fetch from: the leader, or the follower that it named (KIP-392)."""
        assert state.position is not None
        leader = state.position.leader.leader
        if leader == NO_LEADER:
            self._network.request_update()
            return NO_LEADER
        replica = state.replica_at(now * 1000)
        if replica is None:
            return leader
        known = self._network.cluster.partition(*partition)
        is_online = known is not None and replica in known.replicas and replica not in known.offline
        if is_online and replica in self._network.cluster.nodes:
            return replica
        state.forget_replica()
        self._network.request_update()
        return leader

    def _send(self, node: int, partitions: dict[TopicPartition, WantedPartition]) -> None:
        connection = self._network.connection_now(node)
        if connection is None:
            self._connect(node)
            return
        session = self._sessions.setdefault(node, FetchSession())
        fetch = session.next_fetch(partitions)
        try:
            answer, version = self._send_fetch(connection, fetch)
        except KafkaError as error:
            session.failed()
            self._error = self._error or error
            self._on_change()
            return
        self._in_flight[node] = answer
        sent = self._loop.time()
        answer.add_done_callback(partial(self._answered, node, session, fetch, version, sent))

    def _send_fetch(
        self, connection: Connection, fetch: SessionFetch
    ) -> tuple[asyncio.Future[FetchResponse], int]:
        version = connection.version_of(FetchRequest, fetch.at_most)
        return connection.send(fetch.request(self._settings, version), version), version

    def _connect(self, node: int) -> None:
        if node not in self._connecting:
            self._connecting[node] = self._loop.create_task(self._open(node))

    async def _open(self, node: int) -> None:
        try:
            await self._network.connection(node)
        except KafkaError as error:
            if isinstance(error, FatalError):
                self._error = self._error or error
            self._network.request_update()
            self._pause(node)
        else:
            self._failures.pop(node, None)
        finally:
            del self._connecting[node]
        if self.is_wanted:
            self.send_fetches()
        self._on_change()

    # Answers

    def _answered(
        self,
        node: int,
        session: FetchSession,
        fetch: SessionFetch,
        version: int,
        sent: float,
        answer: asyncio.Future[FetchResponse],
    ) -> None:
        self._in_flight.pop(node, None)
        if self._closed or answer.cancelled():
            return
        error = answer.exception()
        has_records = False
        if error is not None:
            self._failed(node, session, error)
        else:
            response = answer.result()
            latency_ms = (self._loop.time() - sent) * 1000
            size_bytes = sum(
                len(p.records or b"") for t in response.responses for p in t.partitions
            )
            self._metrics.fetched(latency_ms, response.throttle_time_ms, size_bytes)
            has_records = self._handle(node, session, fetch, version, response)
        if self.is_wanted or has_records:
            self.send_fetches()
        self._on_change()

    def _failed(self, node: int, session: FetchSession, error: BaseException) -> None:
        """There is no answer: the connection is closed, and perhaps the broker is gone."""
        session.failed()
        for partition in session.partitions:
            state = self._subscriptions.find(partition)
            if state is not None:
                state.forget_replica()
        if isinstance(error, FatalError):
            self._error = self._error or error
        elif not isinstance(error, KafkaError):
            log.error("a fetch failed", exc_info=error)
        self._network.request_update()
        self._pause(node)

    def _handle(
        self,
        node: int,
        session: FetchSession,
        fetch: SessionFetch,
        version: int,
        response: FetchResponse,
    ) -> bool:
        """Read a response; True if it has records or an error for the program."""
        found = session.handle(fetch, response, version)
        if found is None:
            log.debug("fetch session with %s ends: %s", node, ErrorCode(response.error_code).name)
            if response.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR:
                self._network.request_update()
            self._pause(node)
            return False
        self._failures.pop(node, None)
        nodes = {
            n.node_id: Node(n.node_id, n.host, n.port, n.rack) for n in response.node_endpoints
        }
        has_records = False
        for partition, data in found.items():
            want = fetch.partitions[partition]
            has_records |= self._handle_partition(partition, want, data, nodes)
        return has_records

    def _handle_partition(
        self,
        partition: TopicPartition,
        want: WantedPartition,
        data: PartitionData,
        nodes: dict[int, Node],
    ) -> bool:
        state = self._subscriptions.find(partition)
        if state is None or state.position is None:
            return False
        code = ErrorCode(data.error_code)
        if code in _STALE_METADATA or code in _TEMPORARY:
            self._retry(partition, state, code, data, nodes)
            return False
        if self.buffer.fetch_offset(partition, state.position.offset) != want.fetch_offset:
            return False  # the program has sought in the meantime
        self._failures.pop(partition, None)
        self.last_errors.pop(partition, None)
        if code is ErrorCode.NONE:
            self._update_offsets(state, data)
            if not data.records:
                return False
        self.buffer.add(FetchedPartition(partition, want.fetch_offset, data, self._reading))
        return True

    def _update_offsets(self, state: AssignedPartition, data: PartitionData) -> None:
        if data.high_watermark >= 0:
            state.high_watermark = data.high_watermark
        if data.last_stable_offset >= 0:
            state.last_stable_offset = data.last_stable_offset
        if data.log_start_offset >= 0:
            state.log_start_offset = data.log_start_offset
        if data.preferred_read_replica >= 0:
            until_ms = self._loop.time() * 1000 + self._metadata_max_age_ms
            state.prefer_replica(data.preferred_read_replica, until_ms)

    def _retry(
        self,
        partition: TopicPartition,
        state: AssignedPartition,
        code: ErrorCode,
        data: PartitionData,
        nodes: dict[int, Node],
    ) -> None:
        log.debug("fetch of %s: %s", partition, code.name)
        self.last_errors[partition] = f"{code.name}: {code.text}"
        self._subscriptions.move_to_end(partition)
        hint = data.current_leader
        if code in _LEADER_HINTS and hint.leader_id >= 0 and hint.leader_epoch >= 0:
            state.forget_replica()
            if self._network.update_leader(*partition, hint.leader_id, hint.leader_epoch, nodes):
                return  # the next fetch goes to the new leader at once (KIP-951)
        if code in _STALE_METADATA:
            state.forget_replica()
            self._network.request_update()
        self._pause(partition)

    # Pauses after failures

    def _pauses(self, what: TopicPartition | int, now: float) -> bool:
        until = self._not_before.get(what)
        if until is None:
            return False
        if until > now:
            return True
        del self._not_before[what]
        return False

    def _pause(self, what: TopicPartition | int) -> None:
        attempt = self._failures.get(what, 0)
        self._failures[what] = attempt + 1
        delay = self._network.retry.delay_ms(attempt, random.random()) / 1000
        self._not_before[what] = self._loop.time() + delay
        self._loop.call_later(delay, self._resume)

    def _resume(self) -> None:
        if self.is_wanted:
            self.send_fetches()

    def forget_unassigned(self) -> None:
        """Drop the state of partitions that are not assigned any more."""
        self.buffer.retain()
        states = self._subscriptions.states()
        for by_partition in (self._not_before, self._failures, self.last_errors):
            for what in [w for w in by_partition if isinstance(w, tuple) and w not in states]:
                del by_partition[what]

    async def close(self, timeout_ms: float) -> None:
        """End the fetch sessions; waits for the brokers' answers until the timeout."""
        if self._closed:
            return
        self._closed = True
        for task in self._connecting.values():
            task.cancel()
        answers = []
        for node, session in self._sessions.items():
            fetch = session.close()
            connection = self._network.connection_now(node)
            # Behind a fetch in flight the request would wait for up to fetch.max.wait.ms.
            if fetch is not None and connection is not None and node not in self._in_flight:
                answers.append(self._send_fetch(connection, fetch)[0])
        if answers:
            await asyncio.wait(answers, timeout=timeout_ms / 1000)
        self.buffer.clear()


def _deserialize(deserializer: Deserializer) -> Deserialize | None:
    """The function to call for each record; None if keys or values stay bytes."""
    if type(deserializer) is BytesDeserializer:
        return None
    deserialize: Any = deserializer.deserialize
    return deserialize  # type: ignore[no-any-return]
