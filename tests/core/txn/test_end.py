"""EndTxn, markers, and what a crash in between leaves."""

from __future__ import annotations

import pytest
from tests.core.txn.desk import (
    ABORT,
    COMMIT,
    ID,
    OFFSETS,
    A,
    B,
    Desk,
    at_epoch,
    became,
    committed,
    error_in,
    ongoing,
)

from ottla.core.outcomes import Refused
from ottla.core.turn import ProducerIdentity
from ottla.core.txn.events import LAST_EPOCH
from ottla.core.txn.states import COMPLETED, MAY_BECOME, PREPARED, Result, TxnState
from ottla.errors import ErrorCode

FENCED = Refused(ErrorCode.PRODUCER_FENCED)
CONCURRENT = Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
INVALID_STATE = Refused(ErrorCode.INVALID_TXN_STATE)
BOTH = pytest.mark.parametrize("result", [COMMIT, ABORT])
VERSIONS = pytest.mark.parametrize("version", [1, 2])


def opposite(result: Result) -> Result:
    return ABORT if result is COMMIT else COMMIT


def test_the_table_lets_nothing_out_of_prepare_but_its_own_complete() -> None:
    for result, prepared in PREPARED.items():
        assert MAY_BECOME[prepared] == (COMPLETED[prepared],)
        assert COMPLETED[prepared].name == f"COMPLETE_{result.name}"
    into_commit = [state for state, then in MAY_BECOME.items() if TxnState.PREPARE_COMMIT in then]
    assert into_commit == [TxnState.ONGOING]


@BOTH
@VERSIONS
def test_prepare_is_written_before_markers_and_complete_after_all_of_them(
    result: Result, version: int
) -> None:
    desk = Desk()
    who = ongoing(desk, A, B, OFFSETS, version=version)
    after = became(desk.end(who, result, version))
    bump = 1 if version == 2 else 0
    assert after == (who.producer_id, who.producer_epoch + bump)
    assert desk.state is PREPARED[result]
    (wanted,) = desk.sent
    assert (wanted.producer, wanted.result, wanted.version) == (after, result, version)
    assert wanted.partitions == (A, B, OFFSETS)
    for partition in (OFFSETS, A):
        desk.mark(wanted, [partition])
        assert desk.state is PREPARED[result]
    desk.mark(wanted, [B])
    assert desk.state is COMPLETED[PREPARED[result]]
    assert desk.saved.partitions == ()
    assert desk.who == after


@BOTH
@VERSIONS
def test_a_retry_waits_for_the_markers_and_then_hears_the_same(
    result: Result, version: int
) -> None:
    desk = Desk()
    who = ongoing(desk, version=version)
    answer = desk.end(who, result, version)
    assert desk.end(who, result, version) == CONCURRENT
    assert len(desk.sent) == 1
    desk.mark_all()
    assert desk.end(who, result, version) == answer
    desk.restart()
    assert desk.end(who, result, version) == answer
    assert desk.sent == []


@BOTH
@VERSIONS
def test_the_opposite_end_is_refused(result: Result, version: int) -> None:
    """Who was told that it is committed is never told that it is aborted, and the reverse."""
    desk = Desk()
    who = ongoing(desk, version=version)
    refused = refusal_of_the_opposite(result, version)
    desk.end(who, result, version)
    assert desk.end(who, opposite(result), version) == CONCURRENT  # until the markers are there
    desk.mark_all()
    before = desk.snapshot()
    assert desk.end(who, opposite(result), version) == refused
    desk.restart()
    assert desk.end(who, opposite(result), version) == refused
    assert desk.snapshot() == before


def refusal_of_the_opposite(result: Result, version: int = 2) -> Refused:
    """KAFKA-20785: who wants to commit what was aborted was too late, most probably, and is out."""
    too_late = version == 2 and result is ABORT
    return Refused(ErrorCode.PRODUCER_FENCED) if too_late else INVALID_STATE


