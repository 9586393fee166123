"""The producer's action for a batch, by the broker's answer and the state of the batch.

Pure, and the only place where this is decided. The rules are those of Kafka's `Sender.completeBatch` and
`TransactionManager.canRetry` and `handleFailedBatch`; where ours differ, a comment says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from ottla.errors import Action, ErrorCode


class ProducerKind(Enum):
    """The guarantee of a producer."""

    PLAIN = "enable.idempotence=false: no sequence numbers"
    IDEMPOTENT = "sequence numbers; the producer bumps its epoch by itself"
    TRANSACTIONAL = "sequence numbers; only the coordinator gives a new epoch"


class BatchAction(Enum):
    """The producer's action for a batch that was answered."""

    COMPLETE = "its records are written"
    IGNORE = "it has ended already: delivery.timeout.ms was over, or the producer failed"
    SPLIT = "its records are sent again in smaller batches"
    RETRY = "it is sent again"
    RETRY_FROM_ZERO = (
        "its partition's sequence begins at 0 in the same epoch, then it is sent again"
    )
    RETRY_IN_NEW_EPOCH = "it is sent again when the producer has bumped its epoch"
    FAIL = "its records fail"
    FAIL_PRODUCER = "its records fail, and so does everything else that the producer sends"


class SequencePosition(Enum):
    """The sequence of a batch, compared with what the broker has acknowledged."""

    NEXT = "the broker has acknowledged everything before it"
    LATER = "batches before it are in flight"
    AFTER_LOST = "the batch right before it was given up, and may not have been written"
    LATER_THAN_LOST = "a batch was given up further before it"


class LogStart(Enum):
    """Whether the log start offset of an answer shows that the producer's records were deleted."""

    UNKNOWN = "the answer has none"
    KEEPS_RECORDS = "records that were acknowledged are still in the log"
    ALL_DELETED = (
        "retention deleted all that was acknowledged, and with it the broker's producer state"
    )


class SequenceState(NamedTuple):
    """The sequence of a batch when it is answered."""

    position: SequencePosition = SequencePosition.NEXT
    was_renumbered: bool = False
    """Whether it got another sequence while it was in flight: the answer is about the former one."""
    log_start: LogStart = LogStart.UNKNOWN


class BatchState(NamedTuple):
    """All that the decision about a batch depends on, besides the error code."""

    kind: ProducerKind
    is_done: bool = False
    has_several_records: bool = True
    has_retries_left: bool = True
    sequence: SequenceState = SequenceState()


# A duplicate is older than the batches that the broker remembers: written, at an offset that is not known.
WRITTEN: Final = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})

