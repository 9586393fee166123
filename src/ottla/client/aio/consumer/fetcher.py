"""Keeps records coming: one fetch in flight to each broker, the next one while the user works."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.aio.consumer.user_code import call_user
from ottla.client.aio.network.brokers import Network
from ottla.client.aio.network.connection import Connection
from ottla.client.metrics.consumer_metrics import ConsumerMetrics
from ottla.client.model import ConsumerRecord, Node, OffsetAndMetadata
from ottla.client.state.consumer.fetch_buffer import FetchBuffer
from ottla.client.state.consumer.fetch_session import (
    FetchSession,
    FetchSettings,
    SessionFetch,
    WantedPartition,
)
from ottla.client.state.consumer.fetched_partition import Fetched, ReadSettings
from ottla.client.state.consumer.positions import NO_EPOCH, AssignedPartition, FetchPosition
from ottla.client.state.consumer.subscriptions import SubscriptionState
from ottla.errors import ErrorCode, FatalError, KafkaError
from ottla.model import NO_LEADER, TopicPartition
from ottla.records.record import INT64_MAX
from ottla.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData

if TYPE_CHECKING:
    from ottla.records.arrow import RecordColumns

log = logging.getLogger("ottla.client")

# The leader is another, or does not know yet that it is: look who leads, then fetch again.
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
# The broker is behind us, or has trouble that may pass.
_PASSING = frozenset({ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR})
_LEADER_HINTS = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class Collected(NamedTuple):
    """Records for the user, and where each partition goes on behind them."""

    records: dict[TopicPartition, list[ConsumerRecord]]
    next_offsets: dict[TopicPartition, OffsetAndMetadata]
    before: dict[TopicPartition, FetchPosition]


class Fetcher:
    """Fetches what the subscription state says may be fetched."""

    def __init__(
        self,
        network: Network,
        subscriptions: SubscriptionState,
        settings: FetchSettings,
        reading: ReadSettings,
        *,
        deserializes_in_user_code: bool,
        metadata_max_age_ms: float,
        metrics: ConsumerMetrics,
        on_change: Callable[[], None],
    ) -> None:
        self._network = network
        self._subscriptions = subscriptions
        self._settings = settings
        self._reading = reading
        # It runs where the consumer's other user code does, which may be slow.
        self._has_user_code = deserializes_in_user_code
        self._metadata_max_age_ms = metadata_max_age_ms
        self._metrics = metrics
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self.buffer = FetchBuffer(subscriptions, settings.max_bytes)
        self.is_wanted = False
        """Whether somebody waits for records: an empty answer is then followed by another fetch."""
        self.end_offsets: Mapping[TopicPartition, int] = {}
        """Where the user stops reading: what is behind is not fetched ahead for him."""
        self._sessions: dict[int, FetchSession] = {}
        self._in_flight: dict[int, asyncio.Future[FetchResponse]] = {}
        self._connecting: dict[int, asyncio.Task[None]] = {}
        self._not_before: dict[TopicPartition | int, float] = {}
        self._failures: dict[TopicPartition | int, int] = {}
        self._error: KafkaError | None = None
        self.troubles: dict[TopicPartition, str] = {}
        """Why the last fetch of a partition brought nothing, for those who look for reasons."""
        self._closed = False

    def show_marked(self, *, shows_control: bool, shows_aborted: bool) -> None:
        """Give the user also records that others do not get, before anything is fetched."""
        self._reading = self._reading._replace(
            shows_control=shows_control, shows_aborted=shows_aborted
        )

    def raise_error(self) -> None:
        """Raises what keeps fetches from being sent at all, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    # Out of the buffer

    async def collect(self, max_records: int) -> Collected | None:
        """Records for the user, at most so many; None if nothing has moved on.

        An error behind records that were already taken waits for the next call.
        """
        collected = Collected({}, {}, {})
        left = max_records
        while left > 0:
            try:
                fetched = self.buffer.next_in_line()
                if fetched is None:
                    break
                before = self._subscriptions.state(fetched.partition).position
                assert before is not None
                taken = await self._take(fetched, left)
            except Exception:
                if collected.next_offsets:
                    break
                raise
            except BaseException:
                self.give_back(collected)
                raise
            if self.buffer.taken(fetched, before.offset):
                left -= len(taken)
                self._add(collected, fetched, before, taken)
        return collected if collected.next_offsets else None

    async def collect_columns(self, columns: RecordColumns) -> Collected | None:
        """Add to columns what is buffered before the user's ends; None if nothing has moved on.

        Errors are dealt with as in `collect`.
        """
        collected = Collected({}, {}, {})
        enough: set[TopicPartition] = set()
        while True:
            try:
                fetched = self.buffer.next_in_line(enough)
                if fetched is None:
                    break
                before = self._subscriptions.state(fetched.partition).position
                assert before is not None
                end_offset = self.end_offsets.get(fetched.partition, INT64_MAX)
                if before.offset >= end_offset:
                    # Behind the ends of many partitions there may be more than fits.
                    if self.buffer.is_full:
                        self.buffer.drop(fetched)
                    else:
                        enough.add(fetched.partition)
                    continue
                fetched.take_columns(columns, end_offset)
            except Exception:
                if collected.next_offsets:
                    break
                raise
            if self.buffer.taken(fetched, before.offset):
                self._add(collected, fetched, before, [])
        return collected if collected.next_offsets else None

    async def _take(self, fetched: Fetched, max_records: int) -> list[ConsumerRecord]:
        if not self._has_user_code:
            return fetched.take(max_records)
        # Perhaps on another thread, while answers come in here.
        self.buffer.in_use = fetched
        try:
            taken: list[ConsumerRecord] = await call_user(fetched.take, max_records)
        finally:
            self.buffer.in_use = None
        return taken

    def _add(
        self,
        collected: Collected,
        fetched: Fetched,
        before: FetchPosition,
        taken: list[ConsumerRecord],
    ) -> None:
        partition = fetched.partition
        if taken:
            first = collected.records.get(partition)
            collected.records[partition] = taken if first is None else first + taken
        if fetched.is_consumed:
            self._metrics.consumed(fetched.record_count, fetched.size_bytes)
        if fetched.next_offset != before.offset:
            epoch = None if fetched.last_epoch == NO_EPOCH else fetched.last_epoch
            collected.next_offsets[partition] = OffsetAndMetadata(fetched.next_offset, "", epoch)
            collected.before.setdefault(partition, before)

    def give_back(self, collected: Collected) -> None:
        """The user did not get these records, because his call was cancelled: positions go back."""
        for partition, position in collected.before.items():
            state = self._subscriptions.find(partition)
            if state is not None and state.has_valid_position and state.position is not None:
                offset, epoch, _ = position
                state.seek_validated(FetchPosition(offset, epoch, state.position.leader))

    # To the brokers

    def send_fetches(self) -> None:
        """Sends what may be sent now: to every broker that has none of our fetches."""
        # Where every broker is busy with one, there is no need to look at all the partitions.
        if self._closed or 0 < len(self._network.cluster.nodes) <= len(self._in_flight):
            return
        now = self._loop.time()
        wanted: dict[int, dict[TopicPartition, WantedPartition]] = {}
        full: set[int] = set()
        for partition, state in self._subscriptions.states().items():
            position = state.position
            if position is None or not state.is_fetchable:
                continue
            # Of one that has come to its end the buffer may hold more, which must not keep others waiting.
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
            # A long poll for the other partitions would delay the next fetch of a full one, and
            # leaving that out would make the broker forget and learn it again and again (KAFKA-17182).
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
        """No answer: the connection is gone, and with it perhaps the broker."""
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
        """Takes an answer in; whether it has something for the user."""
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
            has_records |= self._take_in(partition, want, data, nodes)
        return has_records

    def _take_in(
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
        if code in _STALE_METADATA or code in _PASSING:
            self._retry(partition, state, code, data, nodes)
            return False
        if self.buffer.fetch_offset(partition, state.position.offset) != want.fetch_offset:
            return False  # the user sought elsewhere meanwhile
        self._failures.pop(partition, None)
        self.troubles.pop(partition, None)
        if code is ErrorCode.NONE:
            self._learn(state, data)
            if not data.records:
                return False
        self.buffer.add(Fetched(partition, want.fetch_offset, data, self._reading))
        return True

    def _learn(self, state: AssignedPartition, data: PartitionData) -> None:
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
        self.troubles[partition] = f"{code.name}: {code.text}"
        self._subscriptions.move_to_end(partition)
        hint = data.current_leader
        if code in _LEADER_HINTS and hint.leader_id >= 0 and hint.leader_epoch >= 0:
            state.forget_replica()
            if self._network.update_leader(*partition, hint.leader_id, hint.leader_epoch, nodes):
                return  # KIP-951: the next fetch goes to the new leader at once
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
        """After a change of the assignment: what was kept of partitions that went."""
        self.buffer.retain()
        states = self._subscriptions.states()
        for kept in (self._not_before, self._failures, self.troubles):
            for what in [w for w in kept if isinstance(w, tuple) and w not in states]:
                del kept[what]

    async def close(self, timeout_ms: float) -> None:
        """Tells the brokers to forget our sessions, as far as there is time."""
        if self._closed:
            return
        self._closed = True
        for task in self._connecting.values():
            task.cancel()
        answers = []
        for node, session in self._sessions.items():
            fetch = session.close()
            connection = self._network.connection_now(node)
            # A fetch that the broker holds back is in front: it is not waited for.
            if fetch is not None and connection is not None and node not in self._in_flight:
                answers.append(self._send_fetch(connection, fetch)[0])
        if answers:
            await asyncio.wait(answers, timeout=timeout_ms / 1000)
        self.buffer.clear()
