"""The state of a partition apart from its bytes: offsets, high watermark, producers."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from ottla.core.aborted import AbortedSpan
from ottla.core.outcomes import Refused
from ottla.core.producer_state import (
    APPEND,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    AlreadyAppended,
    Append,
    AppendIfConfirmed,
    EndedTransaction,
    ProducerBatch,
    ProducerStates,
    Verification,
    VerificationNotNeeded,
    sequence_after,
)
from ottla.errors import ErrorCode
from ottla.records.batch import TRANSACTIONAL_BIT, BatchHeader
from ottla.records.control import EndTxnMarker, MarkerType, marker_of

Buffer = bytes | bytearray | memoryview

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
NO_EPOCH = -1


class Bounds(NamedTuple):
    """The offsets in a Fetch response; the reader may read from `start_offset` up to `end_offset`."""

    start_offset: int
    end_offset: int
    high_watermark: int
    last_stable_offset: int


class Partition:
    """The state that replaying a log gives, and that every append changes.

    Invariant: start_offset <= last_stable_offset <= high_watermark <= end_offset.
    """

    def __init__(
        self, leader_epoch: int, start_offset: int, end_offset: int, producers: ProducerStates
    ) -> None:
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.high_watermark = end_offset
        self.producers = producers
        # Transactions whose marker is above the high watermark: to readers they are still open.
        self._ended_unseen: deque[EndedTransaction] = deque()

    def check_leader_epoch(self, requested: int) -> Refused | None:
        """Whether the client knows the current leader epoch (KIP-320); -1 if the request names none."""
        if requested == NO_EPOCH or requested == self.leader_epoch:
            return None
        if requested < self.leader_epoch:
            return Refused(ErrorCode.FENCED_LEADER_EPOCH)
        return Refused(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def decide_append(
        self, header: BatchHeader, verification: Verification | None = None
    ) -> Append | AlreadyAppended | Refused:
        """Decides about a client's batch; the first one of a transaction needs a confirmed `verification`."""
        if header.producer_id <= NO_PRODUCER_ID:
            return APPEND
        return self.producers.decide(producer_batch(header), verification)

    def decide_at_once(
        self, batch: ProducerBatch, version: int
    ) -> Append | AppendIfConfirmed | AlreadyAppended | Refused:
        """As `decide_append`, for a caller that can ask the coordinator before anything else happens."""
        return self.producers.decide_at_once(batch, version)

    def verification_for(
        self, header: BatchHeader, version: int
    ) -> Verification | VerificationNotNeeded | Refused:
        """The verification that the append of a transactional batch needs; none if its transaction is open.

        So one that repeats an earlier batch needs none: what it repeats is of the open transaction.
        """
        return self.producers.verification_for(producer_batch(header), version)

    def own_verification_for(
        self, producer_id: int, producer_epoch: int, version: int
    ) -> Verification | VerificationNotNeeded | Refused:
        """As `verification_for`, for a batch that the broker writes in a producer's name."""
        batch = ProducerBatch(producer_id, producer_epoch, 0, 0, True)
        return self.producers.verification_for(batch, version)

    def check_own(
        self, producer_id: int, producer_epoch: int, verification: Verification | None
    ) -> Refused | None:
        """Whether the broker may write in a producer's name; such batches have no sequence numbers."""
        batch = ProducerBatch(producer_id, producer_epoch, 0, 0, True)
        return self.producers.check_own(batch, verification)

    def apply(
        self, header: BatchHeader, base_offset: int, data: Buffer, now_ms: int
    ) -> EndedTransaction | None:
        """Changes the state by a batch of the log: when it is appended, and again at every replay."""
        last_offset = base_offset + header.last_offset_delta
        self.end_offset = last_offset + 1
        if header.producer_id <= NO_PRODUCER_ID:
            return None
        if not header.is_control:
            self.producers.apply_batch(producer_batch(header), base_offset, last_offset, now_ms)
            return None
        marker = marker_of(data, header)
        return None if marker is None else self.apply_marker(header, marker, base_offset, now_ms)

    def apply_decided(
        self, producer: ProducerBatch | None, base_offset: int, last_offset: int, now_ms: int
    ) -> None:
        """As `apply`, for a client's batch, of which the caller knows what it says of its producer."""
        self.end_offset = last_offset + 1
        if producer is not None:
            self.producers.apply_batch(producer, base_offset, last_offset, now_ms)

    def apply_marker(
        self, header: BatchHeader, marker: EndTxnMarker, base_offset: int, now_ms: int
    ) -> EndedTransaction | None:
        """As `apply`, for the batch of a marker that the caller knows."""
        self.end_offset = base_offset + header.last_offset_delta + 1
        ended = self.producers.apply_marker(
            header.producer_id,
            header.producer_epoch,
            marker.coordinator_epoch,
            marker.type is MarkerType.ABORT,
            base_offset,
            now_ms,
        )
        if ended is not None:
            self._ended_unseen.append(ended)
        return ended

    def aborted_span(self, ended: EndedTransaction) -> AbortedSpan:
        """The index entry of a transaction that has just been aborted."""
        first_open = self.producers.first_open_offset
        stable = ended.last_offset + 1 if first_open is None else first_open
        return AbortedSpan(ended.producer_id, ended.first_offset, ended.last_offset, stable)

    def advance_high_watermark(self, offset: int) -> bool:
        """Everything below the offset is durable; returns whether the high watermark has moved."""
        assert offset <= self.end_offset, (
            f"high watermark {offset} behind the end {self.end_offset}"
        )
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        while self._ended_unseen and self._ended_unseen[0].last_offset < offset:
            self._ended_unseen.popleft()
        return True

    def trim(self, start_offset: int) -> None:
        self.start_offset = max(self.start_offset, start_offset)

    @property
    def last_stable_offset(self) -> int:
        if not self._ended_unseen and not self.producers.has_open:
            return self.high_watermark
        undecided = [ended.first_offset for ended in self._ended_unseen]
        first_open = self.producers.first_open_offset
        if first_open is not None:
            undecided.append(first_open)
        return max(self.start_offset, min((self.high_watermark, *undecided)))

    def bounds(self, isolation_level: int) -> Bounds:
        stable = self.last_stable_offset
        end_offset = stable if isolation_level == READ_COMMITTED else self.high_watermark
        return Bounds(self.start_offset, end_offset, self.high_watermark, stable)


def producer_batch(header: BatchHeader) -> ProducerBatch:
    """What a batch says of its producer."""
    # Every batch of a producer needs it twice; the properties of the header are slower.
    _, _, _, _, _, attributes, delta, _, _, producer_id, epoch, first_sequence, _ = header
    last_sequence = first_sequence
    if first_sequence != NO_SEQUENCE:
        last_sequence = sequence_after(first_sequence, delta)
    return ProducerBatch(
        producer_id, epoch, first_sequence, last_sequence, attributes & TRANSACTIONAL_BIT != 0
    )
