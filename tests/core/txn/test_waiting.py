"""Requests that come while the last transaction ends: they wait for its markers, for a moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.core.txn.desk import COMMIT, ID, A, B, Desk, became, ongoing

from ottla.core.outcomes import Refused
from ottla.core.turn import ProducerIdentity, Turn
from ottla.core.txn.events import VERSION_1, VERSION_2
from ottla.core.txn.requests import InitRequest
from ottla.core.txn.states import TxnState
from ottla.core.txn.waiting_requests import LONGEST_WAIT_MS, MOST_OF_AN_ID
from ottla.errors import ErrorCode

CONCURRENT = Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
TIMEOUT_MS = 60_000


class Queue:
    """Requests that may wait, by their names, and what each was answered."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.answers: dict[str, Any] = {}

    def turn(self, decide: Callable[[Turn], None]) -> None:
        turn = Turn(self.desk.now_ms, self.desk.uptime_ms)
        decide(turn)
        self.desk.machine.wake(turn)
        for ticket, result in turn.answers:
            assert ticket not in self.answers, "a request is answered once"
            self.answers[ticket] = result
        self.desk.sent += turn.effects

    def ask(self, name: str, decide: Callable[[Turn], Any]) -> None:
        def decide_or_wait(turn: Turn) -> None:
            if not self.desk.machine.waits_for_end(turn, name, ID, decide):
                turn.answer(name, decide(turn))

        self.turn(decide_or_wait)

    def add(self, name: str, who: ProducerIdentity, version: int = VERSION_1) -> None:
        machine = self.desk.machine
        self.ask(name, lambda turn: machine.add_partitions(turn, ID, who, [B], version))

    def init(self, name: str, expected: ProducerIdentity | None = None) -> None:
        machine = self.desk.machine
        self.ask(name, lambda turn: machine.init(turn, InitRequest(ID, TIMEOUT_MS, expected)))

    def mark(self) -> None:
        wanted = self.desk.sent.pop(0)
        machine = self.desk.machine
        self.turn(lambda turn: machine.marked(turn, ID, wanted.producer, wanted.partitions))

    def pass_time(self, passed_ms: int) -> None:
        self.desk.pass_time(passed_ms)
        self.turn(lambda turn: None)


def ending(version: int) -> tuple[Queue, ProducerIdentity]:
    """A transaction that is prepared, and the identity that its producer goes on with."""
    desk = Desk()
    who = became(desk.end(ongoing(desk, A, version=version), COMMIT, version))
    return Queue(desk), who


def test_a_request_that_begins_the_next_transaction_waits_for_the_end_of_the_last() -> None:
    for version in (VERSION_1, VERSION_2):
        queue, who = ending(version)
        queue.add("add", who, version)
        assert queue.answers == {}
        assert queue.desk.is_in(TxnState.PREPARE_COMMIT)
        queue.mark()
        assert queue.answers == {"add": None}
        assert (queue.desk.state, queue.desk.saved.partitions) == (TxnState.ONGOING, (B,))


def test_a_new_instance_waits_and_becomes_the_producer() -> None:
    queue, who = ending(VERSION_1)
    queue.init("init")
    assert queue.answers == {}
    queue.mark()
    assert queue.answers == {"init": (who.producer_id, who.producer_epoch + 1)}


def test_a_producer_that_is_fenced_while_it_waits_is_told_so() -> None:
    queue, who = ending(VERSION_1)
    queue.init("init")
    queue.add("add", who)
    queue.mark()
    assert queue.answers["add"] == Refused(ErrorCode.PRODUCER_FENCED)
    assert queue.desk.saved.state is TxnState.EMPTY


def test_requests_are_decided_in_the_order_in_which_they_came() -> None:
    queue, who = ending(VERSION_1)
    queue.add("add", who)
    queue.init("init")
    queue.mark()
    # As without a wait: the next transaction begins, and the new instance ends it and is told to come again.
    assert queue.answers == {"add": None, "init": CONCURRENT}
    assert queue.desk.is_in(TxnState.PREPARE_ABORT)


def test_an_old_epoch_of_version_2_does_not_begin_the_next_transaction() -> None:
    queue, who = ending(VERSION_2)
    before = who._replace(producer_epoch=who.producer_epoch - 1)
    queue.add("late", before, VERSION_2)
    queue.mark()
    assert queue.answers == {"late": Refused(ErrorCode.PRODUCER_FENCED)}
    assert queue.desk.is_in(TxnState.COMPLETE_COMMIT)


def test_the_wait_has_a_bound_and_then_changes_nothing() -> None:
    queue, who = ending(VERSION_1)
    started_ms = queue.desk.uptime_ms
    queue.add("add", who)
    queue.pass_time(10)
    queue.init("init")
    assert queue.desk.machine.next_wake_ms() == started_ms + LONGEST_WAIT_MS
    before = queue.desk.snapshot()
    queue.pass_time(LONGEST_WAIT_MS - 11)
    assert queue.answers == {}
    queue.pass_time(1)
    assert queue.answers == {"add": CONCURRENT, "init": CONCURRENT}
    assert queue.desk.snapshot() == before
    queue.mark()
    assert queue.desk.is_in(TxnState.COMPLETE_COMMIT)
    assert queue.desk.machine.next_wake_ms() != started_ms + LONGEST_WAIT_MS


def test_few_requests_of_an_id_wait() -> None:
    queue, who = ending(VERSION_1)
    for number in range(MOST_OF_AN_ID + 1):
        queue.add(f"add {number}", who)
    assert queue.answers == {f"add {MOST_OF_AN_ID}": CONCURRENT}
    queue.mark()
    assert len(queue.answers) == MOST_OF_AN_ID + 1


def test_nothing_waits_for_a_transaction_that_is_open_or_over() -> None:
    desk = Desk()
    queue = Queue(desk)
    queue.init("first")
    who = became(queue.answers["first"])
    queue.add("add", who)
    queue.add("again", who)
    assert queue.answers["add"] is queue.answers["again"] is None
    # A fenced transaction ends now, which the instance that has fenced it is told as before.
    queue.init("second")
    assert queue.answers["second"] == CONCURRENT
    queue.mark()
    queue.init("third")
    assert became(queue.answers["third"]).producer_epoch == 2


@given(
    version=st.sampled_from([VERSION_1, VERSION_2]),
    steps=st.lists(st.sampled_from(["add", "init", "old", "time", "mark"]), max_size=12),
)
def test_every_request_is_answered_once_and_none_outlasts_the_end_that_it_waits_for(
    version: int, steps: list[str]
) -> None:
    queue, who = ending(version)
    old = who._replace(producer_epoch=who.producer_epoch - 1)
    for number, step in enumerate(steps):
        name = f"{step} {number}"
        if step == "add":
            queue.add(name, who, version)
        elif step == "old":
            queue.add(name, old, version)
        elif step == "init":
            queue.init(name)
        elif step == "time":
            queue.pass_time(LONGEST_WAIT_MS // 2)
        elif step == "mark" and queue.desk.sent:
            queue.mark()
        ends = queue.desk.state in (TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT)
        waits = [
            f"{asked} {place}"
            for place, asked in enumerate(steps[: number + 1])
            if asked in ("add", "init", "old") and f"{asked} {place}" not in queue.answers
        ]
        assert ends or not waits
        assert len(waits) <= MOST_OF_AN_ID
    while queue.desk.sent:
        queue.mark()
    asked = [each for each in steps if each in ("add", "init", "old")]
    assert len(queue.answers) == len(asked)