FATAL: Final = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""Errors of Produce after which a producer with an id cannot go on."""

FATAL_BY_KIND: Final[Mapping[ProducerKind, frozenset[ErrorCode]]] = {
    ProducerKind.PLAIN: frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED}),
    ProducerKind.IDEMPOTENT: FATAL,
    ProducerKind.TRANSACTIONAL: FATAL,
}

OUT_OF_ORDER: Final[Mapping[tuple[ProducerKind, SequencePosition], BatchAction]] = {
    # A batch before it is sent again: the broker waits for that one.
    (ProducerKind.IDEMPOTENT, SequencePosition.LATER): BatchAction.RETRY,
    (ProducerKind.TRANSACTIONAL, SequencePosition.LATER): BatchAction.RETRY,
    # The broker lost something: a gap that only a new epoch closes (KIP-360).
    (ProducerKind.IDEMPOTENT, SequencePosition.NEXT): BatchAction.RETRY_IN_NEW_EPOCH,
    (ProducerKind.IDEMPOTENT, SequencePosition.AFTER_LOST): BatchAction.RETRY_IN_NEW_EPOCH,
    # Its predecessors will show whether the lost batch was written.
    (ProducerKind.IDEMPOTENT, SequencePosition.LATER_THAN_LOST): BatchAction.RETRY,
    # The transaction is aborted, and the next one gets a new epoch.
    (ProducerKind.TRANSACTIONAL, SequencePosition.NEXT): BatchAction.FAIL,
    (ProducerKind.TRANSACTIONAL, SequencePosition.AFTER_LOST): BatchAction.FAIL,
    (ProducerKind.TRANSACTIONAL, SequencePosition.LATER_THAN_LOST): BatchAction.FAIL,
}
"""OUT_OF_ORDER_SEQUENCE_NUMBER."""

UNKNOWN_PRODUCER_IDEMPOTENT: Final[Mapping[SequencePosition, BatchAction]] = {
    # Kafka bumps here too. But a batch before it is being sent again, with a sequence from 0: with another epoch it
    # would be written twice if it arrives meanwhile.
    SequencePosition.LATER: BatchAction.RETRY,
    SequencePosition.NEXT: BatchAction.RETRY_IN_NEW_EPOCH,
    SequencePosition.AFTER_LOST: BatchAction.RETRY_IN_NEW_EPOCH,
    SequencePosition.LATER_THAN_LOST: BatchAction.RETRY_IN_NEW_EPOCH,
}
"""UNKNOWN_PRODUCER_ID, with a log start offset."""

UNKNOWN_PRODUCER_TRANSACTIONAL: Final[Mapping[LogStart, BatchAction]] = {
    LogStart.UNKNOWN: BatchAction.RETRY,
    LogStart.ALL_DELETED: BatchAction.RETRY_FROM_ZERO,
    LogStart.KEEPS_RECORDS: BatchAction.FAIL,
}


def action_for(code: ErrorCode, batch: BatchState) -> BatchAction:
    """The action for a batch that was answered with this code."""
    if code in WRITTEN:
        return BatchAction.COMPLETE
    if batch.is_done:
        return BatchAction.IGNORE
    if code is ErrorCode.MESSAGE_TOO_LARGE and batch.has_several_records:
        return BatchAction.SPLIT
    if batch.has_retries_left:
        retry = _retry_for(code, batch)
        if retry is not BatchAction.FAIL:
            return retry
    return BatchAction.FAIL_PRODUCER if code in FATAL_BY_KIND[batch.kind] else BatchAction.FAIL


def _retry_for(code: ErrorCode, batch: BatchState) -> BatchAction:
    kind, sequence = batch.kind, batch.sequence
    if kind is not ProducerKind.PLAIN:
        if code is ErrorCode.UNKNOWN_PRODUCER_ID:
            # Without the log start nothing is known, and a renumbered batch gets this error for its former sequence.
            if sequence.log_start is LogStart.UNKNOWN or sequence.was_renumbered:
                return BatchAction.RETRY
            if kind is ProducerKind.IDEMPOTENT:
                return UNKNOWN_PRODUCER_IDEMPOTENT[sequence.position]
            return UNKNOWN_PRODUCER_TRANSACTIONAL[sequence.log_start]
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            if sequence.was_renumbered and sequence.position in _NOTHING_LOST:
                return BatchAction.RETRY
            return OUT_OF_ORDER[kind, sequence.position]
    return BatchAction.RETRY if code.retriable else BatchAction.FAIL


_NOTHING_LOST: Final = frozenset({SequencePosition.NEXT, SequencePosition.LATER})


def refreshes_metadata(code: ErrorCode) -> bool:
    """Whether an error says that the client's metadata is out of date."""
    return code.action is Action.REFRESH_METADATA


# Sequences after a failure


class SequenceRepair(Enum):
    """The producer's action for the sequence of a partition whose batch has failed."""

    NONE = "as it is"
    CLOSE_GAP = "the batches behind it move up"
    RESTART = "from 0, in the same epoch"
    NEW_EPOCH = "from 0, in a new epoch"


class FailedSequence(NamedTuple):
    """A batch with a sequence that failed for good."""

    kind: ProducerKind
    is_unwritten: bool
    """Whether the broker has certainly not written it; with all retries used up that is not known."""
    is_of_current_epoch: bool = True
    is_after_acknowledged: bool = True
    """Whether no later batch of the partition was acknowledged."""


def repair_after_failure(code: ErrorCode | None, failed: FailedSequence) -> SequenceRepair:
    """The action for the sequence of a failed batch's partition; without a code, the batch was never sent."""
    is_transactional = failed.kind is ProducerKind.TRANSACTIONAL
    if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not is_transactional:
        # Kafka always bumps. Where a later batch was written there is no gap: the broker has only forgotten this one.
        # Batches in flight may be written too, and in a new epoch would be written again.
        if failed.is_of_current_epoch and not failed.is_after_acknowledged:
            return SequenceRepair.NONE
        return SequenceRepair.NEW_EPOCH
    if code is ErrorCode.UNKNOWN_PRODUCER_ID:
        # The broker has no state of the producer, and takes 0 as the next sequence.
        return SequenceRepair.RESTART if failed.is_of_current_epoch else SequenceRepair.NONE
    if not failed.is_unwritten:
        return SequenceRepair.NONE
    if not is_transactional:
        return SequenceRepair.NEW_EPOCH
    return SequenceRepair.CLOSE_GAP if failed.is_of_current_epoch else SequenceRepair.NONE
