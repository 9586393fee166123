"""Applies the answers to Produce requests: `state/producer/batch_actions.py` decides, this carries it out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from ottla.client.aio.producer.produce_request import PartitionAnswer, ProduceInFlight
from ottla.client.aio.producer.producer_context import ProducerContext
from ottla.client.model import NO_OFFSET, NO_TIMESTAMP
from ottla.client.state.producer.batch_actions import (
    BatchAction,
    BatchState,
    SequenceState,
    action_for,
    refreshes_metadata,
)
from ottla.client.state.producer.producer_batch import ProducerBatch
from ottla.client.state.producer.transactions import as_abortable, as_fatal
from ottla.errors import ErrorCode, KafkaError, RetriableError, exception_for
from ottla.wire.messages.produce import ProduceResponse

log = logging.getLogger("ottla.client")

# The markers of the last transaction are being written, which does not take long.
_CONCURRENT_BACKOFF_MS: Final = 20.0


class ResponseHandler:
    """Ends, retries or splits batches; on the loop's thread only."""

    def __init__(self, context: ProducerContext, on_fatal: Callable[[BaseException], None]) -> None:
        self._network = context.network
        self._accumulator = context.accumulator
        self._sequences = context.sequences
        self._transactions = context.transactions
        self._metrics = context.metrics
        self._random_unit = context.random_unit
        self._kind = context.kind
        self._retries = context.config.retries
        self._unmutes = context.mutes_partitions
        self._on_fatal = on_fatal

    # Requests

    def request_answered(
        self, sent: ProduceInFlight, response: ProduceResponse, now_ms: float
    ) -> None:
        """The broker answered: each batch has an answer of its own."""
        self._apply(sent, sent.answers(response), now_ms)

    def request_failed(self, sent: ProduceInFlight, error: KafkaError, now_ms: float) -> None:
        """No answer came: all batches share the error."""
        answer = PartitionAnswer(error.code, error.message)
        self._apply(sent, [(batch, answer) for batch in sent.batches.values()], now_ms)
        self._network.request_update()

    def sent_unanswered(self, sent: ProduceInFlight) -> None:
        """With acks=0 a batch is done when it was sent."""
        for batch in sent.batches.values():
            self._complete(batch, NO_OFFSET, NO_TIMESTAMP)
            self._unmute(batch)

    def not_sent(self, batches: Sequence[ProducerBatch], error: Exception) -> None:
        """A request could not be made of these batches."""
        for batch in batches:
            if self._sequences is not None:
                self._sequences.failed(batch, None, is_unwritten=True)
            self.drop(batch, as_abortable(as_fatal(error)))
            self._unmute(batch)

    def _apply(
        self,
        sent: ProduceInFlight,
        answers: Sequence[tuple[ProducerBatch, PartitionAnswer]],
        now_ms: float,
    ) -> None:
        node_id = sent.connection.node_id
        self._metrics.answered(node_id, now_ms - sent.sent_ms)
        broker = self._network.name_of(node_id)
        for batch, answer in answers:
            if answer.code is ErrorCode.NONE:
                self._complete(batch, answer.base_offset, answer.append_time_ms)
            else:
                self._apply_error(batch, _checked(batch, answer), broker, now_ms)
            self._unmute(batch)

    def _unmute(self, batch: ProducerBatch) -> None:
        if self._unmutes:
            self._accumulator.unmute(batch)

    # Batches

    def _apply_error(
        self, batch: ProducerBatch, answer: PartitionAnswer, broker: str, now_ms: float
    ) -> None:
        action = action_for(answer.code, self._state_of(batch, answer))
        if action is BatchAction.COMPLETE:
            self._complete(batch, NO_OFFSET, answer.append_time_ms)
            return
        if answer.leader_id >= 0:
            self._network.update_leader(
                batch.topic,
                batch.partition,
                answer.leader_id,
                answer.leader_epoch,
                dict(answer.nodes),
            )
        if action is BatchAction.IGNORE:
            return
        if action is BatchAction.SPLIT:
            self._split(batch)
        elif action is BatchAction.FAIL:
            self._fail(batch, answer, broker)
        elif action is BatchAction.FAIL_PRODUCER:
            self._fail_producer(batch, answer, broker)
        else:
            self._retry(batch, answer, action, broker, now_ms)
        if refreshes_metadata(answer.code):
            self._network.request_update()

    def _state_of(self, batch: ProducerBatch, answer: PartitionAnswer) -> BatchState:
        sequence = SequenceState()
        if self._sequences is not None:
            sequence = self._sequences.state_of(batch, answer.log_start_offset)
        return BatchState(
            self._kind,
            is_done=batch.is_done,
            has_several_records=batch.record_count > 1,
            has_retries_left=batch.attempts < self._retries,
            sequence=sequence,
        )

    def _complete(self, batch: ProducerBatch, base_offset: int, append_time_ms: int) -> None:
        if self._sequences is not None:
            self._sequences.acknowledged(batch, base_offset)
        if batch.succeed(base_offset, append_time_ms):
            self._accumulator.release(batch)

    def _split(self, batch: ProducerBatch) -> None:
        log.warning("a batch for %s is too large for the broker: split", batch.key)
        parts = self._accumulator.split(batch)
        if self._sequences is not None:
            self._sequences.was_split(batch, parts)
        self._metrics.split()

    def _retry(
        self,
        batch: ProducerBatch,
        answer: PartitionAnswer,
        action: BatchAction,
        broker: str,
        now_ms: float,
    ) -> None:
        code, attempt = answer.code, batch.attempts
        log.log(
            logging.DEBUG if attempt else logging.INFO,
            "a batch for %s failed at broker %s and is tried again: %s",
            batch.key,
            broker,
            code.name,
        )
        if self._sequences is not None:
            self._sequences.prepare_retry(batch, action)
        batch.last_error = exception_for(code, answer.message)
        backoff_ms = self._network.retry.delay_ms(attempt, self._random_unit())
        if code is ErrorCode.CONCURRENT_TRANSACTIONS:
            backoff_ms = min(backoff_ms, _CONCURRENT_BACKOFF_MS)
        self._accumulator.reenqueue(batch, now_ms, backoff_ms)
        self._metrics.retried(batch)

    def _fail(self, batch: ProducerBatch, answer: PartitionAnswer, broker: str) -> None:
        error = _error_of(batch, answer, broker)
        self._end(
            batch, answer, error if isinstance(error, RetriableError) else as_abortable(error)
        )

    def _fail_producer(self, batch: ProducerBatch, answer: PartitionAnswer, broker: str) -> None:
        error = as_fatal(_error_of(batch, answer, broker))
        self._end(batch, answer, error)
        self._on_fatal(error)

    def _end(self, batch: ProducerBatch, answer: PartitionAnswer, error: KafkaError) -> None:
        # With its retries used up, it is not known whether the broker wrote the batch.
        is_unwritten = batch.attempts < self._retries
        batch.fail(error, answer.record_errors)
        self._metrics.failed(batch)
        if self._sequences is not None:
            self._sequences.failed(batch, answer.code, is_unwritten)
        if self._transactions is not None:
            self._transactions.batch_failed(error)
        self._accumulator.release(batch)

    def drop(self, batch: ProducerBatch, error: Exception) -> None:
        """Fail a batch now; a later answer is ignored."""
        if batch.fail(error):
            self._metrics.failed(batch)
        self._accumulator.release(batch)


# The broker's answer depends on the bytes: they are checked before the batch is sent again, or split.
_ABOUT_BYTES: Final = frozenset({ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE})


def _checked(batch: ProducerBatch, answer: PartitionAnswer) -> PartitionAnswer:
    """The answer, or INVALID_RECORD for a batch that was damaged before it was sent: a retry would not help."""
    if answer.code not in _ABOUT_BYTES or batch.is_intact():
        return answer
    damaged = "The batch was damaged before it was sent: its checksum is wrong."
    return answer._replace(code=ErrorCode.INVALID_RECORD, message=damaged)


def _error_of(batch: ProducerBatch, answer: PartitionAnswer, broker: str) -> KafkaError:
    return exception_for(
        answer.code, answer.message, api="Produce", partition=str(batch.key), broker=broker
    )
