"""The producers of a partition: the basis of idempotence and of transactions on the partition.

A partition remembers the last five batches of a producer, because a client has at most five requests in flight: it
recognises a retry of any of them and answers with the offset of the first append. `producer_snapshot` has the format in
which the state is saved.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, final

from ottla.core.outcomes import Refused
from ottla.core.producer_snapshot import SnapshotDraft, SnapshotEntry, snapshot_entries
from ottla.errors import ErrorCode

RECENT_BATCHES = 5
MAX_SEQUENCE = 0x7FFFFFFF
NO_PRODUCER_ID = -1
NO_EPOCH = -1
NO_SEQUENCE = -1
NO_OFFSET = -1
# From this transaction version on, every transaction has an epoch of its own.
EPOCH_PER_TRANSACTION = 2


class LoggedBatch(NamedTuple):
    """A producer's batch in the log."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_sequence(self) -> int:
        return sequence_before(self.last_sequence, self.offset_delta)

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


_NO_BATCH: Final = LoggedBatch(NO_SEQUENCE, NO_OFFSET, 0, -1)


@final
class Append:
    """The batch or marker may be appended."""

    __slots__ = ()


APPEND: Final = Append()


class AlreadyAppended(NamedTuple):
    """The batch repeats one that is in the log."""

    batch: LoggedBatch


@final
class AlreadyEnded:
    """The marker's transaction has been ended by an earlier marker."""

    __slots__ = ()


@final
class VerificationNotNeeded:
    """The batch needs no confirmation by the coordinator."""

    __slots__ = ()


VERIFICATION_NOT_NEEDED: Final = VerificationNotNeeded()


@final
class AppendIfConfirmed:
    """The batch may be appended if the coordinator confirms its transaction before anything else happens here."""

    __slots__ = ()


APPEND_IF_CONFIRMED: Final = AppendIfConfirmed()


class ProducerBatch(NamedTuple):
    """The fields of a batch about its producer."""

    producer_id: int
    producer_epoch: int
    first_sequence: int
    last_sequence: int
    is_transactional: bool


class OpenTransaction(NamedTuple):
    """A transaction on the partition that no marker has ended."""

    producer_id: int
    first_offset: int


