"""AddPartitionsToTxn and the verification of what is in a transaction."""

from __future__ import annotations

import pytest
from tests.core.txn.desk import ABORT, COMMIT, ID, NOW_MS, OFFSETS, A, B, Desk, became, ongoing

from ottla.core.turn import ProducerIdentity
from ottla.core.txn.states import TxnState
from ottla.errors import ErrorCode
from ottla.model import TopicPartition

NONE, ABORTABLE = ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE


def test_the_first_partition_starts_the_clock_and_the_others_do_not() -> None:
    desk = Desk()
    who = became(desk.init())
    desk.pass_time(5)
    assert desk.add(who, A) is NONE
    desk.pass_time(5)
    assert desk.add(who, B, OFFSETS) is NONE
    assert (desk.saved.started_at_ms, desk.saved.updated_at_ms) == (NOW_MS + 5, NOW_MS + 10)
    assert desk.saved.partitions == (A, B, OFFSETS)


def test_the_clock_of_the_next_transaction_is_its_own() -> None:
    desk = Desk()
    who = became(desk.end(ongoing(desk, A), COMMIT))
    desk.mark_all()
    desk.pass_time(50)
    desk.add(who, B)
    assert (desk.saved.started_at_ms, desk.saved.partitions) == (NOW_MS + 50, (B,))


def test_a_partition_that_is_there_already_is_not_written_again() -> None:
    desk = Desk()
    who = ongoing(desk, A, B)
    written = len(desk.log)
    assert desk.add(who, B, A) is NONE
    assert desk.add(who, A) is NONE
    assert len(desk.log) == written
    assert desk.saved.partitions == (A, B)


def test_no_partitions_begin_no_transaction() -> None:
    desk = Desk()
    who = became(desk.init())
    assert desk.add(who) is NONE
    assert desk.state is TxnState.EMPTY


def test_who_may_not() -> None:
    desk = Desk()
    assert desk.add(ProducerIdentity(1, 0), A) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    desk.init()
    who = became(desk.init())
    assert (
        desk.add(ProducerIdentity(1, who.producer_epoch), A)
        is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    )
    for epoch in (who.producer_epoch - 1, who.producer_epoch + 1):
        assert desk.add(ProducerIdentity(who.producer_id, epoch), A) is ErrorCode.PRODUCER_FENCED
    assert desk.state is TxnState.EMPTY


@pytest.mark.parametrize("result", [COMMIT, ABORT])
@pytest.mark.parametrize("version", [1, 2])
def test_nothing_is_added_to_what_is_prepared(result: int, version: int) -> None:
    """Also under the identity that the producer has been told already."""
    desk = Desk()
    who = ongoing(desk, A, version=version)
    after = became(desk.end(who, COMMIT if result else ABORT, version))
    for asking in (who, after):
        assert desk.add(asking, B) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert desk.verify(asking, A) == [ErrorCode.CONCURRENT_TRANSACTIONS]
    assert desk.saved.partitions == (A,)


def test_verification_says_what_is_inside() -> None:
    desk = Desk()
    who = ongoing(desk, A)
    assert desk.verify(who, A, B, A) == [NONE, ABORTABLE, NONE]
    assert desk.verify(ProducerIdentity(who.producer_id, who.producer_epoch + 1), A) == [
        ErrorCode.PRODUCER_FENCED
    ]
    assert desk.verify(ProducerIdentity(1, 0), A) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert desk.verify(who, A, name="other") == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]


@pytest.mark.parametrize("version", [1, 2])
def test_what_was_in_the_last_transaction_is_not_in_this_one(version: int) -> None:
    """Trap 1: a produce request that was delayed since the last transaction of the same epoch."""
    desk = Desk()
    who = became(desk.end(ongoing(desk, A, version=version), COMMIT, version))
    desk.mark_all()
    assert desk.verify(who, A) == [ABORTABLE]
    desk.add(who, B, version=version)
    assert desk.verify(who, A, B) == [ABORTABLE, NONE]


def test_a_restart_does_not_forget_what_has_begun() -> None:
    """Trap 2."""
    desk = Desk()
    who = ongoing(desk, A, OFFSETS)
    before = desk.snapshot()
    desk.restart()
    assert desk.snapshot() == before
    assert desk.verify(who, A, OFFSETS, B) == [NONE, NONE, ABORTABLE]
    desk.end(who, COMMIT)
    assert desk.sent[0].partitions == (A, OFFSETS)


def test_one_id_knows_nothing_of_another() -> None:
    desk = Desk()
    who = ongoing(desk, A)
    other = became(desk.init(name="other"))
    assert other.producer_id != who.producer_id
    assert desk.add(other, A) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert desk.add(who, A, name="other") is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_to_verify_many_partitions_takes_as_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader may ask for all its partitions at once, and the coordinator answers on its event loop."""
    desk = Desk()
    partitions = [TopicPartition("a", number) for number in range(2_000)]
    who = became(desk.init())
    assert desk.add(who, *partitions) is NONE
    comparisons = 0

    def equal(one: TopicPartition, other: object) -> bool:
        nonlocal comparisons
        comparisons += 1
        return tuple.__eq__(one, other)

    asked = [TopicPartition("a", number) for number in reversed(range(2_000))]
    monkeypatch.setattr(TopicPartition, "__eq__", equal)
    monkeypatch.setattr(TopicPartition, "__hash__", tuple.__hash__)
    outcomes = desk.machine.verify(ID, who, asked)
    assert outcomes == [None] * len(asked)
    assert comparisons < 10 * len(asked)
