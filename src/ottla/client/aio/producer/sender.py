"""Sends batches to the leaders of their partitions, and decides what their answers mean.

The sender is no task: whenever something happened that may let a batch go (a record was appended, an answer came,
a leader changed, a pause is over), it makes one pass on the loop. Nothing in it waits.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections import deque
from collections.abc import Callable
from threading import Event
from typing import Any, Final, Protocol

from ottla.client.aio.network.brokers import Network
from ottla.client.aio.network.connection import Connection
from ottla.client.aio.producer.produce_request import Answer, Exchange, judged
from ottla.client.aio.producer.sender_schedule import Passes
from ottla.client.metrics.producer_metrics import ProducerMetrics
from ottla.client.send.delivery import Completion
from ottla.client.state.producer.accumulator import Accumulator
from ottla.client.state.producer.partition_queue import FOREVER
from ottla.client.state.producer.producer_batch import ProducerBatch
from ottla.client.state.producer.sequences import Sequences
from ottla.client.state.producer.sticky import Sticky
from ottla.client.state.producer.transactions import (
    DEADLY,
    ProducerPhase,
    Transactions,
    as_abortable,
    as_fatal,
    fatal_again,
)
from ottla.config.producer import ProducerConfig
from ottla.errors import ErrorCode, KafkaError, RetriableError, TimedOutError, exception_for
from ottla.model import NO_LEADER
from ottla.records.batch import BatchFlag
from ottla.records.compression import Codec
from ottla.wire.messages.produce import ProduceRequest

log = logging.getLogger("ottla.client")

# A broker that says so will be ready in a moment: the marker of the last transaction is on its way.
_CONCURRENT_BACKOFF_MS: Final = 20.0
# What may wait in a connection's buffer where no answers (acks=0) tell that the broker took it.
_UNANSWERED_BYTES: Final = 1 << 20
_UNANSWERED_PAUSE_MS: Final = 1.0
LOW_BYTES: Final = 64 * 1024
"""What may be ready to go when those who gave way go on."""


class Identities(Protocol):
    """Who gets ids and epochs, and tells the coordinator of partitions."""

    trouble: KafkaError | None

    def want_identity(self) -> None: ...
    def want_partitions(self) -> None: ...


class Sender:
    """The background work of a producer. All methods but `wake_from_anywhere` belong to the loop's thread."""

    def __init__(
        self,
        network: Network,
        config: ProducerConfig,
        accumulator: Accumulator,
        sequences: Sequences | None,
        transactions: Transactions | None,
        sticky: Sticky,
        metrics: ProducerMetrics,
        random_unit: Callable[[], float],
    ) -> None:
        self.identities: Identities | None = None
        self.failure: KafkaError | None = None
        """Why nothing can be sent any more."""
        self.passes = Passes(self._pass)
        self.wake = self.passes.wake
        self.wake_from_anywhere = self.passes.wake_from_anywhere
        self.now_ms = self.passes.now_ms
        self._network = network
        self._config = config
        self._accumulator = accumulator
        self._sequences = sequences
        self._transactions = transactions
        self._sticky = sticky
        self._metrics = metrics
        self._random_unit = random_unit
        self._loop = asyncio.get_running_loop()
        self._codec = Codec[config.compression_type.upper()]
        levels = {
            Codec.GZIP: config.compression_gzip_level,
            Codec.LZ4: config.compression_lz4_level,
            Codec.ZSTD: config.compression_zstd_level,
        }
        self._level = levels.get(self._codec)
        self._flags = BatchFlag.NONE if transactions is None else BatchFlag.TRANSACTIONAL
        self._acks = config.required_acks
        self._max_in_flight = config.max_in_flight_requests_per_connection
        # One in flight keeps the order without sequence numbers, if a partition waits for its batch to end.
        self._mutes = self._max_in_flight == 1
        self._in_flight: dict[Connection, int] = {}
        self._connecting: dict[int, asyncio.Task[Any]] = {}
        self._unreached: dict[int, BaseException] = {}
        """Why there is no connection to a node, if the last attempt failed."""
        self._is_closed = False
        self._idle: Completion | None = None
        self._giving_way: deque[Event] = deque()
        self._unanswered: weakref.WeakSet[Connection] = weakref.WeakSet()

    def give_way(self, limit_seconds: float) -> bool:
        """Block the calling thread until little is left to send, which hands the interpreter to the loop.

        False if the time was not enough.
        """
        event = Event()
        self._giving_way.append(event)
        self.wake_from_anywhere()
        return event.wait(limit_seconds)

    def _pass(self, now_ms: float) -> float:
        next_ms = FOREVER
        transactions = self._transactions
        if transactions is not None and transactions.state is ProducerPhase.DEAD:
            self.failure = self.failure or transactions.error
        if self.failure is not None:
            self._fail_all(self.failure)
        else:
            if self._sequences is not None:
                self._settle_sequences(self._sequences)
            self._expire(now_ms)
            if transactions is not None:
                self._settle_transaction(transactions)
            next_ms = min(self._send_ready(now_ms), self._accumulator.next_expiry_ms)
        self._tell_idle()
        # Where nothing is on its way, waiting brings nothing: the leader is not known, say.
        if self._accumulator.full_bytes <= LOW_BYTES or not self._in_flight:
            while self._giving_way:
                self._giving_way.popleft().set()
        return next_ms

    # Before sending

    def _settle_sequences(self, sequences: Sequences) -> None:
        if sequences.resolve() and self._transactions is not None:
            self._transactions.batches_lost()
        if self._transactions is not None:
            return
        if sequences.needs_bump:
            sequences.bump()
        if not sequences.has_identity and self.identities is not None:
            self.identities.want_identity()

    def _settle_transaction(self, transactions: Transactions) -> None:
        if transactions.drops_unsent:
            error = transactions.error or as_abortable(
                exception_for(
                    ErrorCode.OPERATION_NOT_ATTEMPTED,
                    "The record was not sent: its transaction was aborted.",
                    api="Produce",
                )
            )
            for batch in self._accumulator.take_unsent():
                self._drop(batch, error)
        transaction = self._accumulator.transaction
        if transaction is not None and transaction.new and not transactions.drops_unsent:
            assert self.identities is not None
            self.identities.want_partitions()

    def _expire(self, now_ms: float) -> None:
        for batch in self._accumulator.expired(now_ms):
            error = self._too_late(batch, now_ms)
            if self._sequences is not None:
                self._sequences.gave_up(batch)
            self._drop(batch, error)
            if self._transactions is not None:
                self._transactions.batch_failed(error)

    def _too_late(self, batch: ProducerBatch, now_ms: float) -> TimedOutError:
        """What to tell of a batch whose time is over: how it went so far."""
        waited_ms = round(now_ms - batch.created_ms)
        count = batch.record_count or (batch.builder.record_count if batch.builder else 0)
        context: dict[str, object] = {"api": "Produce", "partition": str(batch.key)}
        leader = self._network.cluster.leader_of(*batch.key)
        unreached = self._unreached.get(leader)
        if leader == NO_LEADER:
            why = "The partition has no leader at the moment."
        else:
            context["broker"] = self._network.name_of(leader)
            why = "Its leader has not answered."
        if unreached is not None:
            why = f"Its leader cannot be reached: {unreached}"
        elif batch.trouble is not None:
            why = f"The last attempt failed: {batch.trouble}"
        elif self._sequences is not None and not self._sequences.has_identity:
            assert self.identities is not None
            unreached = self.identities.trouble
            why = f"The producer has got no id yet: {unreached or 'no broker has answered.'}"
        message = (
            f"{count} record(s) were not acknowledged within delivery.timeout.ms: "
            f"{waited_ms} ms have passed. {why}"
        )
        error = TimedOutError(message=message, context=context)
        error.__cause__ = unreached or batch.trouble
        return error

    def _drop(self, batch: ProducerBatch, error: Exception) -> None:
        """A batch fails here, whatever the broker may say of it later."""
        if batch.fail(error):
            self._metrics.failed(batch)
        self._accumulator.release(batch)

    # Sending

    def _send_ready(self, now_ms: float) -> float:
        """Send as much as connections take; when to look again."""
        while True:
            ready = self._accumulator.ready(self._network.cluster, now_ms)
            if ready.topics_without_leader:
                for topic in ready.topics_without_leader:
                    self._network.metadata.want(topic, now_ms)
                self._network.request_update()
            next_ms = ready.next_check_ms
            is_over = True
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
                    queues, self._config.max_request_size, now_ms, self._may_send
                )
                if batches:
                    is_over = False
                    self._send_or_fail(connection, batches, now_ms)
            if is_over:
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

            def connected(task: asyncio.Task[Any]) -> None:
                del self._connecting[node_id]
                self._unreached.pop(node_id, None)
                if not task.cancelled() and (error := task.exception()) is not None:
                    # Also one that refused our credentials may take them later, or others lead soon: as in Java,
                    # records wait for that up to delivery.timeout.ms.
                    self._unreached[node_id] = error
                    self._network.request_update()
                self.wake()

            task.add_done_callback(connected)

    def _send_or_fail(
        self, connection: Connection, batches: list[ProducerBatch], now_ms: float
    ) -> None:
        """A batch that cannot even be encoded must not be forgotten."""
        try:
            self._send(connection, batches, now_ms)
        except Exception as error:
            log.exception("batches could not be sent")
            for batch in batches:
                if self._sequences is not None:
                    self._sequences.failed(batch, None, is_final=True)
                self._drop(batch, as_abortable(as_fatal(error)))
                self._unmute(batch)

    def _send(self, connection: Connection, batches: list[ProducerBatch], now_ms: float) -> None:
        cluster = self._network.cluster
        sent = Exchange(connection, now_ms, is_answered=self._acks != 0)
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
            timeout_ms=self._config.request_timeout_ms,
            topic_data=sent.topic_data,
        )
        try:
            is_version_1 = transactions is not None and not transactions.is_version_2
            version = connection.version_of(ProduceRequest, sent.newest_version(is_version_1))
        except KafkaError as error:
            self._answered(sent, None, error)
            return
        self._metrics.requested(batches)
        if not self._acks:
            self._send_unanswered(sent, request, version)
            return
        self._in_flight[connection] = self._in_flight.get(connection, 0) + 1
        answer = connection.send(request, version)
        answer.add_done_callback(lambda done: self._on_answer(sent, done))

    def _send_unanswered(self, sent: Exchange, request: ProduceRequest, version: int) -> None:
        try:
            sent.connection.send_unanswered(request, version)
            self._unanswered.add(sent.connection)
        except KafkaError as error:
            self._answered(sent, None, error)
            return
        for batch in sent.batches.values():
            self._succeed(batch, -1, -1)
            self._unmute(batch)

    # Answers

    def _on_answer(self, sent: Exchange, done: asyncio.Future[Any]) -> None:
        left = self._in_flight.get(sent.connection, 1) - 1
        if left:
            self._in_flight[sent.connection] = left
        else:
            self._in_flight.pop(sent.connection, None)
        if self._is_closed:
            return
        failure = None if done.cancelled() else done.exception()
        if failure is None and not done.cancelled():
            self._answered(sent, done.result(), None)
        elif isinstance(failure, KafkaError):
            self._answered(sent, None, failure)
        else:
            lost = exception_for(ErrorCode.NETWORK_EXCEPTION, str(failure), api="Produce")
            self._answered(sent, None, lost)
        self.wake()

    def _answered(self, sent: Exchange, response: Any, error: KafkaError | None) -> None:
        now_ms = self.now_ms()
        self._metrics.answered(sent.connection.node_id, now_ms - sent.sent_ms)
        answers = sent.answers(response, error)
        broker = self._network.name_of(sent.connection.node_id)
        for batch, answer in answers:
            self._settle(batch, answer, broker, now_ms)
            self._unmute(batch)
        if error is not None:
            self._network.request_update()

    def _unmute(self, batch: ProducerBatch) -> None:
        if self._mutes:
            self._accumulator.unmute(batch)

    def _settle(self, batch: ProducerBatch, answer: Answer, broker: str, now_ms: float) -> None:
        """One batch's answer: it is written, tried again, split, or failed."""
        answer = judged(batch, answer)
        code = answer.code
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            # A duplicate is older than what the broker remembers: written, but it does not know where.
            offset = answer.base_offset if code is ErrorCode.NONE else -1
            self._succeed(batch, offset, answer.append_time_ms)
            return
        if answer.leader_id >= 0:
            self._network.update_leader(
                batch.topic,
                batch.partition,
                answer.leader_id,
                answer.leader_epoch,
                dict(answer.nodes),
            )
        if batch.is_done:
            # Given up meanwhile; what it means for the sequence is noted already.
            return
        if code is ErrorCode.MESSAGE_TOO_LARGE and batch.record_count > 1:
            log.warning("a batch for %s is too large for the broker: split", batch.key)
            parts = self._accumulator.split(batch)
            if self._sequences is not None:
                self._sequences.was_split(batch, parts)
            self._metrics.split()
        elif batch.attempts < self._config.retries and self._may_retry(batch, answer):
            attempt = batch.attempts
            log.log(
                logging.DEBUG if attempt else logging.INFO,
                "a batch for %s failed at broker %s and is tried again: %s",
                batch.key,
                broker,
                code.name,
            )
            batch.trouble = exception_for(code, answer.message)
            backoff_ms = self._accumulator.settings.retry.delay_ms(attempt, self._random_unit())
            if code is ErrorCode.CONCURRENT_TRANSACTIONS:
                backoff_ms = min(backoff_ms, _CONCURRENT_BACKOFF_MS)
            self._accumulator.reenqueue(batch, now_ms, backoff_ms)
            self._metrics.retried(batch)
        else:
            self._fail(batch, answer, broker)
        if code.action.name == "REFRESH_METADATA":
            self._network.request_update()

    def _may_retry(self, batch: ProducerBatch, answer: Answer) -> bool:
        if self._sequences is None:
            return answer.code.retriable
        return self._sequences.may_retry(batch, answer.code, answer.log_start_offset)

    def _succeed(self, batch: ProducerBatch, base_offset: int, append_time_ms: int) -> None:
        if self._sequences is not None:
            self._sequences.acknowledged(batch, base_offset)
        if batch.succeed(base_offset, append_time_ms):
            self._accumulator.release(batch)

    def _fail(self, batch: ProducerBatch, answer: Answer, broker: str) -> None:
        error = exception_for(
            answer.code, answer.message, api="Produce", partition=str(batch.key), broker=broker
        )
        is_deadly = answer.code in DEADLY and (
            self._sequences is not None or answer.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        )
        shown = as_fatal(error) if is_deadly else error
        if not is_deadly and not isinstance(error, RetriableError):
            shown = as_abortable(error)
        # Whether the broker wrote a batch whose retries are used up is not known.
        is_final = batch.attempts < self._config.retries
        if batch.fail(shown, answer.record_errors):
            self._metrics.failed(batch)
            if self._sequences is not None:
                self._sequences.failed(batch, answer.code, is_final)
            if self._transactions is not None:
                self._transactions.batch_failed(shown)
            self._accumulator.release(batch)
        if is_deadly:
            self.fail(shown)

    # The end

    def fail(self, error: BaseException) -> None:
        """Nothing can be sent any more: every batch fails, and every later call tells why."""
        if self.failure is not None:
            return
        failure = self.failure = as_fatal(error)
        if self._transactions is not None:
            self._transactions.die(failure)
        else:
            log.error("the producer failed for good: %s", failure)

            self._accumulator.refuse(lambda: fatal_again(failure))
        self.wake()

    def _fail_all(self, error: Exception) -> None:
        for batch in self._accumulator.take_all():
            self._drop(batch, error)

    def _is_idle(self) -> bool:
        return not self._accumulator.incomplete and not self._in_flight

    async def idle(self) -> None:
        """Wait until everything has ended, those included that were given up while on their way."""
        while not self._is_idle():
            if self._idle is None:
                self._idle = Completion()
            self.wake()
            await self._idle.wait_async()

    def _tell_idle(self) -> None:
        if self._idle is not None and self._is_idle():
            idle, self._idle = self._idle, None
            idle._complete()

    @property
    def has_unsent_bytes(self) -> bool:
        """Whether requests that nobody answers (acks=0) wait to be taken by the operating system."""
        return any(each.unsent_bytes for each in self._unanswered if each.closed is None)

    @property
    def in_flight_count(self) -> int:
        return sum(self._in_flight.values())

    def close(self, error: Exception) -> None:
        """Stop; what has not ended fails."""
        self._fail_all(error)
        self._is_closed = True
        self.passes.close()
        for task in self._connecting.values():
            task.cancel()
        self._tell_idle()
