"""Deadlines against the simplest thing that does the same: a dict that is searched."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.core.deadlines import Deadlines

KEYS = st.sampled_from("abcde")
TIMES = st.integers(0, 20)


def due_by(deadlines: Deadlines[str], now_ms: int) -> list[str]:
    found = []
    while (key := deadlines.pop_due(now_ms)) is not None:
        found.append(key)
    return found


def test_nothing_is_due_where_nothing_was_set() -> None:
    deadlines: Deadlines[str] = Deadlines()
    assert deadlines.next_ms() is None
    assert deadlines.pop_due(1 << 60) is None
    assert len(deadlines) == 0


def test_a_deadline_is_due_at_its_time_and_once() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 10)
    assert deadlines.pop_due(9) is None
    assert "a" in deadlines
    assert due_by(deadlines, 10) == ["a"]
    assert "a" not in deadlines
    assert due_by(deadlines, 10) == []


def test_deadlines_are_due_in_the_order_of_their_times() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for key, due_ms in (("c", 30), ("a", 10), ("d", 40), ("b", 20)):
        deadlines.set(key, due_ms)
    assert due_by(deadlines, 30) == ["a", "b", "c"]
    assert deadlines.next_ms() == 40


def test_deadlines_of_the_same_time_are_due_in_the_order_in_which_they_were_set() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for key in "cab":
        deadlines.set(key, 10)
    assert due_by(deadlines, 10) == ["c", "a", "b"]


def test_a_deadline_that_moves_later_is_not_due_earlier() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 10)
    deadlines.set("a", 20)
    assert due_by(deadlines, 19) == []
    assert deadlines.next_ms() == 20
    assert due_by(deadlines, 20) == ["a"]


def test_a_deadline_that_moved_later_is_found_by_looking_when_told() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for key in "abc":
        deadlines.set(key, 10)
        deadlines.set(key, 20)
    looks = []
    while (next_ms := deadlines.next_ms()) is not None:
        looks.append((next_ms, due_by(deadlines, next_ms)))
    assert looks == [(10, []), (20, ["a", "b", "c"])]


def test_a_deadline_that_moves_earlier_is_due_earlier_and_once() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 20)
    deadlines.set("a", 10)
    assert due_by(deadlines, 10) == ["a"]
    assert due_by(deadlines, 20) == []
    assert deadlines.next_ms() is None


def test_a_deadline_that_was_cancelled_is_never_due() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 10)
    deadlines.cancel("a")
    deadlines.cancel("never set")
    assert len(deadlines) == 0
    assert deadlines.next_ms() is None
    assert due_by(deadlines, 10) == []


def test_a_deadline_that_was_cancelled_and_set_again_is_due_at_the_new_time() -> None:
    for first_ms, second_ms in ((10, 20), (20, 10), (10, 10)):
        deadlines: Deadlines[str] = Deadlines()
        deadlines.set("a", first_ms)
        deadlines.cancel("a")
        deadlines.set("a", second_ms)
        assert due_by(deadlines, second_ms - 1) == []
        assert due_by(deadlines, second_ms) == ["a"]
        assert due_by(deadlines, 100) == []


def test_a_deadline_that_often_moves_later_takes_no_room() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for due_ms in range(10_000):
        deadlines.set("a", due_ms)
    assert len(deadlines._heap) == 1


def test_a_key_that_comes_and_goes_takes_no_room() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for now_ms in range(10_000):
        deadlines.set("a", now_ms + 10)
        assert due_by(deadlines, now_ms) == []
        deadlines.cancel("a")
    assert len(deadlines._heap) <= 1
    assert deadlines.next_ms() is None
    assert (deadlines._heap, deadlines._queued_ms) == ([], {})


class DeadlinesModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.deadlines: Deadlines[str] = Deadlines()
        self.expected: dict[str, int] = {}
        self.now_ms = 0

    @rule(key=KEYS, delay_ms=TIMES)
    def set(self, key: str, delay_ms: int) -> None:
        self.deadlines.set(key, self.now_ms + delay_ms)
        self.expected[key] = self.now_ms + delay_ms

    @rule(key=KEYS)
    def cancel(self, key: str) -> None:
        self.deadlines.cancel(key)
        self.expected.pop(key, None)

    @rule(passed_ms=TIMES)
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        found = due_by(self.deadlines, self.now_ms)
        due = {key: due_ms for key, due_ms in self.expected.items() if due_ms <= self.now_ms}
        assert len(found) == len(set(found))
        assert set(found) == set(due)
        assert [due[key] for key in found] == sorted(due.values())
        for key in due:
            del self.expected[key]

    @rule()
    def pop_one(self) -> None:
        found = self.deadlines.pop_due(self.now_ms)
        if found is None:
            assert not self.expected or min(self.expected.values()) > self.now_ms
        else:
            assert self.expected[found] == min(self.expected.values())
            del self.expected[found]

    @rule()
    def look(self) -> None:
        found = self.deadlines.next_ms()
        if self.expected:
            assert found is not None
            assert found <= min(self.expected.values())
        else:
            assert found is None

    @invariant()
    def the_same_keys(self) -> None:
        assert len(self.deadlines) == len(self.expected)
        assert all(key in self.deadlines for key in self.expected)


TestDeadlinesModel = DeadlinesModel.TestCase
TestDeadlinesModel.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
