"""What a member makes of the coordinator's answers, in whatever order they come."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.client.state.group.membership import (
    COMMIT_REACTIONS,
    HEARTBEAT_REACTIONS,
    JOIN_REACTIONS,
    SYNC_REACTIONS,
    TRANSITIONS,
    AfterError,
    CommitFailure,
    Event,
    Generation,
    Membership,
    MemberState,
    Reset,
    truncated_reason,
)
from ottla.errors import ErrorCode

CODES = st.sampled_from([code for code in ErrorCode if code is not ErrorCode.NONE])


def stable_member(instance_id: str | None = None) -> Membership:
    member = Membership(instance_id)
    member.join_sent()
    assert member.joined(Generation(3, "me", "range"))
    assert member.synced()
    return member


class Answers(RuleBasedStateMachine):
    """Requests are sent, and any of them is answered at any time, with anything."""

    def __init__(self) -> None:
        super().__init__()
        self.member = Membership()
        self.generations = 0
        self.sent = [self.member.generation]

    generations_sent = st.integers(0, 100)

    def some_sent(self, index: int) -> Generation:
        return self.sent[index % len(self.sent)]

    @rule()
    def request_rejoin(self) -> None:
        self.member.request_rejoin("the metadata has changed")

    @precondition(lambda self: self.member.rejoin_needed)
    @rule()
    def join(self) -> None:
        self.sent.append(self.member.join_sent())
        self.member.needs_prepare = False
        assert self.member.state is MemberState.JOINING

    @rule()
    def join_answered(self) -> None:
        self.generations += 1
        generation = Generation(self.generations, f"member-{self.generations}", "range")
        was_joining = self.member.state is MemberState.JOINING
        assert self.member.joined(generation) == was_joining
        if was_joining:
            self.sent.append(generation)

    @rule(code=CODES, index=generations_sent)
    def join_refused(self, code: ErrorCode, index: int) -> None:
        self.failed("join", code, self.some_sent(index))

    @rule()
    def sync_answered(self) -> None:
        was_syncing = self.member.state is MemberState.SYNCING
        assert self.member.synced() == was_syncing
        if was_syncing:
            assert not self.member.rejoin_needed

    @rule(code=CODES, index=generations_sent)
    def sync_refused(self, code: ErrorCode, index: int) -> None:
        self.failed("sync", code, self.some_sent(index))

    @rule(code=CODES, index=generations_sent)
    def heartbeat_refused(self, code: ErrorCode, index: int) -> None:
        self.failed("heartbeat", code, self.some_sent(index))

    @rule(code=CODES, index=generations_sent)
    def commit_refused(self, code: ErrorCode, index: int) -> None:
        before = self.member.state, self.member.generation
        outcome = self.member.commit_failed(code, self.some_sent(index))
        if outcome is CommitFailure.STALE and code is not ErrorCode.FENCED_INSTANCE_ID:
            assert self.member.state is MemberState.UNJOINED
        else:
            assert (self.member.state, self.member.generation) == before

    @rule()
    def leave(self) -> None:
        self.member.left("done")
        assert self.member.generation == Generation()

    @precondition(lambda self: self.member.heartbeats)
    @rule()
    def nobody_polls(self) -> None:
        self.member.left_after_poll_timeout()
        assert self.member.poll_timed_out

    def failed(self, what: str, code: ErrorCode, sent: Generation) -> None:
        before = self.member.state, self.member.generation
        current = sent == self.member.generation
        if what == "join":
            self.member.join_failed(code, sent, "given")
            if code is ErrorCode.MEMBER_ID_REQUIRED:
                assert self.member.generation == Generation(member_id="given")
                self.member.left("the broker is confused")
                return
        elif what == "sync":
            self.member.sync_failed(code, sent)
        else:
            self.member.heartbeat_failed(code, sent)
        changed = (self.member.state, self.member.generation) != before
        assert not changed or current, "an error about the past changed the present"
        if changed and code is ErrorCode.ILLEGAL_GENERATION:
            assert self.member.generation.member_id == before[1].member_id

    @invariant()
    def only_a_member_with_a_generation_heartbeats(self) -> None:
        if self.member.heartbeats:
            assert not self.member.generation.is_reset
            assert not self.member.generation.is_lost

    @invariant()
    def whoever_is_out_joins_again(self) -> None:
        if self.member.state is MemberState.UNJOINED:
            assert self.member.rejoin_needed
            assert self.member.needs_prepare
            assert self.member.generation.generation_id == -1

    @invariant()
    def only_a_stable_member_has_nothing_to_do(self) -> None:
        if not self.member.rejoin_needed:
            assert self.member.state is MemberState.STABLE
        stable = self.member.state is MemberState.STABLE
        assert (self.member.stable_generation is not None) == stable


TestAnswers = Answers.TestCase


def test_a_reset_and_a_join_are_possible_in_every_state() -> None:
    for state in MemberState:
        assert TRANSITIONS[state, Event.RESET] is MemberState.UNJOINED
        assert TRANSITIONS[state, Event.JOIN_SENT] is MemberState.JOINING


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_a_refusal_that_trying_again_does_not_help_is_told(code: ErrorCode) -> None:
    member = Membership()
    sent = member.join_sent()
    assert member.join_failed(code, sent, "") is AfterError.TELL


def test_the_given_member_id_is_joined_with_at_once() -> None:
    member = Membership()
    sent = member.join_sent()
    step = member.join_failed(ErrorCode.MEMBER_ID_REQUIRED, sent, "given")
    assert step is AfterError.JOIN_AGAIN
    assert member.join_sent() == Generation(member_id="given")


@pytest.mark.parametrize("reactions", [JOIN_REACTIONS, SYNC_REACTIONS, HEARTBEAT_REACTIONS])
@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_coordinator_that_moved_is_looked_up(
    reactions: dict[ErrorCode, tuple[AfterError, Reset]], code: ErrorCode
) -> None:
    assert reactions[code][0] is AfterError.FIND_COORDINATOR
    assert COMMIT_REACTIONS[code].next is AfterError.FIND_COORDINATOR


def test_a_heartbeat_during_a_rebalance_asks_a_stable_member_to_rejoin() -> None:
    member = stable_member()
    step = member.heartbeat_failed(ErrorCode.REBALANCE_IN_PROGRESS, member.generation)
    assert step is AfterError.JOIN_AGAIN
    assert member.rejoin_needed
    assert member.state is MemberState.STABLE, "it keeps its partitions until it joins"


def test_a_heartbeat_during_its_own_rejoin_is_ignored() -> None:
    member = stable_member()
    sent = member.generation
    member.join_sent()
    assert member.heartbeat_failed(ErrorCode.REBALANCE_IN_PROGRESS, sent) is AfterError.IGNORE


def test_an_answer_to_joingroup_after_leaving_means_nothing() -> None:
    member = Membership()
    member.join_sent()
    member.left("the consumer unsubscribed")
    assert not member.joined(Generation(1, "me", "range"))
    assert member.state is MemberState.UNJOINED


def test_a_fenced_static_member_is_told_so() -> None:
    member = stable_member("one")
    sent = member.generation
    assert member.heartbeat_failed(ErrorCode.FENCED_INSTANCE_ID, sent) is AfterError.TELL
    assert member.generation == Generation()
    assert member.is_fenced
    # A commit that was under way then is not told that it was the time between polls.
    assert member.commit_failed(ErrorCode.FENCED_INSTANCE_ID, sent) is AfterError.TELL


def test_a_commit_of_a_former_generation_during_a_rejoin_is_no_reason_to_start_over() -> None:
    member = stable_member()
    old = Generation(2, "me", "range")
    member.join_sent()
    failure = member.commit_failed(ErrorCode.ILLEGAL_GENERATION, old)
    assert failure is CommitFailure.REBALANCING
    assert member.state is MemberState.JOINING


def test_only_dynamic_members_say_goodbye() -> None:
    assert stable_member().sends_leave
    assert not stable_member("static").sends_leave
    assert not Membership().sends_leave


def test_leaving_for_rare_polls_is_remembered_until_the_next_join() -> None:
    member = stable_member()
    member.left_after_poll_timeout()
    assert member.poll_timed_out
    member.join_sent()
    member.joined(Generation(4, "me", "range"))
    assert not member.poll_timed_out


def test_reasons_are_as_short_as_the_coordinator_wants_them() -> None:
    assert truncated_reason("x" * 300) == "x" * 255
    assert truncated_reason("short") == "short"