@BOTH
@pytest.mark.parametrize("late", [COMMIT, ABORT])
@pytest.mark.parametrize("restarts", [False, True])
def test_an_end_that_is_a_transaction_late_does_not_end_the_next_one(
    result: Result, late: Result, restarts: bool
) -> None:
    """Trap 1, KAFKA-17754: the reason for an epoch per transaction."""
    desk = Desk()
    who = ongoing(desk)
    after = became(desk.end(who, result))
    desk.mark_all()
    assert desk.add(after, B) is ErrorCode.NONE
    if restarts:
        desk.restart()
    before = desk.snapshot()
    assert desk.end(who, late) == FENCED
    assert desk.snapshot() == before
    # And two late, when the next is prepared, and when it is complete.
    last = became(desk.end(after, COMMIT))
    assert desk.end(who, late) in (FENCED, CONCURRENT)
    assert desk.state is TxnState.PREPARE_COMMIT
    desk.mark_all()
    assert desk.end(who, late) == FENCED
    assert desk.who == last


@VERSIONS
def test_what_has_not_begun_cannot_be_committed(version: int) -> None:
    desk = Desk()
    who = became(desk.init())
    assert desk.end(who, COMMIT, version) == INVALID_STATE
    after = committed(desk)
    assert desk.end(after, COMMIT) == INVALID_STATE
    assert desk.sent == []


def test_what_has_not_begun_can_be_aborted_by_a_client_that_cannot_know() -> None:
    """With version 2 the first write may have failed before it began anything."""
    desk = Desk()
    who = became(desk.init())
    assert desk.end(who, ABORT, 1) == INVALID_STATE
    after = became(desk.end(who, ABORT))
    assert after == (who.producer_id, who.producer_epoch + 1)
    assert (desk.state, desk.sent) == (TxnState.COMPLETE_ABORT, [])
    # A retry is told the same, the next abort goes on.
    assert became(desk.end(who, ABORT)) == after
    assert became(desk.end(after, ABORT)).producer_epoch == after.producer_epoch + 1


def test_a_client_that_changes_to_version_2_can_abort_what_has_not_begun() -> None:
    desk = Desk()
    who = committed(desk, version=1)
    assert became(desk.end(who, ABORT)) == (who.producer_id, who.producer_epoch + 1)


def test_who_may_not_end() -> None:
    desk = Desk()
    mapping = Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    for version in (1, 2):
        assert desk.end(ProducerIdentity(1, 0), COMMIT, version) == mapping
    desk.init()
    who = became(desk.init())
    desk.add(who, A)
    before = desk.snapshot()
    for version in (1, 2):
        assert desk.end(ProducerIdentity(1, who.producer_epoch), COMMIT, version) == mapping
        for epoch in (who.producer_epoch - 1, who.producer_epoch + 1):
            assert desk.end(ProducerIdentity(who.producer_id, epoch), ABORT, version) == FENCED
    assert desk.snapshot() == before


# The whole table, as in Kafka 4: TransactionCoordinator.endTransaction and endTransactionWithTV1.

EPOCH = 7
ENDS = "an end"  # the transaction is ended, or an abort of nothing written
NOT_READY, OUT = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.PRODUCER_FENCED
WRONG_STATE, UNKNOWN = ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING

# By state: commit and abort of the epoch before, of the current one, of the one after, and of another producer id.
OF_VERSION_2: dict[TxnState, tuple[object, ...]] = {
    TxnState.EMPTY: (OUT, OUT, WRONG_STATE, ENDS, OUT, OUT, UNKNOWN, UNKNOWN),
    TxnState.ONGOING: (OUT, OUT, ENDS, ENDS, OUT, OUT, UNKNOWN, UNKNOWN),
    TxnState.PREPARE_COMMIT: (NOT_READY,) * 8,
    TxnState.PREPARE_ABORT: (NOT_READY,) * 8,
    TxnState.COMPLETE_COMMIT: (
        *(ErrorCode.NONE, WRONG_STATE, WRONG_STATE, ENDS),
        *(OUT, OUT, UNKNOWN, UNKNOWN),
    ),
    TxnState.COMPLETE_ABORT: (
        *(OUT, ErrorCode.NONE, WRONG_STATE, ENDS),  # the first is KAFKA-20785
        *(OUT, OUT, UNKNOWN, UNKNOWN),
    ),
}
OF_VERSION_1: dict[TxnState, tuple[object, ...]] = {
    TxnState.EMPTY: (OUT, OUT, WRONG_STATE, WRONG_STATE, OUT, OUT, UNKNOWN, UNKNOWN),
    TxnState.ONGOING: (OUT, OUT, ENDS, ENDS, OUT, OUT, UNKNOWN, UNKNOWN),
    TxnState.PREPARE_COMMIT: (OUT, OUT, NOT_READY, NOT_READY, OUT, OUT, UNKNOWN, UNKNOWN),
    TxnState.PREPARE_ABORT: (OUT, OUT, NOT_READY, NOT_READY, OUT, OUT, UNKNOWN, UNKNOWN),
    TxnState.COMPLETE_COMMIT: (OUT, OUT, ErrorCode.NONE, WRONG_STATE, OUT, OUT, UNKNOWN, UNKNOWN),
    TxnState.COMPLETE_ABORT: (OUT, OUT, WRONG_STATE, ErrorCode.NONE, OUT, OUT, UNKNOWN, UNKNOWN),
}


