"""The producers of a partition: the basis of idempotence and of transactions on the partition.

A producer's last five batches are remembered, because a client keeps at most five requests in flight: a retry of any
of them is recognised and answered with the offset it already has.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, final

from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.records.crc import crc32c

BATCHES_KEPT = 5
MAX_SEQUENCE = 0x7FFFFFFF
NO_PRODUCER_ID = -1
NO_EPOCH = -1
NO_SEQUENCE = -1
NO_OFFSET = -1
# The transaction version from which on every transaction has an epoch of its own.
EPOCH_PER_TRANSACTION = 2

SNAPSHOT_VERSION = 1
_SNAPSHOT_START = struct.Struct(">hIi")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")


class CorruptSnapshotError(Exception):
    """A producer snapshot is damaged; the state has to come from an older one or from the log."""


class SnapshotEntry(NamedTuple):
    """One batch of a producer in a snapshot; the offset is -1 for a producer without batches."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    transaction_first_offset: int


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
    sent: deque[LoggedBatch] = field(default_factory=lambda: deque(maxlen=BATCHES_KEPT))

    @property
    def last_sequence(self) -> int:
        return self.sent[-1].last_sequence if self.sent else NO_SEQUENCE


def sequence_after(sequence: int, count: int) -> int:
    """The sequence `count` further on; 2³¹-1 is followed by 0."""
    return (sequence + count) & MAX_SEQUENCE


def sequence_before(sequence: int, count: int) -> int:
    return (sequence - count) & MAX_SEQUENCE


def _is_of_ended(producer: ProducerEntry, sent: LoggedBatch) -> bool:
    """Whether a transactional batch belongs to a transaction that has ended."""
    first_offset = producer.transaction_first_offset
    return first_offset == NO_OFFSET or sent.base_offset < first_offset


