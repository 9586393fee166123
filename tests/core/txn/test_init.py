"""InitProducerId: whoever becomes the producer of an id is the only one."""

from __future__ import annotations

import pytest
from tests.core.txn.desk import (
    ABORT,
    COMMIT,
    NOW_MS,
    TIMEOUT_MS,
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
from ottla.core.txn.states import TxnState
from ottla.errors import ErrorCode

FENCED = Refused(ErrorCode.PRODUCER_FENCED)
CONCURRENT = Refused(ErrorCode.CONCURRENT_TRANSACTIONS)


def test_the_first_producer_of_an_id_has_epoch_0() -> None:
    desk = Desk()
    assert desk.init() == ProducerIdentity(1001, 0)
    assert desk.saved.timeout_ms == TIMEOUT_MS
    assert (desk.state, desk.saved.updated_at_ms) == (TxnState.EMPTY, NOW_MS)


@pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001])
def test_a_timeout_that_is_out_of_bounds_changes_nothing(timeout_ms: int) -> None:
    desk = Desk()
    error = ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert desk.init(timeout_ms=timeout_ms) == Refused(error)
    who = ongoing(desk)
    before = desk.snapshot()
    assert desk.init(timeout_ms=timeout_ms) == Refused(error)
    assert desk.snapshot() == before
    assert error_in(desk.end(who, COMMIT)) is ErrorCode.NONE


def test_the_timeout_is_that_of_the_last_producer() -> None:
    desk = Desk()
    desk.init(timeout_ms=1)
    desk.init(timeout_ms=900_000)
    assert desk.saved.timeout_ms == 900_000


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("result", [COMMIT, ABORT])
def test_a_successor_waits_until_what_is_prepared_is_complete(version: int, result: int) -> None:
    desk = Desk()
    who = ongoing(desk, A, B, version=version)
    after = became(desk.end(who, COMMIT if result else ABORT, version))
    assert desk.init() == CONCURRENT
    assert desk.init(after) == CONCURRENT
    (wanted,) = desk.sent
    desk.mark(wanted, [A])
    assert desk.init() == CONCURRENT
    desk.mark(wanted, [B])
    assert became(desk.init()) == (after.producer_id, after.producer_epoch + 1)


def test_a_successor_aborts_what_its_predecessor_left() -> None:
    desk = Desk()
    who = ongoing(desk, A, B)
    assert desk.init() == CONCURRENT
    assert (desk.state, desk.saved.producer_epoch) == (
        TxnState.PREPARE_ABORT,
        who.producer_epoch + 1,
    )
    (wanted,) = desk.sent
    assert wanted.result is ABORT
    assert wanted.producer == (who.producer_id, who.producer_epoch + 1)
    assert wanted.partitions == (A, B)
    assert desk.init() == CONCURRENT
    assert len(desk.sent) == 1
    desk.mark_all()
    # The epoch that fenced is nobody's.
    assert became(desk.init()) == (who.producer_id, who.producer_epoch + 2)


def test_a_fenced_producer_can_do_nothing_any_more() -> None:
    desk = Desk()
    zombie = ongoing(desk)
    desk.init()
    for version in (1, 2):
        for result in (COMMIT, ABORT):
            assert error_in(desk.end(zombie, result, version)) is not ErrorCode.NONE
    desk.mark_all()
    new = became(desk.init())
    for who in (zombie, ProducerIdentity(zombie.producer_id, zombie.producer_epoch + 1)):
        before = desk.snapshot()
        assert desk.add(who, A) is ErrorCode.PRODUCER_FENCED
        assert desk.verify(who, A) == [ErrorCode.PRODUCER_FENCED]
        for version in (1, 2):
            for result in (COMMIT, ABORT):
                assert desk.end(who, result, version) == FENCED
        assert desk.init(who) == FENCED
        assert desk.snapshot() == before
    assert desk.add(new, A) is ErrorCode.NONE


def test_a_fenced_producer_is_never_told_an_identity_to_go_on_with() -> None:
    """While the abort is on its way, and when it is complete: that is not the end that it asked for."""
    desk = Desk()
    zombie = ongoing(desk)
    desk.init()
    assert isinstance(desk.end(zombie, ABORT), Refused)
    desk.mark_all()
    assert desk.end(zombie, ABORT) == FENCED
    desk.restart()
    assert desk.end(zombie, ABORT) == FENCED


# Saying who one was (KIP-360).


def test_a_producer_that_says_who_it_was_gets_the_next_epoch_and_its_retry_the_same() -> None:
    desk = Desk()
    who = became(desk.init())
    bumped = became(desk.init(who))
    assert bumped == (who.producer_id, who.producer_epoch + 1)
    assert became(desk.init(who)) == bumped
    assert became(desk.init(bumped)) == (who.producer_id, who.producer_epoch + 2)
    assert desk.init(who) == FENCED


def test_after_somebody_else_came_a_retry_is_fenced() -> None:
    desk = Desk()
    who = became(desk.init())
    desk.init(who)
    desk.init()
    assert desk.init(who) == FENCED


