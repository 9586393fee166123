from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.core.fetch_session import (
    FINAL_EPOCH,
    IDLE_MS,
    INITIAL_EPOCH,
    MAX_EPOCH,
    NO_SESSION,
    FetchContext,
    FetchSessions,
    FetchTarget,
    Key,
)
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode

TOPIC_ID = uuid.UUID(int=9)


def target(partition: int, fetch_offset: int = 0) -> tuple[Key, FetchTarget]:
    made = FetchTarget("orders", TOPIC_ID, partition, fetch_offset, 1000, -1, -1)
    return ("orders", partition), made


def opened(
    sessions: FetchSessions,
    session_id: int,
    epoch: int,
    *partitions: int,
    forgotten: tuple[int, ...] = (),
    now_ms: int = 0,
    fresh_id: int = 77,
) -> FetchContext:
    made = sessions.open(
        session_id,
        epoch,
        [target(partition) for partition in partitions],
        [("orders", partition) for partition in forgotten],
        False,
        now_ms,
        fresh_id,
    )
    assert isinstance(made, FetchContext)
    return made


def partitions_of(context: FetchContext) -> list[int]:
    return [found.partition for _, found in context.targets]


def test_a_full_request_begins_a_session_and_a_later_one_names_only_changes() -> None:
    sessions = FetchSessions(10)
    first = opened(sessions, NO_SESSION, INITIAL_EPOCH, 0, 1)
    assert (first.session_id, first.is_incremental) == (77, False)
    second = opened(sessions, 77, 1, 2, forgotten=(0,))
    assert second.is_incremental
    assert partitions_of(second) == [1, 2]


def test_a_request_outside_of_sessions_has_none() -> None:
    sessions = FetchSessions(10)
    context = opened(sessions, NO_SESSION, FINAL_EPOCH, 0)
    assert (context.session_id, context.is_incremental, partitions_of(context)) == (0, False, [0])
    assert len(sessions) == 0


def test_the_final_epoch_ends_a_session() -> None:
    sessions = FetchSessions(10)
    opened(sessions, NO_SESSION, INITIAL_EPOCH, 0)
    opened(sessions, 77, FINAL_EPOCH)
    assert 77 not in sessions
    answer = sessions.open(77, 1, [], [], False, 0, 78)
    assert answer == Refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)


def test_a_full_request_replaces_the_session_that_it_names() -> None:
    sessions = FetchSessions(1)
    opened(sessions, NO_SESSION, INITIAL_EPOCH, 0)
    context = opened(sessions, 77, INITIAL_EPOCH, 1, fresh_id=78)
    assert (context.session_id, partitions_of(context)) == (78, [1])
    assert 77 not in sessions