@pytest.mark.parametrize("before", [1, 2], ids=["of version 1", "of version 2"])
@VERSIONS
@pytest.mark.parametrize("state", list(OF_VERSION_2), ids=lambda state: state.title)
def test_every_end_is_answered_as_by_kafka(state: TxnState, version: int, before: int) -> None:
    """`before` is the version of the transaction that is under way, or of the one before."""
    asking = [
        ProducerIdentity(500, EPOCH - 1),
        ProducerIdentity(500, EPOCH),
        ProducerIdentity(500, EPOCH + 1),
        ProducerIdentity(501, EPOCH),
    ]
    asked = [(who, result) for who in asking for result in (COMMIT, ABORT)]
    table = OF_VERSION_2 if version == 2 else OF_VERSION_1
    answers: list[object] = []
    for who, result in asked:
        desk = Desk()
        at_epoch(
            desk,
            EPOCH,
            state,
            client_version=before,
            partitions=(A,) if state in (TxnState.ONGOING, *PREPARED.values()) else (),
            started_at_ms=desk.now_ms,
        )
        saved = desk.snapshot()
        error = error_in(desk.end(who, result, version))
        assert error is ErrorCode.NONE or desk.snapshot() == saved
        answers.append(ENDS if desk.snapshot() != saved else error)
    wanted = list(table[state])
    if (
        version == 2
        and before == 1
        and state in (TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT)
    ):
        # The one place where Kafka differs: it takes a producer that InitProducerId has fenced for one that repeats.
        wanted[:2] = [OUT, OUT]
    assert answers == wanted


