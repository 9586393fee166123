"""Sends batches that are ready to the leaders of their partitions.

One batch of a partition in a request, and at most max.in.flight.requests.per.connection requests to a broker.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable
from typing import Any, Final

from ottla.client.aio.network.connection import Connection
from ottla.client.aio.producer.produce_request import ProduceInFlight
from ottla.client.aio.producer.producer_context import ProducerContext
from ottla.client.aio.producer.response_handler import ResponseHandler
from ottla.client.send.encoded_batches import compression_of
from ottla.client.state.producer.producer_batch import ProducerBatch
from ottla.errors import ErrorCode, KafkaError, exception_for
from ottla.records.batch import BatchFlag
from ottla.records.compression import Codec
from ottla.wire.messages.produce import ProduceRequest

log = logging.getLogger("ottla.client")

# With acks=0 there are no answers to wait for: the limit of the bytes in the connection's buffer.
_UNANSWERED_BYTES: Final = 1 << 20
_UNANSWERED_PAUSE_MS: Final = 1.0


class Dispatcher:
    """Drains the accumulator into Produce requests; on the loop's thread only."""

    def __init__(
        self,
        context: ProducerContext,
        responses: ResponseHandler,
        wake: Callable[[], None],
        now_ms: Callable[[], float],
    ) -> None:
        config = context.config
        self.unreachable: dict[int, BaseException] = {}
        """Why there is no connection to a node, if the last attempt failed."""
        self._network = context.network
        self._accumulator = context.accumulator
        self._sequences = context.sequences
        self._transactions = context.transactions
        self._sticky = context.sticky
        self._metrics = context.metrics
        self._responses = responses
        self._wake = wake
        self._now_ms = now_ms
        self._loop = asyncio.get_running_loop()
        self._codec, self._level = compression_of(config)
        self._flags = BatchFlag.NONE if self._transactions is None else BatchFlag.TRANSACTIONAL
        self._acks = config.required_acks
        self._timeout_ms = config.request_timeout_ms
        self._max_request_bytes = config.max_request_size
        self._max_in_flight = config.max_in_flight_requests_per_connection
        self._mutes = context.mutes_partitions
        self._in_flight: dict[Connection, int] = {}
        self._connecting: dict[int, asyncio.Task[Any]] = {}
        self._unanswered: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._is_closed = False

    @property
    def is_idle(self) -> bool:
        """Whether no request is in flight."""
        return not self._in_flight

    @property
    def in_flight_count(self) -> int:
        """How many requests are in flight."""
        return sum(self._in_flight.values())

    @property
    def has_unsent_bytes(self) -> bool:
        """Whether requests without answers (acks=0) wait to be taken by the operating system."""
        return any(each.unsent_bytes for each in self._unanswered if each.closed is None)

    # Draining

    def send_ready(self, now_ms: float) -> float:
        """Send as much as connections take; when to look again."""
        while True:
            ready = self._accumulator.ready(self._network.cluster, now_ms)
            if ready.topics_without_leader:
                for topic in ready.topics_without_leader:
                    self._network.metadata.want(topic, now_ms)
                self._network.request_update()
            next_ms = ready.next_check_ms
            is_drained = True
            for node_id, queues in ready.nodes.items():
                connection = self._network.connection_now(node_id)
                if connection is None:
                    self._sticky.node_not_ready(node_id, now_ms)
                    self._connect(node_id)
                    continue
                if self._in_flight.get(connection, 0) >= self._max_in_flight:
                    self._sticky.node_not_ready(node_id, now_ms)
                    continue
                if not self._acks and connection.unsent_bytes > _UNANSWERED_BYTES:
                    next_ms = min(next_ms, now_ms + _UNANSWERED_PAUSE_MS)
                    continue
                self._sticky.node_drained(node_id, now_ms)
                batches = self._accumulator.drain(
                    queues, self._max_request_bytes, now_ms, self._may_send
                )
                if batches:
                    is_drained = False
                    self._send_or_fail(connection, batches, now_ms)
            if is_drained:
                return next_ms

    def _may_send(self, batch: ProducerBatch) -> bool:
        if self._sequences is None:
            return True
        transaction = self._accumulator.transaction
        if transaction is not None and batch.key not in transaction.added:
            return False
        return self._sequences.may_send(batch)

    def _connect(self, node_id: int) -> None:
        if node_id not in self._connecting:
            task = self._loop.create_task(self._network.connection(node_id))
            self._connecting[node_id] = task
            task.add_done_callback(lambda task: self._connected(node_id, task))

    def _connected(self, node_id: int, task: asyncio.Task[Any]) -> None:
        del self._connecting[node_id]
        self.unreachable.pop(node_id, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            # A broker that refused our credentials may accept them later, or other brokers may lead soon: as in Java,
            # records wait for that up to delivery.timeout.ms.
            self.unreachable[node_id] = error
            self._network.request_update()
        self._wake()

    # Requests

    def _send_or_fail(
        self, connection: Connection, batches: list[ProducerBatch], now_ms: float
    ) -> None:
        try:
            self._send(connection, batches, now_ms)
        except Exception as error:
            # Batches that cannot even be encoded are out of the accumulator: they have to end here.
            log.exception("batches could not be sent")
            self._responses.not_sent(batches, error)

    def _send(self, connection: Connection, batches: list[ProducerBatch], now_ms: float) -> None:
        cluster = self._network.cluster
        sent = ProduceInFlight(connection, now_ms, is_answered=self._acks != 0)
        for batch in batches:
            batch.close()
            if self._sequences is not None:
                self._sequences.assign(batch)
            encoded = batch.encode(self._codec, self._level, self._flags)
            if self._codec is not Codec.NONE:
                self._accumulator.note_compression(batch)
            if self._mutes:
                self._accumulator.mute(batch)
            sent.add(batch, cluster.topic_id(batch.topic), encoded)
            self._network.metadata.want(batch.topic, now_ms)
            self._metrics.sent(batch)
        transactions = self._transactions
        request = ProduceRequest(
            transactional_id=None if transactions is None else transactions.transactional_id,
            acks=self._acks,
            timeout_ms=self._timeout_ms,
            topic_data=sent.topic_data,
        )
        try:
            is_version_1 = transactions is not None and not transactions.is_version_2
            version = connection.version_of(ProduceRequest, sent.newest_version(is_version_1))
        except KafkaError as error:
            self._responses.request_failed(sent, error, now_ms)
            return
        self._metrics.requested(batches)
        if not self._acks:
            self._send_unanswered(sent, request, version, now_ms)
            return
        self._in_flight[connection] = self._in_flight.get(connection, 0) + 1
        answer = connection.send(request, version)
        answer.add_done_callback(lambda done: self._answered(sent, done))

    def _send_unanswered(
        self, sent: ProduceInFlight, request: ProduceRequest, version: int, now_ms: float
    ) -> None:
        try:
            sent.connection.send_unanswered(request, version)
            self._unanswered.add(sent.connection)
        except KafkaError as error:
            self._responses.request_failed(sent, error, now_ms)
            return
        self._responses.sent_unanswered(sent)

    def _answered(self, sent: ProduceInFlight, done: asyncio.Future[Any]) -> None:
        left = self._in_flight.get(sent.connection, 1) - 1
        if left:
            self._in_flight[sent.connection] = left
        else:
            self._in_flight.pop(sent.connection, None)
        if self._is_closed:
            return
        failure = None if done.cancelled() else done.exception()
        now_ms = self._now_ms()
        if failure is None and not done.cancelled():
            self._responses.request_answered(sent, done.result(), now_ms)
        else:
            if not isinstance(failure, KafkaError):
                failure = exception_for(ErrorCode.NETWORK_EXCEPTION, str(failure), api="Produce")
            self._responses.request_failed(sent, failure, now_ms)
        self._wake()

    def close(self) -> None:
        """Send nothing more, and take no answers in."""
        self._is_closed = True
        for task in self._connecting.values():
            task.cancel()
