"""The whole table of what the producer does with an answered batch, beside what Kafka's client does.

`kafkas_action` and `kafkas_repair` are Kafka's Sender.completeBatch, TransactionManager.canRetry and handleFailedBatch,
line by line. Every combination is compared; where ours differs, the test says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from ottla.client.state.producer.batch_actions import (
    FATAL,
    BatchAction,
    BatchState,
    FailedSequence,
    LogStart,
    ProducerKind,
    SequencePosition,
    SequenceRepair,
    SequenceState,
    action_for,
    refreshes_metadata,
    repair_after_failure,
)
from ottla.errors import ErrorCode

BOOLS = (False, True)
SEQUENCES = [
    SequenceState(position, was_renumbered, log_start)
    for position, was_renumbered, log_start in product(SequencePosition, BOOLS, LogStart)
]
PLAIN, IDEMPOTENT, TRANSACTIONAL = ProducerKind
LOST = (SequencePosition.AFTER_LOST, SequencePosition.LATER_THAN_LOST)


def all_states() -> Iterator[BatchState]:
    for kind, is_done, has_several, has_retries, sequence in product(
        ProducerKind, BOOLS, BOOLS, BOOLS, SEQUENCES
    ):
        yield BatchState(kind, is_done, has_several, has_retries, sequence)


def kafkas_retry(code: ErrorCode, batch: BatchState) -> BatchAction | None:
    """TransactionManager.canRetry, with its effect on epoch or sequence; None: no retry."""
    if batch.kind is PLAIN:  # Sender.canRetry: without a transaction manager
        return BatchAction.RETRY if code.retriable else None
    sequence = batch.sequence
    is_transactional = batch.kind is TRANSACTIONAL
    has_unresolved = sequence.position in LOST
    if code is ErrorCode.UNKNOWN_PRODUCER_ID:
        if sequence.log_start is LogStart.UNKNOWN or sequence.was_renumbered:
            return BatchAction.RETRY
        if sequence.log_start is LogStart.ALL_DELETED:
            if is_transactional:
                return BatchAction.RETRY_FROM_ZERO
            return BatchAction.RETRY_IN_NEW_EPOCH
        if not is_transactional:
            return BatchAction.RETRY_IN_NEW_EPOCH
    elif code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        is_next = sequence.position is SequencePosition.NEXT
        if not has_unresolved and (sequence.was_renumbered or not is_next):
            return BatchAction.RETRY
        if not is_transactional:
            follows_unresolved = sequence.position is SequencePosition.AFTER_LOST
            if not has_unresolved or follows_unresolved:
                return BatchAction.RETRY_IN_NEW_EPOCH
            return BatchAction.RETRY
    return BatchAction.RETRY if code.retriable else None


def kafkas_action(code: ErrorCode, batch: BatchState) -> BatchAction:
    """Sender.completeBatch and canRetry; delivery.timeout.ms is checked elsewhere."""
    if code is ErrorCode.MESSAGE_TOO_LARGE and batch.has_several_records and not batch.is_done:
        return BatchAction.SPLIT
    if code is ErrorCode.NONE:
        return BatchAction.COMPLETE
    if batch.has_retries_left and not batch.is_done:
        retry = kafkas_retry(code, batch)
        if retry is not None:
            return retry
    if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        return BatchAction.COMPLETE
    if batch.is_done:
        return BatchAction.IGNORE
    # failBatch: maybeTransitionToErrorState is of producers with an id; the producer without one fails in
    # handleProduceResponse's authorization check only.
    fatal = FATAL if batch.kind is not PLAIN else {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    return BatchAction.FAIL_PRODUCER if code in fatal else BatchAction.FAIL


def is_our_difference(code: ErrorCode, batch: BatchState) -> bool:
    """An idempotent batch behind others in flight: those restart at 0, a new epoch would write them twice."""
    return (
        code is ErrorCode.UNKNOWN_PRODUCER_ID
        and batch.kind is IDEMPOTENT
        and batch.sequence.position is SequencePosition.LATER
        and not batch.sequence.was_renumbered
        and batch.sequence.log_start is not LogStart.UNKNOWN
        and batch.has_retries_left
        and not batch.is_done
    )


@pytest.mark.parametrize("code", list(ErrorCode), ids=lambda code: code.name)
def test_every_state_of_a_batch_is_treated_as_in_kafka(code: ErrorCode) -> None:
    for batch in all_states():
        expected = kafkas_action(code, batch)
        if is_our_difference(code, batch):
            assert expected is BatchAction.RETRY_IN_NEW_EPOCH
            expected = BatchAction.RETRY
        assert action_for(code, batch) is expected, batch


def test_an_unknown_error_code_fails_the_batch_only() -> None:
    for kind in ProducerKind:
        assert action_for(ErrorCode(12_345), BatchState(kind)) is BatchAction.FAIL


@pytest.mark.parametrize(
    ("code", "batch", "expected"),
    [
        (ErrorCode.NONE, BatchState(PLAIN), BatchAction.COMPLETE),
        (ErrorCode.NONE, BatchState(TRANSACTIONAL, is_done=True), BatchAction.COMPLETE),
        (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, BatchState(IDEMPOTENT), BatchAction.COMPLETE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, BatchState(PLAIN), BatchAction.RETRY),
        (ErrorCode.NETWORK_EXCEPTION, BatchState(IDEMPOTENT, is_done=True), BatchAction.IGNORE),
        (
            ErrorCode.NETWORK_EXCEPTION,
            BatchState(IDEMPOTENT, has_retries_left=False),
            BatchAction.FAIL,
        ),
        (
            ErrorCode.MESSAGE_TOO_LARGE,
            BatchState(PLAIN, has_retries_left=False),
            BatchAction.SPLIT,
        ),
        (
            ErrorCode.MESSAGE_TOO_LARGE,
            BatchState(PLAIN, has_several_records=False),
            BatchAction.FAIL,
        ),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, BatchState(TRANSACTIONAL), BatchAction.FAIL),
        (ErrorCode.PRODUCER_FENCED, BatchState(TRANSACTIONAL), BatchAction.FAIL_PRODUCER),
        (ErrorCode.PRODUCER_FENCED, BatchState(PLAIN), BatchAction.FAIL),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, BatchState(PLAIN), BatchAction.FAIL_PRODUCER),
        (
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            BatchState(IDEMPOTENT),
            BatchAction.RETRY_IN_NEW_EPOCH,
        ),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, BatchState(TRANSACTIONAL), BatchAction.FAIL),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, BatchState(PLAIN), BatchAction.FAIL),
    ],
)
def test_what_happens_to_a_batch(code: ErrorCode, batch: BatchState, expected: BatchAction) -> None:
    assert action_for(code, batch) is expected


def test_metadata_is_refreshed_where_it_may_be_out_of_date() -> None:
    assert refreshes_metadata(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert refreshes_metadata(ErrorCode.UNKNOWN_TOPIC_ID)
    assert refreshes_metadata(ErrorCode.NETWORK_EXCEPTION)
    assert not refreshes_metadata(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert not refreshes_metadata(ErrorCode.MESSAGE_TOO_LARGE)


def kafkas_repair(code: ErrorCode | None, failed: FailedSequence) -> SequenceRepair:
    """TransactionManager.handleFailedBatch, for a producer that goes on."""
    is_transactional = failed.kind is TRANSACTIONAL
    if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not is_transactional:
        return SequenceRepair.NEW_EPOCH
    if code is ErrorCode.UNKNOWN_PRODUCER_ID:
        return SequenceRepair.RESTART
    if not failed.is_unwritten:
        return SequenceRepair.NONE
    return SequenceRepair.CLOSE_GAP if is_transactional else SequenceRepair.NEW_EPOCH


@pytest.mark.parametrize("code", [None, *ErrorCode])
def test_every_failure_repairs_the_sequence_as_in_kafka(code: ErrorCode | None) -> None:
    for kind, is_unwritten, is_current, is_last in product(
        (IDEMPOTENT, TRANSACTIONAL), BOOLS, BOOLS, BOOLS
    ):
        failed = FailedSequence(kind, is_unwritten, is_current, is_last)
        expected = kafkas_repair(code, failed)
        if not is_current and expected in (SequenceRepair.RESTART, SequenceRepair.CLOSE_GAP):
            # Ours keeps batches of an older epoch apart: the sequence has begun at 0 since.
            expected = SequenceRepair.NONE
        if (
            expected is SequenceRepair.NEW_EPOCH
            and code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            and is_current
            and not is_last
        ):
            # A later batch was acknowledged, so there is no gap.
            expected = SequenceRepair.NONE
        assert repair_after_failure(code, failed) is expected, failed
