"""Sequence numbers: what makes a retried batch no duplicate and a lost one no gap (KIP-98, KIP-360).

A partition's batches are numbered when they are first sent, in the order in which they were written. Everything here
happens on the sender's side, so there is no lock.
"""

from __future__ import annotations

import logging

from ottla.client.model import NO_OFFSET
from ottla.client.state.producer.producer_batch import NO_IDENTITY, ProducerBatch, ProducerIdentity
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.records.batch import increment_sequence
from ottla.records.record import INT32_MAX

log = logging.getLogger("ottla.client")

LAST_EPOCH = 2**15 - 1
_NOTHING_ACKNOWLEDGED = -1


class PartitionSequences:
    """The numbers of one partition."""

    __slots__ = (
        "acknowledged_offset",
        "acknowledged_order",
        "acknowledged_sequence",
        "identity",
        "in_flight",
        "next_sequence",
        "unresolved_sequence",
    )

    def __init__(self) -> None:
        self.identity = NO_IDENTITY
        self.next_sequence = 0
        self.in_flight: list[ProducerBatch] = []
        """Batches with numbers that have not ended, in order; those that wait for a retry too."""
        self.acknowledged_sequence = _NOTHING_ACKNOWLEDGED
        self.acknowledged_order: tuple[int, ...] = ()
        self.acknowledged_offset = NO_OFFSET
        self.unresolved_sequence: int | None = None
        """The number after a batch that was given up, while nobody knows whether it was written."""

    def is_next(self, sequence: int) -> bool:
        """Whether the broker expects this number, as far as it has told."""
        return sequence == increment_sequence(self.acknowledged_sequence, 1)

    def restart(self, identity: ProducerIdentity) -> None:
        """Number what is in flight from 0 again, for a new epoch."""
        sequence = 0
        for batch in self.in_flight:
            batch.set_sequence(identity, sequence)
            sequence = increment_sequence(sequence, batch.record_count)
        self.identity = identity
        self.next_sequence = sequence
        self.acknowledged_sequence = _NOTHING_ACKNOWLEDGED
        self.acknowledged_order = ()
        self.unresolved_sequence = None

    def close_gap(self, failed: ProducerBatch) -> None:
        """A batch was refused for good: those behind it move up, or the broker would wait for its numbers."""
        count = failed.record_count
        self.next_sequence = _decrement(self.next_sequence, count)
        for batch in self.in_flight:
            if batch.order > failed.order:
                batch.set_sequence(batch.identity, _decrement(batch.base_sequence, count))


