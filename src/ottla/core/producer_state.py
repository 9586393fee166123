"""What a partition remembers of its producers: the basis of idempotence and of transactions on the partition.

A producer's last five batches are remembered, because a client keeps at most five requests in flight: a retry of any
of them is recognised and answered with the offset it already has.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

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
    """A producer snapshot is damaged; an older one, or the log itself, has to serve."""


class SnapshotEntry(NamedTuple):
    """What a snapshot says of one batch of a producer; of one without batches the offset is -1."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    transaction_first_offset: int


class LoggedBatch(NamedTuple):
    """A batch of a producer as it lies in the log."""

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


class ProducerBatch(NamedTuple):
    """What a batch says of its producer."""

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
    """That a producer is about to write the first batch of a transaction, and the coordinator is being asked (KIP-890).

    A marker ends it: an append that was on its way since before the transaction's end must not open another one, which
    nobody would ever end.
    """

    lowest_sequence: int
    version: int
    # When a look for what has expired first saw it.
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
    """Whether a transactional batch belongs to a transaction that is over."""
    first_offset = producer.transaction_first_offset
    return first_offset == NO_OFFSET or sent.base_offset < first_offset


def _uses_numbers_again(producer: ProducerEntry, batch: ProducerBatch) -> bool:
    """Whether a batch begins with a number that its producer used in an earlier transaction.

    Who ends a transaction knows what became of its batches, so nobody repeats them after it. But librdkafka forgets a
    batch that waits to be repeated when its transaction is aborted, and sends another one under the same numbers in the
    next transaction: to confirm that as a repetition would lose it (ADR 0026).
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
        # By producer and epoch, of which the coordinator confirms one at most. Not durable: after a restart a producer
        # has to ask again.
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
    ) -> Verification | ErrorCode | None:
        """What the append of a transactional batch has to bring; None if its transaction is open here already."""
        producer = self._producers.get(batch.producer_id)
        if producer is not None:
            if batch.producer_epoch < producer.epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            if (
                batch.producer_epoch == producer.epoch
                and producer.transaction_first_offset != NO_OFFSET
            ):
                return None
        epochs = self._verifications.setdefault(batch.producer_id, {})
        known = epochs.get(batch.producer_epoch)
        if known is None:
            known = epochs[batch.producer_epoch] = Verification(batch.first_sequence, version)
        known.lowest_sequence = min(known.lowest_sequence, batch.first_sequence)
        return known

    def check(
        self, batch: ProducerBatch, verification: Verification | None = None
    ) -> LoggedBatch | ErrorCode:
        """What becomes of a batch: NONE to append it, the earlier append that it repeats, or the error."""
        checked = self._check_order(batch)
        if checked is not ErrorCode.NONE or not batch.is_transactional:
            return checked
        return self._check_transaction(batch, verification)

    def _check_transaction(
        self, batch: ProducerBatch, verification: Verification | None
    ) -> ErrorCode:
        """The first batch of a transaction is appended only if the coordinator knows of it."""
        producer = self._producers.get(batch.producer_id)
        if producer is not None and producer.transaction_first_offset != NO_OFFSET:
            # Readers skip aborted records by producer id: two transactions of one must not overlap.
            same_epoch = producer.epoch == batch.producer_epoch
            return ErrorCode.NONE if same_epoch else ErrorCode.INVALID_TXN_STATE
        known = self._verifications.get(batch.producer_id, {}).get(batch.producer_epoch)
        if known is None or known is not verification:
            return ErrorCode.INVALID_TXN_STATE
        if producer is not None:
            return ErrorCode.NONE
        # Nobody knows the producer here: it is a new one if every transaction has an epoch of its own. If not, any
        # sequence may be its next one, but none that was sent after another that waits here.
        is_new = known.version >= EPOCH_PER_TRANSACTION
        if batch.first_sequence > (0 if is_new else known.lowest_sequence):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return ErrorCode.NONE

    def _check_order(self, batch: ProducerBatch) -> LoggedBatch | ErrorCode:
        producer = self._producers.get(batch.producer_id)
        if producer is None:
            # Retention may have taken everything that the producer wrote, and its state with it.
            return ErrorCode.NONE
        if batch.producer_epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if batch.producer_epoch > producer.epoch:
            if batch.first_sequence != 0 and producer.epoch != NO_EPOCH:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        else:
            for sent in producer.sent:
                if (
                    sent.last_sequence == batch.last_sequence
                    and sent.first_sequence == batch.first_sequence
                    and not (batch.is_transactional and _is_of_ended(producer, sent))
                ):
                    return sent
            if _uses_numbers_again(producer, batch):
                # librdkafka aborts the transaction then and goes on under a new epoch; out of order would end it.
                return ErrorCode.INVALID_TXN_STATE
            # A marker with a new epoch leaves no batches: then the producer starts at 0 again.
            if batch.first_sequence != sequence_after(producer.last_sequence, 1):
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if producer.transaction_first_offset != NO_OFFSET and not batch.is_transactional:
            return ErrorCode.INVALID_TXN_STATE
        return ErrorCode.NONE

    def check_own(self, batch: ProducerBatch, verification: Verification | None) -> ErrorCode:
        """Whether the broker may append a transactional batch of its own making; its sequence means nothing."""
        producer = self._producers.get(batch.producer_id)
        if producer is not None and batch.producer_epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return self._check_transaction(batch, verification)

    def check_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, version: int
    ) -> ErrorCode | None:
        """NONE to append a marker, None if what it says is so already, or the error."""
        producer = self._producers.get(producer_id)
        if producer is None:
            return ErrorCode.NONE
        if epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if coordinator_epoch < producer.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        if version >= EPOCH_PER_TRANSACTION and epoch == producer.epoch:
            # The marker's epoch is a new one (KIP-890): if it is here, so was the marker (KAFKA-19999).
            is_open = producer.transaction_first_offset != NO_OFFSET
            return ErrorCode.INVALID_PRODUCER_EPOCH if is_open else None
        return ErrorCode.NONE

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
        """Ends transactions that began below an offset, without a marker; says which."""
        closed = []
        for first_offset, producer_id in [*self._open.items()]:
            if first_offset < offset:
                del self._open[first_offset]
                self._producers[producer_id].transaction_first_offset = NO_OFFSET
                closed.append(OpenTransaction(producer_id, first_offset))
        return closed

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forgets producers that wrote nothing for long and have no open transaction; says how many."""
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
        """Forgets first appends that never came: a peer could make up as many producers as it likes."""
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
        """A snapshot of the state as it is now, to be made bit by bit, up to `end_snapshot`."""
        assert self._draft is None
        self._draft = SnapshotDraft(self._producers)
        return self._draft

    def end_snapshot(self) -> None:
        """A snapshot is made, or given up."""
        self._draft = None

    @classmethod
    def from_snapshot(cls, data: bytes) -> ProducerStates:
        """Reads what `to_snapshot` or Kafka wrote."""
        states = cls()
        for entry in snapshot_entries(data):
            states.load(entry)
        return states

    def load(self, entry: SnapshotEntry) -> None:
        """Takes what a snapshot says of a batch; those of one producer come in order."""
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
    """The snapshot of a state that goes on changing: what is about to change is written down before it does.

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
        """Takes a producer as it is; one that came later is none of this snapshot."""
        if self._left.get(producer.producer_id) is producer:
            del self._left[producer.producer_id]
            self._add(producer)

    def advance(self, count: int) -> None:
        """Takes so many producers."""
        if count >= len(self._left):
            for producer in self._left.values():
                self._add(producer)
            self._left.clear()
            return
        for _ in range(count):
            self._add(self._left.popitem()[1])

    def _add(self, producer: ProducerEntry) -> None:
        kept = list(producer.sent) or [LoggedBatch(NO_SEQUENCE, NO_OFFSET, 0, -1)]
        # As in Kafka, the time of the last write, which may have been a marker.
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
