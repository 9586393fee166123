"""The background work of a producer, in passes on the loop.

The sender is no task: whenever something happened that may let a batch go (a record was appended, an answer came,
a leader changed, a backoff is over), it makes one pass. Nothing in a pass waits.
"""

from __future__ import annotations

import logging
from collections import deque
from threading import Event
from typing import Final, Protocol

from ottla.client.aio.producer.dispatcher import Dispatcher
from ottla.client.aio.producer.producer_context import ProducerContext
from ottla.client.aio.producer.response_handler import ResponseHandler
from ottla.client.aio.producer.sender_schedule import SenderSchedule
from ottla.client.send.completion import Completion
from ottla.client.state.producer.partition_queue import FOREVER
from ottla.client.state.producer.producer_batch import ProducerBatch
from ottla.client.state.producer.sequences import Sequences
from ottla.client.state.producer.transactions import (
    ProducerPhase,
    Transactions,
    as_abortable,
    as_fatal,
    fatal_again,
)
from ottla.errors import ErrorCode, KafkaError, TimedOutError, exception_for
from ottla.model import NO_LEADER

log = logging.getLogger("ottla.client")

LARGE_BACKLOG_BYTES: Final = 256 * 1024
"""How much may be ready to be sent before callers of `send` wait for the sender."""
SMALL_BACKLOG_BYTES: Final = 64 * 1024
"""How much may be left when they go on."""


class IdentitySource(Protocol):
    """Gets producer ids, and adds partitions to transactions."""

    @property
    def last_error(self) -> KafkaError | None: ...

    def request_identity(self) -> None: ...
    def request_partitions(self) -> None: ...


class Sender:
    """Makes the passes. All methods belong to the loop's thread, except where they say otherwise."""

    def __init__(self, context: ProducerContext) -> None:
        self.identity_source: IdentitySource | None = None
        """None for a producer without sequence numbers."""
        self.failure: KafkaError | None = None
        """Why nothing can be sent any more."""
        self._network = context.network
        self._accumulator = context.accumulator
        self._sequences = context.sequences
        self._transactions = context.transactions
        self._schedule = SenderSchedule(self._pass)
        self.wake = self._schedule.wake
        self.wake_threadsafe = self._schedule.wake_threadsafe
        self.now_ms = self._schedule.now_ms
        self._responses = ResponseHandler(context, self.fail)
        self.dispatcher = Dispatcher(context, self._responses, self.wake, self.now_ms)
        self._idle: Completion | None = None
        self._backlog_waiters: deque[Event] = deque()

    def wait_for_small_backlog(self, limit_seconds: float) -> bool:
        """Block the calling thread until little is ready to be sent; False if the time was not enough.

        On any thread but the loop's. While the thread blocks, the loop gets the interpreter.
        """
        event = Event()
        self._backlog_waiters.append(event)
        self.wake_threadsafe()
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
            next_ms = min(self.dispatcher.send_ready(now_ms), self._accumulator.next_expiry_ms)
        self._wake_idle_waiters()
        # With nothing in flight a longer wait is of no use: for example, the leader is not known.
        if self._accumulator.full_bytes <= SMALL_BACKLOG_BYTES or self.dispatcher.is_idle:
            while self._backlog_waiters:
                self._backlog_waiters.popleft().set()
        return next_ms

    # Before sending

    def _settle_sequences(self, sequences: Sequences) -> None:
        """Resolve sequences of batches that were given up, and get a new epoch or id if one is needed."""
        if sequences.resolve() and self._transactions is not None:
            self._transactions.batches_lost()
        if self._transactions is not None:
            return
        if sequences.needs_bump:
            sequences.bump()
        if not sequences.has_identity and self.identity_source is not None:
            self.identity_source.request_identity()

    def _settle_transaction(self, transactions: Transactions) -> None:
        """Drop the unsent batches of an aborted transaction; add the new partitions of another one."""
        if transactions.drops_unsent:
            error = transactions.error or as_abortable(
                exception_for(
                    ErrorCode.OPERATION_NOT_ATTEMPTED,
                    "The record was not sent: its transaction was aborted.",
                    api="Produce",
                )
            )
            for batch in self._accumulator.take_unsent():
                self._responses.drop(batch, error)
        transaction = self._accumulator.transaction
        if transaction is not None and transaction.new and not transactions.drops_unsent:
            assert self.identity_source is not None
            self.identity_source.request_partitions()

    def _expire(self, now_ms: float) -> None:
        for batch in self._accumulator.expired(now_ms):
            error = self._expiry_error(batch, now_ms)
            if self._sequences is not None:
                self._sequences.gave_up(batch)
            self._responses.drop(batch, error)
            if self._transactions is not None:
                self._transactions.batch_failed(error)

    def _expiry_error(self, batch: ProducerBatch, now_ms: float) -> TimedOutError:
        """The error of a batch that had delivery.timeout.ms, with the reason as far as it is known."""
        waited_ms = round(now_ms - batch.created_ms)
        count = batch.record_count or (batch.builder.record_count if batch.builder else 0)
        context: dict[str, object] = {"api": "Produce", "partition": str(batch.key)}
        leader = self._network.cluster.leader_of(*batch.key)
        cause: BaseException | None = self.dispatcher.unreachable.get(leader)
        if leader == NO_LEADER:
            why = "The partition has no leader at the moment."
        else:
            context["broker"] = self._network.name_of(leader)
            why = "Its leader has not answered."
        if cause is not None:
            why = f"Its leader cannot be reached: {cause}"
        elif batch.last_error is not None:
            cause = batch.last_error
            why = f"The last attempt failed: {cause}"
        elif self._sequences is not None and not self._sequences.has_identity:
            assert self.identity_source is not None
            cause = self.identity_source.last_error
            why = f"The producer has got no id yet: {cause or 'no broker has answered.'}"
        message = (
            f"{count} record(s) were not acknowledged within delivery.timeout.ms: "
            f"{waited_ms} ms have passed. {why}"
        )
        error = TimedOutError(message=message, context=context)
        error.__cause__ = cause
        return error

    # The end

    def fail(self, error: BaseException) -> None:
        """Nothing can be sent any more: every batch fails, and every later call raises this error."""
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
            self._responses.drop(batch, error)

    def _is_idle(self) -> bool:
        return not self._accumulator.incomplete and self.dispatcher.is_idle

    async def idle(self) -> None:
        """Wait until all batches have ended, and all requests, including those of batches that were given up."""
        while not self._is_idle():
            if self._idle is None:
                self._idle = Completion()
            self.wake()
            await self._idle.wait_async()

    def _wake_idle_waiters(self) -> None:
        if self._idle is not None and self._is_idle():
            idle, self._idle = self._idle, None
            idle.complete()

    def close(self, error: Exception) -> None:
        """Stop; batches that have not ended fail."""
        self._fail_all(error)
        self._schedule.close()
        self.dispatcher.close()
        self._wake_idle_waiters()
