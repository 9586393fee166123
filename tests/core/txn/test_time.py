"""Transactions that take too long, and ids that nobody uses."""

from __future__ import annotations

import pytest
from tests.core.txn.desk import (
    ABORT,
    COMMIT,
    CONFIG,
    ID,
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

SWEEP_MS = CONFIG.abort_check_interval_ms
WEEK_MS = CONFIG.id_expiration_ms


def wake(desk: Desk) -> None:
    desk.decide(desk.machine.wake)


FENCED = Refused(ErrorCode.PRODUCER_FENCED)


def timed_out(desk: Desk, version: int) -> ProducerIdentity:
    """A producer whose transaction has taken too long; partitions do not know of it yet."""
    who = ongoing(desk, A, B, version=version)
    desk.pass_time(TIMEOUT_MS)
    wake(desk)
    assert desk.state is TxnState.ONGOING
    desk.pass_time(1)
    wake(desk)  # the last sweep was just now
    assert desk.state is TxnState.ONGOING
    desk.pass_time(SWEEP_MS)
    wake(desk)
    assert (desk.state, desk.saved.producer_epoch) == (
        TxnState.PREPARE_ABORT,
        who.producer_epoch + 1,
    )
    (wanted,) = desk.sent
    assert (wanted.result, wanted.partitions) == (ABORT, (A, B))
    assert wanted.producer.producer_epoch == who.producer_epoch + 1
    return who


@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_is_aborted_at_the_sweep_after_its_timeout(version: int) -> None:
    desk = Desk()
    who = timed_out(desk, version)
    not_yet = Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert desk.end(who, COMMIT, version) == (not_yet if version == 2 else FENCED)
    desk.mark_all()
    assert desk.state is TxnState.COMPLETE_ABORT
    for asked in (1, 2):
        assert desk.end(who, COMMIT, asked) == FENCED
    assert desk.add(who, A) is ErrorCode.PRODUCER_FENCED
    assert desk.init(who) == FENCED
    assert became(desk.init()).producer_epoch == who.producer_epoch + 2
    for result in (COMMIT, ABORT):
        assert desk.end(who, result, version) == FENCED


def test_a_producer_of_version_1_whose_transaction_timed_out_is_out() -> None:
    desk = Desk()
    who = timed_out(desk, 1)
    desk.mark_all()
    for asked in (1, 2):
        assert desk.end(who, ABORT, asked) == FENCED


@pytest.mark.parametrize("restarts", [False, True])
def test_a_producer_of_version_2_whose_transaction_timed_out_goes_on_after_its_abort(
    restarts: bool,
) -> None:
    """KAFKA-20090: nobody else has become the producer, so it is told the epoch to go on with."""
    desk = Desk()
    who = timed_out(desk, 2)
    assert desk.end(who, ABORT) == Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert {wanted.version for wanted in desk.sent} == {2}
    if restarts:
        desk.restart()
    desk.mark_all()
    before = desk.snapshot()
    after = became(desk.end(who, ABORT))
    assert after == (who.producer_id, who.producer_epoch + 1)
    assert became(desk.end(who, ABORT)) == after
    assert desk.snapshot() == before
    assert desk.add(after, A) is ErrorCode.NONE
    assert desk.end(who, ABORT) == FENCED  # a repetition does not end the next one
    assert became(desk.end(after, COMMIT)).producer_epoch == after.producer_epoch + 1


@pytest.mark.parametrize("set_by_ms", [-86_400_000, 86_400_000])
def test_a_wall_clock_that_is_set_neither_delays_a_timeout_nor_makes_one(set_by_ms: int) -> None:
    desk = Desk()
    ongoing(desk, A)
    desk.now_ms += set_by_ms
    desk.pass_time(TIMEOUT_MS)
    wake(desk)
    assert desk.is_in(TxnState.ONGOING)
    desk.pass_time(SWEEP_MS)
    wake(desk)
    assert desk.is_in(TxnState.PREPARE_ABORT)


@pytest.mark.parametrize(("set_by_ms", "left_ms"), [(0, 20_000), (-86_400_000, TIMEOUT_MS)])
def test_a_coordinator_that_takes_over_counts_the_time_that_has_passed(
    set_by_ms: int, left_ms: int
) -> None:
    desk = Desk()
    ongoing(desk, A)
    desk.pass_time(TIMEOUT_MS - 20_000)
    desk.now_ms += set_by_ms
    desk.uptime_ms = 5  # another process
    desk.restart()
    desk.pass_time(left_ms)
    desk.decide(desk.machine.abort_timed_out)
    assert desk.is_in(TxnState.ONGOING)
    desk.pass_time(1)
    desk.decide(desk.machine.abort_timed_out)
    assert desk.is_in(TxnState.PREPARE_ABORT)


def test_the_machine_says_when_it_wants_to_be_woken() -> None:
    desk = Desk()
    assert desk.machine.next_wake_ms() == SWEEP_MS
    desk.pass_time(SWEEP_MS)
    wake(desk)
    assert desk.machine.next_wake_ms() == 2 * SWEEP_MS


def test_more_partitions_do_not_buy_more_time() -> None:
    desk = Desk()
    who = ongoing(desk, A)
    desk.pass_time(TIMEOUT_MS)
    desk.add(who, B)
    desk.pass_time(SWEEP_MS)
    wake(desk)
    assert desk.state is TxnState.PREPARE_ABORT


@pytest.mark.parametrize("result", [COMMIT, ABORT])
def test_what_is_prepared_has_no_timeout(result: int) -> None:
    """A partition may be away for long; who was told that it is committed is never aborted."""
    desk = Desk()
    desk.end(ongoing(desk), COMMIT if result else ABORT)
    state = desk.state
    desk.pass_time(10 * WEEK_MS)
    wake(desk)
    assert desk.state is state
    assert len(desk.sent) == 1


def test_idle_producers_do_not_time_out() -> None:
    desk = Desk()
    who = committed(desk)
    desk.pass_time(TIMEOUT_MS + SWEEP_MS)
    wake(desk)
    assert desk.who == who


def test_the_clock_of_a_transaction_goes_on_over_a_restart() -> None:
    desk = Desk()
    ongoing(desk)
    desk.pass_time(TIMEOUT_MS)
    desk.restart()
    desk.pass_time(SWEEP_MS)
    wake(desk)
    assert desk.state is TxnState.PREPARE_ABORT


def test_a_timeout_at_the_last_epoch_can_still_fence() -> None:
    desk = Desk()
    who = at_epoch(desk, LAST_EPOCH)
    desk.add(who, A, version=1)
    desk.pass_time(TIMEOUT_MS + SWEEP_MS)
    wake(desk)
    assert desk.saved.producer_epoch == LAST_EPOCH + 1
    desk.mark_all()
    assert became(desk.init()).producer_epoch == 0
    assert desk.who.producer_id != who.producer_id


def test_a_producer_that_timed_out_at_the_last_epoch_goes_on_with_another_id() -> None:
    """KAFKA-20090: when there is one; the next sweep tries again."""
    desk = Desk()
    who = at_epoch(desk, LAST_EPOCH)
    desk.add(who, A)
    desk.pass_time(TIMEOUT_MS + SWEEP_MS)
    desk.has_producer_ids = False
    wake(desk)
    assert desk.state is TxnState.ONGOING
    assert desk.end(who, ABORT) == Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    desk.has_producer_ids = True
    desk.pass_time(SWEEP_MS)
    wake(desk)
    assert desk.sent[0].producer == (who.producer_id, LAST_EPOCH + 1)
    assert desk.end(who, ABORT) == Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    desk.mark_all()
    assert desk.end(who, COMMIT) == FENCED
    after = became(desk.end(who, ABORT))
    assert after == (desk.next_producer_id, 0)
    assert desk.add(after, A) is ErrorCode.NONE


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("by", ["timeout", "init"])
def test_a_transaction_under_the_epoch_above_the_last_can_be_aborted(by: str, version: int) -> None:
    """KAFKA-20090: Kafka once told producers that epoch, and left their transactions open for ever."""
    desk = Desk()
    who = at_epoch(
        desk,
        LAST_EPOCH + 1,
        TxnState.ONGOING,
        partitions=(A,),
        started_at_ms=desk.now_ms,
        client_version=version,
    )
    assert desk.end(who, ABORT) == FENCED
    if by == "timeout":
        desk.pass_time(TIMEOUT_MS + SWEEP_MS)
        wake(desk)
    else:
        assert desk.init() == Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    # Partitions have that epoch already, so the marker is one that they take with the same epoch.
    assert [(wanted.producer, wanted.version) for wanted in desk.sent] == [(who, 1)]
    desk.mark_all()
    assert became(desk.init()) == (desk.next_producer_id, 0)


@pytest.mark.parametrize(
    "state", [TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT]
)
def test_an_id_is_forgotten_a_week_after_its_last_use(state: TxnState) -> None:
    desk = Desk()
    who = at_epoch(desk, 7, state)
    desk.pass_time(WEEK_MS - 1)
    desk.decide(desk.machine.expire)
    assert desk.who == who
    desk.pass_time(1)
    desk.decide(desk.machine.expire)
    assert desk.machine.describe(ID) is None
    assert desk.log[-1][1] is None
    desk.restart()
    assert desk.machine.list_transactions() == []
    for version in (1, 2):
        assert error_in(desk.end(who, ABORT, version)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert desk.add(who, A) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    # Never the same identity again: partitions may remember it.
    assert became(desk.init()).producer_id != who.producer_id


@pytest.mark.parametrize(
    "state",
    [TxnState.ONGOING, TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT],
    ids=lambda state: state.name,
)
def test_an_id_that_is_in_use_is_not_forgotten(state: TxnState) -> None:
    desk = Desk()
    at_epoch(desk, 7, state, partitions=(A,), started_at_ms=desk.now_ms)
    desk.pass_time(2 * WEEK_MS)
    desk.decide(desk.machine.expire)
    assert desk.state is state


def test_a_transaction_keeps_its_id_from_being_forgotten() -> None:
    desk = Desk()
    who = became(desk.init())
    for _ in range(3):
        desk.pass_time(WEEK_MS - 1)
        desk.add(who, A)
        who = became(desk.end(who, COMMIT))
        desk.mark_all()
        desk.decide(desk.machine.expire)
    assert desk.who == who