@pytest.mark.parametrize("epoch", [2, 5])
def test_a_wrong_epoch_changes_nothing(epoch: int) -> None:
    sessions = FetchSessions(10)
    opened(sessions, NO_SESSION, INITIAL_EPOCH, 0)
    answer = sessions.open(77, epoch, [target(1)], [], False, 0, 78)
    assert answer == Refused(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    assert partitions_of(opened(sessions, 77, 1)) == [0]


def test_a_session_keeps_to_names_or_to_ids() -> None:
    sessions = FetchSessions(10)
    opened(sessions, NO_SESSION, INITIAL_EPOCH, 0)
    answer = sessions.open(77, 1, [], [], True, 0, 78)
    assert answer == Refused(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)


def test_epochs_go_on_at_1_after_the_largest() -> None:
    sessions = FetchSessions(10)
    context = opened(sessions, NO_SESSION, INITIAL_EPOCH, 0)
    assert context.session is not None
    context.session.next_epoch = MAX_EPOCH
    opened(sessions, 77, MAX_EPOCH)
    opened(sessions, 77, 1)


def test_a_session_that_reads_nothing_any_more_ends() -> None:
    sessions = FetchSessions(10)
    opened(sessions, NO_SESSION, INITIAL_EPOCH, 0)
    context = opened(sessions, 77, 1, forgotten=(0,))
    assert (context.session_id, context.targets) == (NO_SESSION, [])
    assert len(sessions) == 0


def test_a_full_cache_gives_away_only_sessions_that_nobody_uses() -> None:
    sessions = FetchSessions(2)
    opened(sessions, NO_SESSION, INITIAL_EPOCH, 0, fresh_id=1)
    opened(sessions, NO_SESSION, INITIAL_EPOCH, 0, fresh_id=2, now_ms=10)
    opened(sessions, 1, 1, now_ms=20)
    refused = opened(sessions, NO_SESSION, INITIAL_EPOCH, 0, fresh_id=3, now_ms=9 + IDLE_MS)
    assert refused.session_id == NO_SESSION
    taken = opened(sessions, NO_SESSION, INITIAL_EPOCH, 0, fresh_id=4, now_ms=10 + IDLE_MS)
    assert taken.session_id == 4
    assert 1 in sessions
    assert 2 not in sessions


def test_no_slots_mean_no_sessions() -> None:
    assert opened(FetchSessions(0), NO_SESSION, INITIAL_EPOCH, 0).session_id == NO_SESSION


def test_an_incremental_answer_mentions_only_what_is_new() -> None:
    _, found = target(0)
    assert found.record_response(False, 5, 0, False)
    assert not found.record_response(False, 5, 0, False)
    assert found.record_response(False, 5, 0, True)
    assert found.record_response(False, 6, 0, False)
    assert found.record_response(False, 6, 1, False)
    assert not found.record_response(False, 6, 1, False)


def test_an_error_is_always_told_and_so_is_its_end() -> None:
    _, found = target(0)
    found.record_response(False, 5, 0, False)
    for _ in range(2):
        assert found.record_response(True, 5, 0, False)
    assert found.record_response(False, 5, 0, False)
    assert not found.record_response(False, 5, 0, False)


def test_a_partition_that_gave_records_comes_last_next_time() -> None:
    sessions = FetchSessions(10)
    context = opened(sessions, NO_SESSION, INITIAL_EPOCH, 0, 1, 2)
    assert context.mentions(("orders", 0), True, True)
    assert context.mentions(("orders", 1), False, False), "a full answer mentions every partition"
    later = opened(sessions, 77, 1)
    assert partitions_of(later) == [1, 2, 0]
    assert not later.mentions(("orders", 1), False, False)


def test_a_named_partition_takes_the_new_offset_and_keeps_what_was_told() -> None:
    sessions = FetchSessions(10)
    context = opened(sessions, NO_SESSION, INITIAL_EPOCH, 0)
    context.targets[0][1].record_response(False, 5, 0, False)
    made = sessions.open(77, 1, [target(0, fetch_offset=42)], [], False, 0, 78)
    assert isinstance(made, FetchContext)
    (_, found) = made.targets[0]
    assert (found.fetch_offset, found.told_high_watermark) == (42, 5)


class SessionMachine(RuleBasedStateMachine):
    """Many consumers against a dict of what each of them reads."""

    slots = 3

    def __init__(self) -> None:
        super().__init__()
        self.sessions = FetchSessions(self.slots)
        self.now_ms = 0
        self.next_id = 1
        # By session: next epoch, when it was last used, partitions and offsets.
        self.known: dict[int, tuple[int, int, dict[int, int]]] = {}

    partitions = st.dictionaries(st.integers(0, 4), st.integers(0, 99), max_size=3)

    def _open(
        self, session_id: int, epoch: int, wanted: dict[int, int], forgotten: list[int]
    ) -> FetchContext | Refused:
        fresh_id, self.next_id = self.next_id, self.next_id + 1
        # Every use has a moment of its own, so that only one session is the longest unused.
        self.now_ms += 1
        return self.sessions.open(
            session_id,
            epoch,
            [target(partition, offset) for partition, offset in wanted.items()],
            [("orders", partition) for partition in forgotten],
            False,
            self.now_ms,
            fresh_id,
        )

    @rule(wanted=partitions, replaced=st.integers(0, 12))
    def full_request(self, wanted: dict[int, int], replaced: int) -> None:
        self.known.pop(replaced, None)
        fresh_id = self.next_id
        context = self._open(replaced, INITIAL_EPOCH, wanted, [])
        assert isinstance(context, FetchContext)
        assert {found.partition: found.fetch_offset for _, found in context.targets} == wanted
        oldest = min(self.known, key=lambda found: self.known[found][1], default=None)
        room = len(self.known) < self.slots
        if not room and oldest is not None and self.now_ms - self.known[oldest][1] >= IDLE_MS:
            room = True
            if wanted:
                del self.known[oldest]
        if wanted and room:
            assert context.session_id == fresh_id
            self.known[fresh_id] = (1, self.now_ms, dict(wanted))
        else:
            assert context.session_id == NO_SESSION

    @rule(
        session_id=st.integers(1, 12),
        wanted=partitions,
        forgotten=st.lists(st.integers(0, 4), max_size=3),
        wrong=st.sampled_from([0, 0, 0, 1]),
    )
    def incremental_request(
        self, session_id: int, wanted: dict[int, int], forgotten: list[int], wrong: int
    ) -> None:
        if session_id not in self.known:
            answer = self._open(session_id, 1, wanted, forgotten)
            assert answer == Refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            return
        epoch, _, reads = self.known[session_id]
        answer = self._open(session_id, epoch + wrong, wanted, forgotten)
        if wrong:
            assert answer == Refused(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
            return
        assert isinstance(answer, FetchContext)
        reads |= wanted
        for partition in forgotten:
            reads.pop(partition, None)
        assert {found.partition: found.fetch_offset for _, found in answer.targets} == reads
        if reads:
            self.known[session_id] = (epoch + 1, self.now_ms, reads)
        else:
            del self.known[session_id]
        assert answer.session_id == (session_id if reads else NO_SESSION)

    @rule(session_id=st.integers(1, 12), wanted=partitions)
    def final_request(self, session_id: int, wanted: dict[int, int]) -> None:
        self.known.pop(session_id, None)
        context = self._open(session_id, FINAL_EPOCH, wanted, [])
        assert isinstance(context, FetchContext)
        assert context.session_id == NO_SESSION

    @rule(passed_ms=st.sampled_from([1, 1000, IDLE_MS]))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    @invariant()
    def the_same_sessions_exist(self) -> None:
        assert len(self.sessions) == len(self.known) <= self.slots
        assert all(session_id in self.sessions for session_id in self.known)


TestFetchSessions: Any = SessionMachine.TestCase
TestFetchSessions.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