def test_who_names_an_id_that_was_used_up_is_fenced_until_the_next_transaction() -> None:
    desk = Desk()
    old = at_epoch(desk, LAST_EPOCH)
    new = became(desk.init())
    assert new.producer_id != old.producer_id
    for result in (COMMIT, ABORT):
        assert desk.end(old, result) == FENCED
        assert error_in(desk.end(old, result, 1)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    desk.add(new, A)
    assert error_in(desk.end(old, ABORT)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


# Epochs run out.


@BOTH
def test_the_end_that_uses_the_last_epoch_gives_another_id(result: Result) -> None:
    desk = Desk()
    who = at_epoch(desk, LAST_EPOCH)
    assert desk.add(who, A) is ErrorCode.NONE
    after = became(desk.end(who, result))
    assert after == (1001, 0)
    # The markers are of the old id, or they would not end what it wrote.
    assert desk.sent[0].producer == (who.producer_id, LAST_EPOCH + 1)
    assert desk.end(who, result) == CONCURRENT
    assert desk.end(who, opposite(result)) == CONCURRENT
    assert desk.add(after, B) is ErrorCode.CONCURRENT_TRANSACTIONS
    desk.restart()
    assert desk.sent[0].producer == (who.producer_id, LAST_EPOCH + 1)
    desk.mark_all()
    assert (desk.who, desk.saved.previous_producer_id) == (after, who.producer_id)
    # The answer was lost.
    assert became(desk.end(who, result)) == after
    assert desk.end(who, opposite(result)) == refusal_of_the_opposite(result)
    assert desk.add(desk.who, B) is ErrorCode.NONE
    # Now it is too late.
    assert error_in(desk.end(who, result)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert desk.state is TxnState.ONGOING


def test_an_abort_of_nothing_at_the_last_epoch_gives_another_id() -> None:
    desk = Desk()
    who = at_epoch(desk, LAST_EPOCH)
    after = became(desk.end(who, ABORT))
    assert after == (1001, 0)
    assert desk.who == after
    assert became(desk.end(who, ABORT)) == after


def test_version_1_goes_on_with_the_last_epoch() -> None:
    desk = Desk()
    who = at_epoch(desk, LAST_EPOCH)
    for _ in range(3):
        assert desk.add(who, A, version=1) is ErrorCode.NONE
        assert became(desk.end(who, COMMIT, 1)) == who
        desk.mark_all()
    assert desk.who == who


def test_the_id_before_the_last_is_no_retry() -> None:
    desk = Desk()
    first = at_epoch(desk, LAST_EPOCH)
    second = became(desk.end(first, ABORT))
    desk.plant(desk.saved._replace(producer_epoch=LAST_EPOCH))
    third = became(desk.end(ProducerIdentity(second.producer_id, LAST_EPOCH), ABORT))
    assert error_in(desk.end(first, ABORT)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert desk.who == third


# Markers.


@BOTH
def test_what_is_prepared_goes_on_after_a_restart(result: Result) -> None:
    desk = Desk()
    who = ongoing(desk, A, B)
    desk.end(who, result)
    (before,) = desk.sent
    # One partition had its marker, which nobody remembers: it is told again.
    desk.mark(before, [A])
    desk.restart()
    assert desk.sent == [before]
    desk.restart()
    assert desk.sent == [before]
    desk.mark_all()
    assert desk.state is COMPLETED[PREPARED[result]]


def test_a_marker_is_counted_once_and_only_for_its_own_transaction() -> None:
    desk = Desk()
    who = ongoing(desk, A, B)
    desk.end(who, COMMIT)
    (first,) = desk.sent
    desk.mark(first, [A, A])
    desk.mark(first, [A])
    assert desk.is_in(TxnState.PREPARE_COMMIT)
    desk.mark(first, [B])
    after = desk.who
    desk.mark(first)
    assert desk.add(after, A, B) is ErrorCode.NONE
    desk.mark(first)
    assert desk.is_in(TxnState.ONGOING)
    desk.end(after, ABORT)
    # Answers that were on their way since the first transaction.
    desk.mark(first)
    assert desk.is_in(TxnState.PREPARE_ABORT)
    desk.mark_all()
    desk.mark(first)
    assert desk.is_in(TxnState.COMPLETE_ABORT)


def test_markers_of_an_id_that_nobody_knows_are_ignored() -> None:
    desk = Desk()
    desk.decide(lambda turn: desk.machine.marked(turn, "unknown", ProducerIdentity(1, 1), [A]))
    assert desk.log == []


def test_a_transaction_with_offsets_only_gets_its_marker() -> None:
    """Trap 7."""
    desk = Desk()
    desk.end(ongoing(desk, OFFSETS), COMMIT)
    assert desk.sent[0].partitions == (OFFSETS,)


def test_every_decision_is_written_so_that_a_replay_gives_the_same() -> None:
    desk = Desk()
    who = ongoing(desk, A)
    for result in (COMMIT, ABORT, COMMIT):
        after = became(desk.end(who, result))
        desk.mark_all()
        assert desk.add(after, A, B) is ErrorCode.NONE
        who = after
        before = desk.snapshot()
        desk.restart()
        assert desk.snapshot() == before
    assert list(desk.machine._saved) == [ID]


@BOTH
def test_a_retry_over_the_change_of_ids_is_one_only_until_the_next_transaction(
    result: Result,
) -> None:
    desk = Desk()
    old = at_epoch(desk, LAST_EPOCH)
    desk.add(old, A)
    new = became(desk.end(old, result))
    desk.mark_all()
    desk.add(new, A)
    last = became(desk.end(new, result))
    mapping = Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    assert desk.end(old, result) in (mapping, CONCURRENT)
    desk.mark_all()
    assert desk.end(old, result) == mapping
    assert desk.who == last


def test_a_retry_over_the_change_of_ids_is_none_after_somebody_else_came() -> None:
    desk = Desk()
    old = at_epoch(desk, LAST_EPOCH)
    desk.end(old, ABORT)
    desk.init()
    assert error_in(desk.end(old, ABORT)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