def _uses_numbers_again(producer: ProducerEntry, batch: ProducerBatch) -> bool:
    """Whether a batch begins with a sequence number that its producer used in an earlier transaction.

    A producer that ends a transaction knows the fate of its batches and does not retry them afterwards. But librdkafka
    drops a batch that waits for its retry when the transaction is aborted, and sends another one under the same numbers
    in the next transaction: to confirm that one as a repetition would lose it (ADR 0026).
    """
    return batch.is_transactional and any(
        _is_of_ended(producer, sent)
        and sequence_before(batch.first_sequence, sent.first_sequence) <= sent.offset_delta
        for sent in producer.sent
    )


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
    def first_open_offset(self) -> int | None:
        """The first offset of the earliest open transaction."""
        return min(self._open) if self._open else None

    def verification_for(
        self, batch: ProducerBatch, version: int
    ) -> Verification | VerificationNotNeeded | Refused:
        """What the append of a transactional batch has to bring; nothing if its transaction is open here."""
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

    def _check_transaction(
        self, batch: ProducerBatch, verification: Verification | None
    ) -> Refused | None:
        """The first batch of a transaction may be appended only with the coordinator's confirmation."""
        producer = self._producers.get(batch.producer_id)
        if producer is not None and producer.transaction_first_offset != NO_OFFSET:
            # Readers skip aborted records by producer id: two transactions of one must not overlap.
            same_epoch = producer.epoch == batch.producer_epoch
            return None if same_epoch else Refused(ErrorCode.INVALID_TXN_STATE)
        known = self._verifications.get(batch.producer_id, {}).get(batch.producer_epoch)
        if known is None or known is not verification:
            return Refused(ErrorCode.INVALID_TXN_STATE)
        if producer is not None:
            return None
        # The partition does not know the producer. It is a new one if every transaction has an epoch of its own. If
        # not, any sequence may be its next one, but none above the lowest that waits for its confirmation.
        is_new = known.version >= EPOCH_PER_TRANSACTION
        if batch.first_sequence > (0 if is_new else known.lowest_sequence):
            return Refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        return None

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
        else:
            for sent in producer.sent:
                if (
                    sent.last_sequence == batch.last_sequence
                    and sent.first_sequence == batch.first_sequence
                    and not (batch.is_transactional and _is_of_ended(producer, sent))
                ):
                    return AlreadyAppended(sent)
            if _uses_numbers_again(producer, batch):
                # librdkafka then aborts the transaction and goes on under a new epoch; OUT_OF_ORDER is fatal to it.
                return Refused(ErrorCode.INVALID_TXN_STATE)
            # After a marker with a new epoch there are no batches: the producer starts at 0 again.
            if batch.first_sequence != sequence_after(producer.last_sequence, 1):
                return Refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        if producer.transaction_first_offset != NO_OFFSET and not batch.is_transactional:
            return Refused(ErrorCode.INVALID_TXN_STATE)
        return APPEND

    def check_own(self, batch: ProducerBatch, verification: Verification | None) -> Refused | None:
        """Whether the broker may append a transactional batch of its own, whose sequence numbers mean nothing."""
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
            producer.sent.clear()
        producer.sent.append(
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
        self._verifications.pop(producer_id, None)
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = ProducerEntry(producer_id)
        elif self._draft is not None:
            self._draft.before_change(producer)
        if producer.epoch != epoch:
            producer.epoch = epoch
            producer.sent.clear()
        producer.coordinator_epoch = coordinator_epoch
        producer.last_write_ms = now_ms
        first_offset = producer.transaction_first_offset
        if first_offset == NO_OFFSET:
            return None
        producer.transaction_first_offset = NO_OFFSET
        del self._open[first_offset]
        return EndedTransaction(producer_id, first_offset, offset, is_abort)

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
        """Forgets producers without an open transaction that wrote nothing for long; returns how many."""
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
        """Forgets verifications whose append never came: a client could invent any number of producers."""
        for producer_id, epochs in list(self._verifications.items()):
            for epoch, verification in list(epochs.items()):
                if verification.seen_at_ms is None:
                    verification.seen_at_ms = monotonic_ms
                elif monotonic_ms - verification.seen_at_ms >= expiration_ms:
                    del epochs[epoch]
            if not epochs:
                del self._verifications[producer_id]

    def to_snapshot(self) -> bytes:
        """The state in Kafka's snapshot format, at once."""
        return SnapshotDraft(self._producers).finish()

    def begin_snapshot(self) -> SnapshotDraft:
        """A snapshot of the present state, to be written in steps until `end_snapshot`."""
        assert self._draft is None
        self._draft = SnapshotDraft(self._producers)
        return self._draft

    def end_snapshot(self) -> None:
        """The snapshot is complete, or given up."""
        self._draft = None

    @classmethod
    def from_snapshot(cls, data: bytes) -> ProducerStates:
        """Reads what `to_snapshot` or Kafka wrote."""
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
            producer.sent.append(
                LoggedBatch(
                    entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp_ms
                )
            )
        if entry.transaction_first_offset != NO_OFFSET:
            self._open[entry.transaction_first_offset] = entry.producer_id


class SnapshotDraft:
    """A snapshot that is written in steps: a producer that changes meanwhile is written before its change.

    Kafka's format, with one entry for every remembered batch instead of the last one only. Kafka's reader lets a later
    entry of the same producer replace an earlier one, so it reads these files too; ours recognises a retry of any of
    the five batches also after a restart.
    """

    def __init__(self, producers: Mapping[int, ProducerEntry]) -> None:
        self._left = dict(producers)
        self._entries = bytearray()
        self._count = 0

    @property
    def is_complete(self) -> bool:
        return not self._left

    def before_change(self, producer: ProducerEntry) -> None:
        """Writes a producer as it was; one that is newer than the snapshot is not part of it."""
        if self._left.get(producer.producer_id) is producer:
            del self._left[producer.producer_id]
            self._add(producer)

    def advance(self, count: int) -> None:
        """Writes the next `count` producers."""
        if count >= len(self._left):
            for producer in self._left.values():
                self._add(producer)
            self._left.clear()
            return
        for _ in range(count):
            self._add(self._left.popitem()[1])

    def _add(self, producer: ProducerEntry) -> None:
        kept = list(producer.sent) or [LoggedBatch(NO_SEQUENCE, NO_OFFSET, 0, -1)]
        # As in Kafka, the time of the last write, which may be that of a marker.
        kept[-1] = kept[-1]._replace(timestamp_ms=producer.last_write_ms)
        self._count += len(kept)
        for sent in kept:
            self._entries += _SNAPSHOT_ENTRY.pack(
                producer.producer_id,
                producer.epoch,
                sent.last_sequence,
                sent.last_offset,
                sent.offset_delta,
                sent.timestamp_ms,
                producer.coordinator_epoch,
                producer.transaction_first_offset,
            )

    def finish(self) -> bytes:
        """The whole snapshot."""
        self.advance(len(self._left))
        body = struct.pack(">i", self._count) + self._entries
        return struct.pack(">hI", SNAPSHOT_VERSION, crc32c(body)) + body


def snapshot_entries(data: bytes) -> Iterator[SnapshotEntry]:
    """The entries of a snapshot, one after the other; CorruptSnapshotError at once if it is damaged."""
    if len(data) < _SNAPSHOT_START.size:
        raise CorruptSnapshotError(f"{len(data)} bytes are too few")
    version, crc, count = _SNAPSHOT_START.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        raise CorruptSnapshotError(f"version {version}")
    if crc32c(memoryview(data)[6:]) != crc:
        raise CorruptSnapshotError("the checksum is wrong")
    if len(data) != _SNAPSHOT_START.size + count * _SNAPSHOT_ENTRY.size:
        raise CorruptSnapshotError(f"{count} entries do not make {len(data)} bytes")
    found = _SNAPSHOT_ENTRY.iter_unpack(memoryview(data)[_SNAPSHOT_START.size :])
    return map(SnapshotEntry._make, found)


def read_snapshot(data: bytes) -> list[SnapshotEntry]:
    """All entries of a snapshot; CorruptSnapshotError if it is damaged."""
    return list(snapshot_entries(data))