class Sequences:
    """The numbers of a producer, and the identity that they belong to."""

    def __init__(self, is_transactional: bool) -> None:
        self.identity = NO_IDENTITY
        self.needs_bump = False
        """Whether a new epoch is needed before more can be sent (idempotent producers take it themselves)."""
        self._is_transactional = is_transactional
        self._partitions: dict[TopicPartition, PartitionSequences] = {}
        self._to_restart: dict[TopicPartition, None] = {}

    @property
    def has_identity(self) -> bool:
        return self.identity != NO_IDENTITY

    def of(self, key: TopicPartition) -> PartitionSequences:
        """The numbers of a partition."""
        found = self._partitions.get(key)
        if found is None:
            found = self._partitions[key] = PartitionSequences()
        return found

    def set_identity(self, identity: ProducerIdentity) -> None:
        """The coordinator has told who we are."""
        log.debug("the producer is %d with epoch %d", identity.producer_id, identity.epoch)
        self.identity = identity
        if self._to_restart:
            self._restart_partitions()

    def restart_all(self, identity: ProducerIdentity) -> None:
        """A transaction is over and the next one has a new epoch: every partition begins at 0."""
        self._partitions.clear()
        self._to_restart.clear()
        self.needs_bump = False
        self.set_identity(identity)

    # Before sending

    def may_send(self, batch: ProducerBatch) -> bool:
        """Whether sending the batch now keeps the order of its partition."""
        if not self.has_identity or self.needs_bump:
            return False
        state = self.of(batch.key)
        if batch.has_sequence:
            # One that is retried goes alone, and only when it is the first of those in flight: what follows it
            # cannot be accepted before it.
            return not state.in_flight or state.in_flight[0] is batch
        if state.in_flight and state.identity != self.identity:
            # The epochs must not mix: the new one's first batch could overtake the old one's last.
            return False
        return state.unresolved_sequence is None

    def assign(self, batch: ProducerBatch) -> None:
        """Give a batch its numbers, once."""
        if batch.has_sequence:
            return
        state = self.of(batch.key)
        if state.identity != self.identity:
            state.restart(self.identity)
        batch.set_sequence(self.identity, state.next_sequence)
        state.next_sequence = increment_sequence(state.next_sequence, batch.record_count)
        state.in_flight.append(batch)

    # After sending

    def acknowledged(self, batch: ProducerBatch, base_offset: int) -> None:
        """The broker has the batch, though it may have been given up here."""
        state = self.of(batch.key)
        if batch.identity == state.identity and batch.order > state.acknowledged_order:
            state.acknowledged_order = batch.order
            state.acknowledged_sequence = batch.last_sequence
        if base_offset >= 0:
            last_offset = base_offset + batch.record_count - 1
            state.acknowledged_offset = max(state.acknowledged_offset, last_offset)
        self._remove(batch)

    def was_split(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Others have taken the place of a batch, with its numbers."""
        in_flight = self.of(batch.key).in_flight
        if batch in in_flight:
            at = in_flight.index(batch)
            in_flight[at : at + 1] = parts

    def may_retry(self, batch: ProducerBatch, code: ErrorCode, log_start_offset: int) -> bool:
        """Whether a batch that was answered with an error is sent again, perhaps with new numbers."""
        if code is ErrorCode.UNKNOWN_PRODUCER_ID:
            return self._may_retry_unknown(batch, log_start_offset)
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return self._may_retry_out_of_order(batch)
        return code.retriable

    def _may_retry_unknown(self, batch: ProducerBatch, log_start_offset: int) -> bool:
        state = self.of(batch.key)
        # Without the log's start nothing can be said, and a batch with new numbers gets this error for its old ones.
        if log_start_offset == NO_OFFSET or batch.sequence_was_reset:
            return True
        if self._is_transactional:
            # Retention removed all that we wrote, and with it what the broker knew of us.
            if state.acknowledged_offset < log_start_offset:
                state.restart(self.identity)
                return True
            return False
        if state.unresolved_sequence is None and not state.is_next(batch.base_sequence):
            # Something before it is on its way again, with numbers from 0. Another epoch now would have it written a
            # second time if it arrives meanwhile.
            return True
        self.request_bump(batch.key)
        return True

    def _may_retry_out_of_order(self, batch: ProducerBatch) -> bool:
        state = self.of(batch.key)
        is_resolved = state.unresolved_sequence is None
        if is_resolved and (batch.sequence_was_reset or not state.is_next(batch.base_sequence)):
            # Something before it is on its way again.
            return True
        if self._is_transactional:
            return False
        if is_resolved or state.unresolved_sequence == batch.base_sequence:
            # There is a gap: what was before it has been lost.
            self.request_bump(batch.key)
        return True

    def failed(self, batch: ProducerBatch, code: ErrorCode | None, is_final: bool) -> None:
        """A batch ended without success; `is_final` if the broker has certainly not written it."""
        self._remove(batch)
        if not batch.has_sequence:
            return
        state = self.of(batch.key)
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not self._is_transactional:
            # Where a later one was written there is no gap: the broker has only forgotten that it knows this one. Those
            # in flight may be there too, and a new epoch would have them written again.
            if batch.identity != state.identity or batch.order > state.acknowledged_order:
                self.request_bump(batch.key)
        elif code is ErrorCode.UNKNOWN_PRODUCER_ID:
            # The broker knows nothing and takes 0 as the next number. What is in flight has to stay known, or new
            # batches would overtake it.
            if batch.identity == state.identity:
                state.restart(state.identity)
        elif is_final:
            if self._is_transactional:
                if batch.identity == state.identity:
                    state.close_gap(batch)
            else:
                self.request_bump(batch.key)

    def gave_up(self, batch: ProducerBatch) -> None:
        """A batch that may have been written was given up: whether it was, its successors will show."""
        self._remove(batch)
        if not batch.has_sequence:
            return
        state = self.of(batch.key)
        if batch.identity == state.identity:
            state.unresolved_sequence = increment_sequence(batch.last_sequence, 1)

    def resolve(self) -> bool:
        """Look at partitions where batches were given up; True if nobody will ever know about some."""
        is_lost = False
        for key, state in self._partitions.items():
            if state.unresolved_sequence is None or state.in_flight:
                continue
            if not state.is_next(state.next_sequence):
                is_lost = True
                if not self._is_transactional:
                    self.request_bump(key)
            state.unresolved_sequence = None
        return is_lost

    # A new epoch

    def request_bump(self, key: TopicPartition) -> None:
        """A partition needs a new epoch, in which its numbers begin at 0."""
        self.needs_bump = True
        self._to_restart[key] = None

    def bump(self) -> bool:
        """Take the next epoch, as an idempotent producer may; False if the id is used up and a new one is needed."""
        assert self.needs_bump
        assert not self._is_transactional
        self.needs_bump = False
        if self.identity.epoch >= LAST_EPOCH:
            # What is in flight gets its numbers with the new id.
            self.identity = NO_IDENTITY
            return False
        self.set_identity(self.identity._replace(epoch=self.identity.epoch + 1))
        return True

    def _restart_partitions(self) -> None:
        for key in self._to_restart:
            self.of(key).restart(self.identity)
        self._to_restart.clear()

    def _remove(self, batch: ProducerBatch) -> None:
        state = self._partitions.get(batch.key)
        if state is not None and batch in state.in_flight:
            state.in_flight.remove(batch)


def _decrement(sequence: int, by: int) -> int:
    return (sequence - by) & INT32_MAX