class EndedTransaction(NamedTuple):
    """A transaction that a marker has ended; `last_offset` is the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


@dataclass(slots=True, eq=False)
class Verification:
    """A producer is about to append the first batch of a transaction, and the coordinator is asked about it (KIP-890).

    A marker ends it: an append that was delayed until after the transaction's end must not open another transaction,
    which no producer would end.
    """

    lowest_sequence: int
    version: int
    # When `expire_verifications` first saw it.
    seen_at_ms: int | None = None


@dataclass(slots=True)
class ProducerEntry:
    """One producer id on one partition."""

    producer_id: int
    epoch: int = NO_EPOCH
    coordinator_epoch: int = -1
    last_write_ms: int = -1
    transaction_first_offset: int = NO_OFFSET
    recent_batches: deque[LoggedBatch] = field(default_factory=lambda: deque(maxlen=RECENT_BATCHES))

    @property
    def last_sequence(self) -> int:
        return self.recent_batches[-1].last_sequence if self.recent_batches else NO_SEQUENCE

    def snapshot_entries(self) -> Iterator[SnapshotEntry]:
        """One entry per recent batch, and one without a batch if there is none."""
        newest = len(self.recent_batches) - 1
        for number, logged in enumerate(self.recent_batches or (_NO_BATCH,)):
            yield SnapshotEntry(
                self.producer_id,
                self.epoch,
                logged.last_sequence,
                logged.last_offset,
                logged.offset_delta,
                # The newest has, as in Kafka, the time of the last write, which may be that of a marker.
                self.last_write_ms if number >= newest else logged.timestamp_ms,
                self.coordinator_epoch,
                self.transaction_first_offset,
            )


def sequence_after(sequence: int, count: int) -> int:
    """The sequence `count` further on; 2³¹-1 is followed by 0."""
    return (sequence + count) & MAX_SEQUENCE


def sequence_before(sequence: int, count: int) -> int:
    return (sequence - count) & MAX_SEQUENCE


def continues(previous: ProducerBatch, batch: ProducerBatch) -> bool:
    """Whether a batch is its producer's next one: then it may be appended whenever the previous one may.

    It repeats none of the producer's recent batches, since six batches have fewer than 2³¹ records; its sequence is the
    one that is expected; and its transaction is open, if it has one.
    """
    return (
        batch.producer_id == previous.producer_id
        and batch.producer_epoch == previous.producer_epoch
        and batch.is_transactional == previous.is_transactional
        and batch.first_sequence == sequence_after(previous.last_sequence, 1)
    )


def _belongs_to_ended_transaction(producer: ProducerEntry, logged: LoggedBatch) -> bool:
    """Whether a transactional batch belongs to a transaction that has ended."""
    first_offset = producer.transaction_first_offset
    return first_offset == NO_OFFSET or logged.base_offset < first_offset


def _reuses_sequence(producer: ProducerEntry, batch: ProducerBatch) -> bool:
    """Whether a batch begins with a sequence number that its producer used in an ended transaction.

    A producer that ends a transaction knows the fate of its batches and does not retry them afterwards. But librdkafka
    drops a batch that waits for its retry when the transaction is aborted, and sends another one with the same sequence
    numbers in the next transaction: to confirm that one as a repetition would lose it (ADR 0026).
    """
    return batch.is_transactional and any(
        _belongs_to_ended_transaction(producer, logged)
        and sequence_before(batch.first_sequence, logged.first_sequence) <= logged.offset_delta
        for logged in producer.recent_batches
    )


def _decide_unexpected(producer: ProducerEntry, batch: ProducerBatch) -> AlreadyAppended | Refused:
    """Decides about a batch of the current epoch that does not begin with its producer's next sequence number.

    One that does repeats none of the recent batches, and shares no sequence number with them (`continues`).
    """
    for logged in producer.recent_batches:
        if (
            logged.last_sequence == batch.last_sequence
            and logged.first_sequence == batch.first_sequence
            and not (batch.is_transactional and _belongs_to_ended_transaction(producer, logged))
        ):
            return AlreadyAppended(logged)
    if _reuses_sequence(producer, batch):
        # librdkafka then aborts the transaction and goes on under a new epoch; OUT_OF_ORDER is fatal to it.
        return Refused(ErrorCode.INVALID_TXN_STATE)
    # After a marker with a new epoch there are no batches: the producer starts at 0 again.
    return Refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


def _check_open_transaction(producer: ProducerEntry, batch: ProducerBatch) -> Refused | None:
    """Readers skip aborted records by producer id: two transactions of one must not overlap."""
    same_epoch = producer.epoch == batch.producer_epoch
    return None if same_epoch else Refused(ErrorCode.INVALID_TXN_STATE)


def _check_first(
    producer: ProducerEntry | None, batch: ProducerBatch, lowest_sequence: int, version: int
) -> Refused | None:
    """The first batch of a transaction that was confirmed, on a partition that may not know its producer.

    The producer is a new one if every transaction has an epoch of its own. If not, any sequence may be its next one,
    but none above the lowest that waits for its confirmation.
    """
    if producer is not None:
        return None
    is_new = version >= EPOCH_PER_TRANSACTION
    if batch.first_sequence > (0 if is_new else lowest_sequence):
        return Refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    return None


class ProducerStates:
    """All producers of a partition."""

    def __init__(self) -> None:
        self._producers: dict[int, ProducerEntry] = {}
        # Producers by the first offset of their open transaction.
        self._open: dict[int, int] = {}
        # By producer id and epoch; the coordinator confirms at most one of the epochs. Not durable: after a restart the
        # coordinator is asked again.
        self._verifications: dict[int, dict[int, Verification]] = {}
        self._draft: SnapshotDraft | None = None

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(self._producers.values())

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._producers.get(producer_id)

    @property
    def has_open(self) -> bool:
        """Whether a transaction is open."""
        return bool(self._open)

    @property
    def first_open_offset(self) -> int | None:
        """The first offset of the earliest open transaction."""
        return min(self._open) if self._open else None

    def verification_for(
        self, batch: ProducerBatch, version: int
    ) -> Verification | VerificationNotNeeded | Refused:
        """The verification that the append of a transactional batch needs; none if its transaction is open here."""
        producer = self._producers.get(batch.producer_id)
        if producer is not None:
            if batch.producer_epoch < producer.epoch:
                return Refused(ErrorCode.INVALID_PRODUCER_EPOCH)
            if (
                batch.producer_epoch == producer.epoch
                and producer.transaction_first_offset != NO_OFFSET
            ):
                return VERIFICATION_NOT_NEEDED
        epochs = self._verifications.setdefault(batch.producer_id, {})
        known = epochs.get(batch.producer_epoch)
        if known is None:
            known = epochs[batch.producer_epoch] = Verification(batch.first_sequence, version)
        known.lowest_sequence = min(known.lowest_sequence, batch.first_sequence)
        return known

    def decide(
        self, batch: ProducerBatch, verification: Verification | None = None
    ) -> Append | AlreadyAppended | Refused:
        """Decides about a client's batch by its sequence numbers and its transaction."""
        decision = self._decide_by_sequence(batch)
        if not isinstance(decision, Append) or not batch.is_transactional:
            return decision
        return self._check_transaction(batch, verification) or APPEND

    def decide_at_once(
        self, batch: ProducerBatch, version: int
    ) -> Append | AppendIfConfirmed | AlreadyAppended | Refused:
        """As `decide`, for a caller that can have the first batch of a transaction confirmed before it goes on.

        No marker comes in between, so no `Verification` has to be remembered.
        """
        decision = self._decide_by_sequence(batch)
        if decision is not APPEND or not batch.is_transactional:
            return decision
        producer = self._producers.get(batch.producer_id)
        if producer is not None and producer.transaction_first_offset != NO_OFFSET:
            return _check_open_transaction(producer, batch) or APPEND
        lowest_sequence = batch.first_sequence
        if batch.producer_id in self._verifications:
            known = self._verifications[batch.producer_id].get(batch.producer_epoch)
            if known is not None:
                lowest_sequence = min(lowest_sequence, known.lowest_sequence)
        refused = _check_first(producer, batch, lowest_sequence, version)
        return APPEND_IF_CONFIRMED if refused is None else refused

    def _check_transaction(
        self, batch: ProducerBatch, verification: Verification | None
    ) -> Refused | None:
        """The first batch of a transaction may be appended only with the coordinator's confirmation."""
        producer = self._producers.get(batch.producer_id)
        if producer is not None and producer.transaction_first_offset != NO_OFFSET:
            return _check_open_transaction(producer, batch)
        known = self._verifications.get(batch.producer_id, {}).get(batch.producer_epoch)
        if known is None or known is not verification:
            return Refused(ErrorCode.INVALID_TXN_STATE)
        return _check_first(producer, batch, known.lowest_sequence, known.version)

    def _decide_by_sequence(self, batch: ProducerBatch) -> Append | AlreadyAppended | Refused:
        producer = self._producers.get(batch.producer_id)
        if producer is None:
            # Retention may have deleted everything that the producer wrote, and its state with it.
            return APPEND
        if batch.producer_epoch < producer.epoch:
            return Refused(ErrorCode.INVALID_PRODUCER_EPOCH)
        if batch.producer_epoch > producer.epoch:
            if batch.first_sequence != 0 and producer.epoch != NO_EPOCH:
                return Refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        elif batch.first_sequence != sequence_after(producer.last_sequence, 1):
            return _decide_unexpected(producer, batch)
        if producer.transaction_first_offset != NO_OFFSET and not batch.is_transactional:
            return Refused(ErrorCode.INVALID_TXN_STATE)
        return APPEND

    def check_own(self, batch: ProducerBatch, verification: Verification | None) -> Refused | None:
        """Why the broker may not append its own transactional batch, whose sequence numbers mean nothing."""
        producer = self._producers.get(batch.producer_id)
        if producer is not None and batch.producer_epoch < producer.epoch:
            return Refused(ErrorCode.INVALID_PRODUCER_EPOCH)
        return self._check_transaction(batch, verification)

    def decide_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, version: int
    ) -> Append | AlreadyEnded | Refused:
        """Decides about the marker that ends a producer's transaction."""
        producer = self._producers.get(producer_id)
        if producer is None:
            return APPEND
        if epoch < producer.epoch:
            return Refused(ErrorCode.INVALID_PRODUCER_EPOCH)
        if coordinator_epoch < producer.coordinator_epoch:
            return Refused(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
        if version >= EPOCH_PER_TRANSACTION and epoch == producer.epoch:
            # A marker brings a new epoch (KIP-890): if the partition knows the epoch, it has the marker (KAFKA-19999).
            is_open = producer.transaction_first_offset != NO_OFFSET
            return Refused(ErrorCode.INVALID_PRODUCER_EPOCH) if is_open else AlreadyEnded()
        return APPEND

    def apply_batch(
        self, batch: ProducerBatch, base_offset: int, last_offset: int, now_ms: int
    ) -> None:
        """Remembers a batch that was appended."""
        producer = self._producers.get(batch.producer_id)
        if producer is None:
            producer = self._producers[batch.producer_id] = ProducerEntry(batch.producer_id)
        elif self._draft is not None:
            self._draft.before_change(producer)
        if producer.epoch != batch.producer_epoch:
            producer.epoch = batch.producer_epoch
            producer.recent_batches.clear()
        producer.recent_batches.append(
            LoggedBatch(batch.last_sequence, last_offset, last_offset - base_offset, now_ms)
        )
        producer.last_write_ms = now_ms
        self._verifications.pop(batch.producer_id, None)
        if batch.is_transactional and producer.transaction_first_offset == NO_OFFSET:
            producer.transaction_first_offset = base_offset
            self._open[base_offset] = batch.producer_id

    def apply_marker(
        self,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int,
        is_abort: bool,
        offset: int,
        now_ms: int,
    ) -> EndedTransaction | None:
        """Ends the producer's open transaction, if there is one."""
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = ProducerEntry(producer_id)
        elif self._draft is not None:
            self._draft.before_change(producer)
        if producer.epoch != epoch:
            producer.epoch = epoch
            producer.recent_batches.clear()
        producer.coordinator_epoch = coordinator_epoch
        producer.last_write_ms = now_ms
        first_offset = producer.transaction_first_offset
        if first_offset == NO_OFFSET:
            return None
        producer.transaction_first_offset = NO_OFFSET
        del self._open[first_offset]
        return EndedTransaction(producer_id, first_offset, offset, is_abort)

    def end_verifications(self, producer_id: int, epoch: int, version: int) -> None:
        """Forgets what was asked for the transaction that a new marker ends.

        A marker of version 2 has an epoch that this transaction did not have: a batch with it begins the next one. Its
        leader may have asked before the marker came, and may be answered after the coordinator has heard of the marker.
        """
        epochs = self._verifications.get(producer_id)
        if epochs is None:
            return
        for asked in list(epochs):
            if asked < epoch or version < EPOCH_PER_TRANSACTION:
                del epochs[asked]
        if not epochs:
            del self._verifications[producer_id]

    def close_below(self, offset: int) -> list[OpenTransaction]:
        """Ends the transactions that began below an offset, without a marker, and returns them."""
        closed = []
        for first_offset, producer_id in [*self._open.items()]:
            if first_offset < offset:
                del self._open[first_offset]
                self._producers[producer_id].transaction_first_offset = NO_OFFSET
                closed.append(OpenTransaction(producer_id, first_offset))
        return closed

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forgets producers without an open transaction that wrote nothing for `expiration_ms`; returns how many."""
        gone = [
            producer.producer_id
            for producer in self._producers.values()
            if producer.transaction_first_offset == NO_OFFSET
            and now_ms - producer.last_write_ms >= expiration_ms
        ]
        for producer_id in gone:
            del self._producers[producer_id]
        return len(gone)

    def expire_verifications(self, monotonic_ms: int, expiration_ms: int) -> None:
        """Forgets verifications without an append: a client could invent any number of producers."""
        for producer_id, epochs in list(self._verifications.items()):
            for epoch, verification in list(epochs.items()):
                if verification.seen_at_ms is None:
                    verification.seen_at_ms = monotonic_ms
                elif monotonic_ms - verification.seen_at_ms >= expiration_ms:
                    del epochs[epoch]
            if not epochs:
                del self._verifications[producer_id]

    def to_snapshot(self) -> bytes:
        """The state in Kafka's snapshot format."""
        return SnapshotDraft(self._producers).finish()

    def begin_snapshot(self) -> SnapshotDraft:
        """A snapshot of the present state that the caller encodes in steps, until `end_snapshot`."""
        assert self._draft is None
        self._draft = SnapshotDraft(self._producers)
        return self._draft

    def end_snapshot(self) -> None:
        """The snapshot is complete, or given up."""
        self._draft = None

    @classmethod
    def from_snapshot(cls, data: bytes) -> ProducerStates:
        """Reads a snapshot of `to_snapshot` or of Kafka."""
        states = cls()
        for entry in snapshot_entries(data):
            states.load(entry)
        return states

    def load(self, entry: SnapshotEntry) -> None:
        """Restores one entry of a snapshot; the entries of one producer come in order."""
        producer = self._producers.get(entry.producer_id)
        if producer is None:
            producer = self._producers[entry.producer_id] = ProducerEntry(entry.producer_id)
        producer.epoch = entry.producer_epoch
        producer.coordinator_epoch = entry.coordinator_epoch
        producer.last_write_ms = max(producer.last_write_ms, entry.timestamp_ms)
        producer.transaction_first_offset = entry.transaction_first_offset
        if entry.last_offset != NO_OFFSET:
            producer.recent_batches.append(
                LoggedBatch(
                    entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp_ms
                )
            )
        if entry.transaction_first_offset != NO_OFFSET:
            self._open[entry.transaction_first_offset] = entry.producer_id