def test_a_retry_after_the_end_of_a_transaction_gets_the_epoch_of_its_answer() -> None:
    """The answer of EndTxn was lost, and the client begins anew with who it was (KIP-890)."""
    desk = Desk()
    who = ongoing(desk)
    after = became(desk.end(who, ABORT))
    desk.mark_all()
    assert became(desk.init(who)) == after


@pytest.mark.parametrize("back", [-1, 1, 2])
def test_a_delayed_init_of_another_epoch_does_not_end_the_transaction_that_began_since(
    back: int,
) -> None:
    """Trap 1: both were sent, the second was answered and its producer has begun; then comes the first."""
    desk = Desk()
    first = became(desk.init())
    second = became(desk.init(first))
    third = became(desk.init(second))
    assert desk.add(third, A) is ErrorCode.NONE
    before = desk.snapshot()
    delayed = ProducerIdentity(third.producer_id, third.producer_epoch - back)
    assert desk.init(delayed) == FENCED
    assert desk.snapshot() == before
    assert desk.sent == []
    assert error_in(desk.end(third, COMMIT)) is ErrorCode.NONE


def test_a_stranger_is_fenced() -> None:
    desk = Desk()
    who = became(desk.init())
    assert desk.init(ProducerIdentity(999, who.producer_epoch)) == FENCED
    desk.add(who, A)
    assert desk.init(ProducerIdentity(999, who.producer_epoch)) == FENCED
    assert desk.state is TxnState.ONGOING


# Epochs run out (trap 8).


def test_the_last_epoch_is_given_out_and_the_next_producer_gets_another_id() -> None:
    desk = Desk()
    who = at_epoch(desk, LAST_EPOCH - 1)
    assert became(desk.init()) == (who.producer_id, LAST_EPOCH)
    assert became(desk.init()) == (1001, 0)
    assert desk.saved.previous_producer_id == who.producer_id
    assert became(desk.init()) == (1001, 1)


def test_a_retry_over_the_change_of_ids_gets_the_same() -> None:
    desk = Desk()
    who = at_epoch(desk, LAST_EPOCH)
    new = became(desk.init(who))
    assert new == (1001, 0)
    assert became(desk.init(who)) == new
    assert desk.machine.durable_state()
    # Somebody else came: the retry is too late.
    desk.init()
    assert desk.init(who) == FENCED


def test_the_old_id_cannot_come_back_into_a_transaction_of_the_new_one() -> None:
    desk = Desk()
    old = at_epoch(desk, LAST_EPOCH)
    new = became(desk.init(old))
    desk.add(new, A)
    assert desk.init(old) == FENCED
    assert desk.add(old, A) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert error_in(desk.end(old, COMMIT, 1)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert desk.state is TxnState.ONGOING


def test_fencing_may_use_the_one_epoch_above_the_last() -> None:
    desk = Desk()
    who = at_epoch(desk, LAST_EPOCH)
    assert desk.add(who, A) is ErrorCode.NONE
    assert desk.init() == CONCURRENT
    assert desk.saved.producer_epoch == LAST_EPOCH + 1
    desk.restart()
    assert desk.sent[0].producer == (who.producer_id, LAST_EPOCH + 1)
    desk.mark_all()
    new = became(desk.init())
    assert new.producer_id != who.producer_id
    assert new.producer_epoch == 0
    assert desk.init(who) == FENCED


def test_the_epoch_above_the_last_belongs_to_nobody() -> None:
    """A transaction under it could not be fenced, because there is no epoch above."""
    desk = Desk()
    who = at_epoch(desk, LAST_EPOCH)
    desk.add(who, A)
    desk.init()
    desk.mark_all()
    impostor = ProducerIdentity(who.producer_id, LAST_EPOCH + 1)
    assert desk.add(impostor, A) is ErrorCode.PRODUCER_FENCED
    assert desk.state is TxnState.COMPLETE_ABORT


def test_retries_after_a_restart_are_told_who_they_are_not() -> None:
    """The epoch before the last one is not in Kafka's records: whoever names it may be a zombie."""
    desk = Desk()
    who = committed(desk)
    bumped = became(desk.init(who))
    desk.restart()
    assert desk.init(who) == FENCED
    assert became(desk.init(bumped)).producer_epoch == bumped.producer_epoch + 1


@pytest.mark.parametrize("ends", ["fenced", "timed out"])
def test_a_retry_of_before_the_fencing_does_not_get_the_epoch_that_fenced(ends: str) -> None:
    desk = Desk()
    first = became(desk.init())
    second = became(desk.init(first))
    desk.add(second, A)
    if ends == "fenced":
        desk.init()
    else:
        desk.pass_time(TIMEOUT_MS + 1)
        desk.decide(desk.machine.abort_timed_out)
    desk.mark_all()
    # The call that made the second, once more.
    assert desk.init(first) == FENCED
    assert desk.init(second) == FENCED


def test_a_retry_of_before_the_end_does_not_get_the_epoch_of_after_a_later_end() -> None:
    desk = Desk()
    first = became(desk.init())
    second = became(desk.init(first))
    desk.add(second, A)
    third = became(desk.end(second, COMMIT))
    desk.mark_all()
    assert desk.init(first) == FENCED
    assert became(desk.init(second)) == third
