"""The states of a transactional producer: which calls they allow, which errors end what."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

import pytest

from ottla.client.state.producer.ongoing_transaction import OngoingTransaction
from ottla.client.state.producer.transactions import (
    SOURCES,
    CoordinatorErrorAction,
    ProducerPhase,
    Refusal,
    Transactions,
    action_for_coordinator_error,
    as_abortable,
    as_fatal,
)
from ottla.errors import (
    AbortableError,
    ErrorCode,
    FatalError,
    IllegalStateError,
    KafkaError,
    TimedOutError,
    exception_for,
)
from ottla.model import TopicPartition


class Gate:
    """What the accumulator would be told."""

    def __init__(self) -> None:
        self._refusal: Refusal | None = None

    def refuse(self, refusal: Refusal | None) -> None:
        self._refusal = refusal

    def error(self) -> BaseException | None:
        """What a send would raise."""
        return None if self._refusal is None else self._refusal()


def state_of(transactions: Transactions) -> ProducerPhase:
    return transactions.state


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def transactions(gate: Gate) -> Transactions:
    return Transactions("me", Lock(), gate.refuse)


def ready(transactions: Transactions) -> None:
    operation, is_new = transactions.begin_init()
    assert is_new
    transactions.initialized()
    operation.succeed()
    operation.is_seen = True


def failure(code: ErrorCode = ErrorCode.INVALID_RECORD) -> KafkaError:
    return AbortableError(code, "it is so", {"api": "Produce"})


def test_every_state_has_its_sources() -> None:
    assert set(SOURCES) == set(ProducerPhase)
    assert all(ProducerPhase.DEAD not in sources for sources in SOURCES.values())


def test_records_are_let_in_only_inside_a_transaction(
    transactions: Transactions, gate: Gate
) -> None:
    assert "init_transactions" in str(gate.error())
    ready(transactions)
    assert "begin_transaction" in str(gate.error())
    transactions.begin(lambda: None)
    assert gate.error() is None
    transactions.begin_commit()
    assert isinstance(gate.error(), IllegalStateError)


def test_call_that_has_not_been_seen_to_end_is_the_only_one_allowed(
    transactions: Transactions,
) -> None:
    ready(transactions)
    transactions.begin(lambda: None)
    operation, is_new = transactions.begin_commit()
    assert is_new
    assert transactions.begin_commit() == (operation, False)
    for call in (
        transactions.begin_abort,
        lambda: transactions.begin(lambda: None),
        transactions.begin_init,
    ):
        with pytest.raises(IllegalStateError, match=r"commit_transaction\(\)"):
            call()
    transactions.ended()
    operation.succeed()
    assert transactions.begin_commit() == (operation, False), "its end has not been seen"
    operation.is_seen = True
    transactions.begin(lambda: None)
    assert state_of(transactions) is ProducerPhase.IN_TRANSACTION


def test_failed_transaction_can_only_be_aborted(transactions: Transactions, gate: Gate) -> None:
    ready(transactions)
    transactions.begin(lambda: None)
    transactions.batch_failed(failure())
    transactions.batch_failed(failure(ErrorCode.INVALID_TIMESTAMP))
    assert state_of(transactions) is ProducerPhase.FAILED
    calls: list[Callable[[], object]] = [
        transactions.begin_commit,
        lambda: transactions.begin(lambda: None),
        lambda: transactions.check_open("send_offsets_to_transaction"),
    ]
    for call in calls:
        with pytest.raises(AbortableError, match="has to be aborted: it is so") as caught:
            call()
        assert caught.value.code is ErrorCode.INVALID_RECORD, "the first cause"
    assert isinstance(gate.error(), AbortableError)
    _, is_new = transactions.begin_abort()
    assert is_new
    transactions.ended()
    assert transactions.error is None


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    ],
)
def test_deadly_errors_are_for_ever(transactions: Transactions, code: ErrorCode) -> None:
    ready(transactions)
    transactions.begin(lambda: None)
    operation, _ = transactions.begin_commit()
    transactions.batch_failed(exception_for(code, "the end"))
    assert state_of(transactions) is ProducerPhase.DEAD
    assert isinstance(operation.error, FatalError)
    operation.is_seen = True
    transactions.die(failure())
    transactions.must_abort(failure(), CoordinatorErrorAction.ABORT)
    for call in (
        transactions.begin_abort,
        lambda: transactions.begin(lambda: None),
        transactions.begin_init,
    ):
        with pytest.raises(FatalError, match="the end") as caught:
            call()
        assert caught.value.code is code


@pytest.mark.parametrize(
    ("is_version_2", "can_bump", "code", "needs_init"),
    [
        (False, True, ErrorCode.INVALID_RECORD, True),
        (False, False, ErrorCode.INVALID_RECORD, False),
        (True, True, ErrorCode.INVALID_RECORD, False),
        (True, True, ErrorCode.UNKNOWN_PRODUCER_ID, False),
        (True, True, ErrorCode.INVALID_PRODUCER_ID_MAPPING, True),
    ],
)
def test_who_needs_a_new_epoch_after_a_failure(
    transactions: Transactions,
    is_version_2: bool,
    can_bump: bool,
    code: ErrorCode,
    needs_init: bool,
) -> None:
    ready(transactions)
    transactions.is_version_2 = is_version_2
    transactions.can_bump = can_bump
    transactions.begin(lambda: None)
    transactions.batch_failed(failure(code))
    assert state_of(transactions) is ProducerPhase.FAILED
    assert transactions.needs_init is needs_init
    transactions.begin_abort()
    transactions.ended()
    assert state_of(transactions) is (
        ProducerPhase.INITIALIZING if needs_init else ProducerPhase.READY
    )


def test_lost_epoch_that_cannot_be_bumped_is_the_end(transactions: Transactions) -> None:
    ready(transactions)
    transactions.can_bump = False
    transactions.begin(lambda: None)
    transactions.must_abort(failure(ErrorCode.UNKNOWN_PRODUCER_ID), CoordinatorErrorAction.BUMP)
    assert state_of(transactions) is ProducerPhase.DEAD


def test_batches_of_unknown_fate(transactions: Transactions) -> None:
    ready(transactions)
    transactions.begin(lambda: None)
    transactions.begin_abort()
    transactions.batches_lost()
    assert state_of(transactions) is ProducerPhase.ABORTING
    assert transactions.needs_init
    transactions.can_bump = False
    transactions.batches_lost()
    assert state_of(transactions) is ProducerPhase.DEAD


def test_record_that_another_thread_tries_to_send_does_not_stop_a_commit(
    transactions: Transactions,
) -> None:
    """The coordinator may have been told to commit: nothing that comes later can make it an abort."""
    ready(transactions)
    transactions.begin(lambda: None)
    transactions.begin_commit()
    transactions.record_refused(TimedOutError())
    assert state_of(transactions) is ProducerPhase.COMMITTING
    transactions.ended()
    assert state_of(transactions) is ProducerPhase.READY


def test_failure_during_an_abort_does_not_stop_it(transactions: Transactions) -> None:
    ready(transactions)
    transactions.begin(lambda: None)
    transactions.begin_abort()
    transactions.batch_failed(TimedOutError())
    assert state_of(transactions) is ProducerPhase.ABORTING
    transactions.must_abort(failure(ErrorCode.TRANSACTION_ABORTABLE), CoordinatorErrorAction.ABORT)
    assert state_of(transactions) is ProducerPhase.FAILED, (
        "the abort itself failed: it can be tried again"
    )


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, CoordinatorErrorAction.RETRY),
        (ErrorCode.CONCURRENT_TRANSACTIONS, CoordinatorErrorAction.RETRY),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, CoordinatorErrorAction.RETRY),
        (ErrorCode.NOT_COORDINATOR, CoordinatorErrorAction.FIND),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, CoordinatorErrorAction.FIND),
        (ErrorCode.TRANSACTION_ABORTABLE, CoordinatorErrorAction.ABORT),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, CoordinatorErrorAction.ABORT),
        (ErrorCode.ILLEGAL_GENERATION, CoordinatorErrorAction.ABORT),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, CoordinatorErrorAction.BUMP),
        (ErrorCode.PRODUCER_FENCED, CoordinatorErrorAction.DIE),
        (ErrorCode.INVALID_PRODUCER_EPOCH, CoordinatorErrorAction.DIE),
        (ErrorCode.INVALID_TXN_STATE, CoordinatorErrorAction.DIE),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, CoordinatorErrorAction.DIE),
    ],
)
def test_verdicts(code: ErrorCode, verdict: CoordinatorErrorAction) -> None:
    assert action_for_coordinator_error(code) is verdict


def test_old_epoch_at_the_coordinator_is_a_fence() -> None:
    """KIP-588: older coordinators say INVALID_PRODUCER_EPOCH for PRODUCER_FENCED."""
    fatal = as_fatal(exception_for(ErrorCode.INVALID_PRODUCER_EPOCH))
    assert isinstance(fatal, FatalError)
    assert fatal.code is ErrorCode.PRODUCER_FENCED
    assert isinstance(as_abortable(exception_for(ErrorCode.INVALID_TXN_STATE)), AbortableError)


def test_partitions_of_a_transaction() -> None:
    one, two = TopicPartition("t", 0), TopicPartition("t", 1)
    explicit = OngoingTransaction(is_implicit=False)
    explicit.note_partition(one)
    explicit.note_partition(one)
    assert explicit.begin_adding() == [one]
    explicit.note_partition(one)
    explicit.note_partition(two)
    assert list(explicit.new) == [two]
    assert explicit.is_started is False
    explicit.was_added([one])
    assert list(explicit.added) == [one]
    assert explicit.begin_adding() == [two]
    explicit.was_refused([two])
    assert list(explicit.added) == [one]
    implicit = OngoingTransaction(is_implicit=True)
    implicit.note_partition(one)
    assert implicit.is_started
    assert not implicit.new
    assert list(implicit.added) == [one]
