"""Sequence numbers, by which brokers recognise duplicates and gaps (KIP-98, KIP-360).

A partition's batches get theirs when they are first sent, in the order in which they were written. Only the sender uses
this, on the loop's thread, so there is no lock.
"""

from __future__ import annotations

import logging

from ottla.client.model import NO_OFFSET
from ottla.client.state.producer.batch_actions import (
    BatchAction,
    FailedSequence,
    LogStart,
    ProducerKind,
    SequencePosition,
    SequenceRepair,
    SequenceState,
    repair_after_failure,
)
from ottla.client.state.producer.producer_batch import NO_IDENTITY, ProducerBatch, ProducerIdentity
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.records.batch import increment_sequence
from ottla.records.record import INT32_MAX

log = logging.getLogger("ottla.client")

LAST_EPOCH = 2**15 - 1
_NOTHING_ACKNOWLEDGED = -1


class PartitionSequences:
    """The sequence of one partition."""

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
        """Batches with a sequence that have not ended, in order, including those that wait for a retry."""
        self.acknowledged_sequence = _NOTHING_ACKNOWLEDGED
        self.acknowledged_order: tuple[int, ...] = ()
        self.acknowledged_offset = NO_OFFSET
        self.unresolved_sequence: int | None = None
        """The sequence after a batch that was given up, while it is not known whether that was written."""

    def is_next(self, sequence: int) -> bool:
        """Whether the broker expects this sequence, by what it has acknowledged."""
        return sequence == increment_sequence(self.acknowledged_sequence, 1)

    def restart(self, identity: ProducerIdentity) -> None:
        """Renumber the batches in flight from 0, with this identity."""
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
        """A batch failed for good: the batches behind it move up, or the broker would wait for its sequence."""
        count = failed.record_count
        self.next_sequence = _decrement(self.next_sequence, count)
        for batch in self.in_flight:
            if batch.order > failed.order:
                batch.set_sequence(batch.identity, _decrement(batch.base_sequence, count))


class Sequences:
    """The sequences of a producer's partitions, and the identity that they belong to."""

    def __init__(self, is_transactional: bool) -> None:
        self.identity = NO_IDENTITY
        self.needs_bump = False
        """Whether a new epoch is needed before more can be sent (idempotent producers bump it themselves)."""
        self.kind = ProducerKind.TRANSACTIONAL if is_transactional else ProducerKind.IDEMPOTENT
        self._is_transactional = is_transactional
        self._partitions: dict[TopicPartition, PartitionSequences] = {}
        self._to_restart: dict[TopicPartition, None] = {}

    @property
    def has_identity(self) -> bool:
        return self.identity != NO_IDENTITY

    def of(self, key: TopicPartition) -> PartitionSequences:
        """The sequence of a partition."""
        found = self._partitions.get(key)
        if found is None:
            found = self._partitions[key] = PartitionSequences()
        return found

    def set_identity(self, identity: ProducerIdentity) -> None:
        """Use a producer id and epoch that a broker gave, or that was bumped."""
        log.debug("producer id %d, epoch %d", identity.producer_id, identity.epoch)
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
            # A retried batch is sent alone, and only when it is the first in flight: the broker accepts no batch behind
            # it before.
            return not state.in_flight or state.in_flight[0] is batch
        if state.in_flight and state.identity != self.identity:
            # The first batch of a new epoch could overtake the last one of the old epoch.
            return False
        return state.unresolved_sequence is None

    def assign(self, batch: ProducerBatch) -> None:
        """Give a batch its sequence, once."""
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
        """The broker has written the batch, which may have been given up here."""
        state = self.of(batch.key)
        if batch.identity == state.identity and batch.order > state.acknowledged_order:
            state.acknowledged_order = batch.order
            state.acknowledged_sequence = batch.last_sequence
        if base_offset >= 0:
            last_offset = base_offset + batch.record_count - 1
            state.acknowledged_offset = max(state.acknowledged_offset, last_offset)
        self._remove(batch)

    def was_split(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """A batch was split: its parts have its place and its sequence."""
        in_flight = self.of(batch.key).in_flight
        if batch in in_flight:
            at = in_flight.index(batch)
            in_flight[at : at + 1] = parts

    def state_of(self, batch: ProducerBatch, log_start_offset: int) -> SequenceState:
        """The state of an answered batch's sequence, for the decision about the batch."""
        state = self.of(batch.key)
        if state.unresolved_sequence is None:
            is_next = state.is_next(batch.base_sequence)
            position = SequencePosition.NEXT if is_next else SequencePosition.LATER
        elif state.unresolved_sequence == batch.base_sequence:
            position = SequencePosition.AFTER_LOST
        else:
            position = SequencePosition.LATER_THAN_LOST
        if log_start_offset == NO_OFFSET:
            log_start = LogStart.UNKNOWN
        elif state.acknowledged_offset < log_start_offset:
            log_start = LogStart.ALL_DELETED
        else:
            log_start = LogStart.KEEPS_RECORDS
        return SequenceState(position, batch.sequence_was_reset, log_start)

    def prepare_retry(self, batch: ProducerBatch, action: BatchAction) -> None:
        """Change sequence or epoch as the retry of a batch needs it."""
        if action is BatchAction.RETRY_FROM_ZERO:
            self.of(batch.key).restart(self.identity)
        elif action is BatchAction.RETRY_IN_NEW_EPOCH:
            self.request_bump(batch.key)

    def failed(self, batch: ProducerBatch, code: ErrorCode | None, is_unwritten: bool) -> None:
        """A batch ended without success; `is_unwritten` if the broker has certainly not written it."""
        self._remove(batch)
        if not batch.has_sequence:
            return
        state = self.of(batch.key)
        failed = FailedSequence(
            self.kind,
            is_unwritten=is_unwritten,
            is_of_current_epoch=batch.identity == state.identity,
            is_after_acknowledged=batch.order > state.acknowledged_order,
        )
        repair = repair_after_failure(code, failed)
        if repair is SequenceRepair.NEW_EPOCH:
            self.request_bump(batch.key)
        elif repair is SequenceRepair.RESTART:
            # Batches in flight stay known and are renumbered, or new ones would overtake them.
            state.restart(state.identity)
        elif repair is SequenceRepair.CLOSE_GAP:
            state.close_gap(batch)

    def gave_up(self, batch: ProducerBatch) -> None:
        """A batch was given up that may have been written: the answers to its successors show whether it was."""
        self._remove(batch)
        if not batch.has_sequence:
            return
        state = self.of(batch.key)
        if batch.identity == state.identity:
            state.unresolved_sequence = increment_sequence(batch.last_sequence, 1)

    def resolve(self) -> bool:
        """Look at partitions where batches were given up; True if of some it will never be known."""
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
        """A partition needs a new epoch, in which its sequence begins at 0."""
        self.needs_bump = True
        self._to_restart[key] = None

    def bump(self) -> bool:
        """Take the next epoch, as an idempotent producer may; False if there is none, and a new id is needed."""
        assert self.needs_bump
        assert not self._is_transactional
        self.needs_bump = False
        if self.identity.epoch >= LAST_EPOCH:
            # Batches in flight are renumbered when there is a new id.
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
