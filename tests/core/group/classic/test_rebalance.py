"""From one generation to the next: who leads, who waits for whom, and for how long."""

from __future__ import annotations

import pytest
from tests.core.group.groups import REBALANCE_MS, SESSION_MS, Groups, subscription

from ottla.core.group.classic.group import ClassicState
from ottla.core.group.events import GroupSaved
from ottla.core.group.requests import Joined, JoinedMember, JoinRefused
from ottla.errors import ErrorCode

NONE = ErrorCode.NONE
OTHER = {"range": subscription("other")}


# Leaders


def test_the_first_to_join_leads_and_only_it_is_told_of_the_others() -> None:
    groups = Groups()
    with groups.one_turn():
        first = groups.enter("a", protocols={"range": b"of a"})
        second = groups.enter("b", instance="i", protocols={"range": b"of b"})
    members = (JoinedMember("a", None, b"of a"), JoinedMember("b", "i", b"of b"))
    assert first.joined == Joined("a", 1, "consumer", "range", "a", members)
    assert second.joined == Joined("b", 1, "consumer", "range", "a", ())


def test_when_the_leader_leaves_the_next_in_order_leads() -> None:
    groups = Groups()
    groups.form_stable("a", "b", "c")
    groups.leave("a")
    third = groups.join("c")
    second = groups.join("b")
    assert second.joined.leader == third.joined.leader == "b"
    assert [member.member_id for member in second.joined.members] == ["b", "c"]


def test_a_leader_that_does_not_join_again_leads_no_longer() -> None:
    groups = Groups()
    groups.form_stable("i#a", "b", session_ms=100_000)
    asked = groups.join("b", protocols=OTHER)
    groups.pass_ms(REBALANCE_MS)
    assert asked.joined.leader == "b"
    # It is static, so it stays.
    assert [member.member_id for member in asked.joined.members] == ["a", "b"]


def test_the_leader_stays_the_leader_in_the_next_generation() -> None:
    groups = Groups()
    groups.form_stable("a", "b")
    groups.join("b", protocols=OTHER)
    assert groups.join("a").joined.leader == "a"


# Joining again


def test_a_leader_that_joins_a_stable_group_again_makes_it_rebalance() -> None:
    groups = Groups()
    groups.form_stable("a", "b")
    leader = groups.join("a")
    assert leader.waits
    assert groups.state() is ClassicState.PREPARING_REBALANCE
    assert groups.heartbeat("b") is ErrorCode.REBALANCE_IN_PROGRESS
    follower = groups.join("b")
    assert leader.joined.generation == follower.joined.generation == 2


def test_a_follower_that_has_not_changed_is_told_the_current_generation() -> None:
    groups = Groups()
    groups.form_stable("a", "b")
    assert groups.join("b").joined == Joined("b", 1, "consumer", "range", "a", ())
    assert groups.state() is ClassicState.STABLE


@pytest.mark.parametrize(
    "protocols", [OTHER, {**OTHER, "range": subscription("orders"), "sticky": b""}]
)
def test_a_follower_that_has_changed_makes_a_stable_group_rebalance(
    protocols: dict[str, bytes],
) -> None:
    groups = Groups()
    groups.form_stable("a", "b")
    assert groups.join("b", protocols=protocols).waits
    assert groups.state() is ClassicState.PREPARING_REBALANCE


def test_another_order_of_preference_is_a_change() -> None:
    groups = Groups()
    groups.form_stable("a", "b", protocols={"x": b"", "y": b""})
    assert groups.join("b", protocols={"y": b"", "x": b""}).waits


def test_between_join_and_sync_a_member_that_has_not_changed_is_answered_again() -> None:
    groups = Groups()
    groups.form("a", "b")
    leader, follower = groups.join("a"), groups.join("b")
    assert [member.member_id for member in leader.joined.members] == ["a", "b"]
    assert follower.joined == Joined("b", 1, "consumer", "range", "a", ())
    assert groups.state() is ClassicState.COMPLETING_REBALANCE


def test_between_join_and_sync_a_member_that_has_changed_begins_anew() -> None:
    groups = Groups()
    groups.form("a", "b", "c")
    waiting = groups.sync("c")
    asked = groups.join("b", protocols=OTHER)
    assert asked.waits
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert groups.state() is ClassicState.PREPARING_REBALANCE


def test_who_asks_to_join_again_while_it_waits_is_answered_once_with_the_generation() -> None:
    groups = Groups()
    groups.form_stable("a", "b")
    first = groups.join("a")
    second = groups.join("a")
    assert first.join_refused == JoinRefused(ErrorCode.REBALANCE_IN_PROGRESS, "a")
    assert groups.group().joined_count == 1
    groups.join("b")
    assert second.joined.generation == 2


def test_a_member_that_joins_again_may_change_its_timeouts() -> None:
    groups = Groups()
    groups.form_stable("a")
    groups.join("a", session_ms=30_000, rebalance_ms=90_000)
    groups.stabilize()
    groups.pass_ms(29_999)
    assert groups.heartbeat("a") is NONE
    groups.pass_ms(30_000)
    assert groups.state() is ClassicState.EMPTY
    assert groups.saves[-2].members[0].session_timeout_ms == 30_000
    assert groups.saves[-2].members[0].rebalance_timeout_ms == 90_000


def test_members_of_an_empty_group_are_not_known_any_more() -> None:
    groups = Groups()
    groups.form_stable("a")
    groups.leave("a")
    assert groups.join("a").join_refused == JoinRefused(ErrorCode.UNKNOWN_MEMBER_ID, "a")


def test_every_join_of_a_new_member_makes_everybody_join_again() -> None:
    groups = Groups()
    groups.form_stable("a")
    new = groups.enter("b")
    assert groups.heartbeat("a") is ErrorCode.REBALANCE_IN_PROGRESS
    old = groups.join("a")
    assert (old.joined.generation, new.joined.generation) == (2, 2)
    assert (old.joined.leader, new.joined.leader) == ("a", "a")


# The initial delay


def test_the_first_members_of_a_group_are_waited_for() -> None:
    groups = Groups(initial_rebalance_delay_ms=3000)
    asked = groups.enter("a")
    groups.pass_ms(2999)
    assert asked.waits
    groups.pass_ms(1)
    assert asked.joined.generation == 1


def test_every_newcomer_extends_the_initial_delay_up_to_the_rebalance_timeout() -> None:
    groups = Groups(initial_rebalance_delay_ms=3000)
    first = groups.enter("a", rebalance_ms=10_000)
    for number in range(9):
        groups.pass_ms(1000)
        groups.enter(f"m{number}", rebalance_ms=10_000)
    groups.pass_ms(999)
    assert first.waits
    groups.pass_ms(1)
    assert len(first.joined.members) == 10


def test_the_initial_delay_is_not_extended_if_nobody_new_came() -> None:
    groups = Groups(initial_rebalance_delay_ms=3000)
    groups.enter("a")
    groups.pass_ms(1000)
    second = groups.enter("b")
    groups.pass_ms(4999)
    assert second.waits
    groups.pass_ms(1)
    assert second.joined.generation == 1
    assert groups.uptime_ms == 6000


def test_the_initial_delay_is_not_cut_short_because_everybody_is_there() -> None:
    groups = Groups(initial_rebalance_delay_ms=3000)
    groups.join(new_id="a")
    asked = groups.join("a")
    assert groups.join("a").waits
    assert asked.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_only_the_first_rebalance_of_a_group_has_the_initial_delay() -> None:
    groups = Groups(initial_rebalance_delay_ms=3000)
    groups.enter("a")
    groups.pass_ms(3000)
    groups.stabilize()
    groups.enter("b")
    assert groups.join("a").joined.generation == 2


def test_a_group_that_was_empty_has_the_initial_delay_again() -> None:
    groups = Groups(initial_rebalance_delay_ms=3000)
    groups.enter("a")
    groups.pass_ms(3000)
    groups.leave("a")
    assert groups.state() is ClassicState.EMPTY
    asked = groups.enter("b")
    groups.pass_ms(2999)
    assert asked.waits
    groups.pass_ms(1)
    assert asked.joined.generation == 3


def test_a_group_that_all_leave_during_the_initial_delay_becomes_empty_after_it() -> None:
    groups = Groups(initial_rebalance_delay_ms=3000)
    asked = groups.enter("a")
    assert groups.leave("a") == [NONE]
    assert asked.join_refused == JoinRefused(ErrorCode.UNKNOWN_MEMBER_ID, "")
    groups.pass_ms(3000)
    assert groups.state() is ClassicState.EMPTY
    assert groups.machine.membership.deadlines.next_ms() is None


# The join phase


def test_a_rebalance_waits_for_the_slowest_member_and_drops_who_does_not_come() -> None:
    groups = Groups()
    with groups.one_turn():
        groups.enter("a", rebalance_ms=20_000)
        groups.enter("b", rebalance_ms=50_000)
        groups.enter("c", rebalance_ms=10_000)
    groups.stabilize()
    asked = groups.join("a", rebalance_ms=20_000)
    for _ in range(49):
        groups.pass_ms(1000)
        groups.heartbeat("b")
        groups.heartbeat("c")
    groups.pass_ms(999)
    assert asked.waits
    groups.pass_ms(1)
    assert [member.member_id for member in asked.joined.members] == ["a"]
    assert groups.heartbeat("b", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_static_members_that_do_not_come_are_kept() -> None:
    groups = Groups()
    groups.form_stable("a", "i#b", "c", session_ms=100_000)
    asked = groups.join("a")
    groups.pass_ms(REBALANCE_MS)
    assert [member.member_id for member in asked.joined.members] == ["a", "b"]


def test_a_session_that_ends_while_others_wait_lets_them_go_on() -> None:
    groups = Groups()
    groups.form_stable("a", "b")
    asked = groups.join("a")
    groups.pass_ms(SESSION_MS)
    assert [member.member_id for member in asked.joined.members] == ["a"]


def test_static_members_none_of_which_comes_back_are_ended_by_their_sessions() -> None:
    groups = Groups()
    groups.form_stable("a", "i#b", "j#c", session_ms=200_000)
    groups.leave("a")
    groups.pass_ms(199_999)
    assert groups.state() is ClassicState.PREPARING_REBALANCE
    assert groups.group().generation == 1
    groups.pass_ms(1)
    assert groups.state() is ClassicState.EMPTY


@pytest.mark.parametrize("rebalance_ms", [0, -1])
def test_static_members_that_named_no_time_to_rebalance_do_not_keep_the_machine_busy(
    rebalance_ms: int,
) -> None:
    groups = Groups()
    with groups.one_turn():
        groups.enter("a")
        groups.enter("b", instance="i", rebalance_ms=rebalance_ms)
    groups.stabilize()
    groups.leave("a")
    assert groups.state() is ClassicState.PREPARING_REBALANCE
    groups.pass_ms(SESSION_MS)
    assert groups.state() is ClassicState.EMPTY


def test_a_group_that_loses_its_last_member_is_saved_as_empty() -> None:
    groups = Groups()
    groups.form_stable("a")
    groups.pass_ms(500)
    groups.leave("a")
    assert groups.events[-1] == GroupSaved("g", "consumer", 2, None, None, groups.now_ms, ())
    assert groups.state() is ClassicState.EMPTY


def test_nothing_is_written_between_stable_generations() -> None:
    groups = Groups()
    groups.form_stable("a")
    written = len(groups.log)
    groups.join("a")
    groups.enter("b")
    groups.join("a")
    assert groups.state() is ClassicState.COMPLETING_REBALANCE
    assert len(groups.log) == written


# Sessions


def test_members_that_wait_for_the_others_to_join_are_not_expired() -> None:
    groups = Groups()
    groups.form_stable("a", "b")
    asked = groups.join("a")
    for _ in range(59):
        groups.pass_ms(1000)
        groups.heartbeat("b")
    assert asked.waits
    groups.pass_ms(1000)
    assert groups.member_ids() == ["a"]
    # From then on it has to be heard of again.
    groups.pass_ms(SESSION_MS - 1)
    assert groups.member_ids() == ["a"]
    groups.pass_ms(1)
    assert groups.state() is ClassicState.EMPTY


def test_members_that_wait_for_the_assignment_are_not_expired() -> None:
    groups = Groups()
    groups.form("a", "b")
    waiting = groups.sync("b")
    for _ in range(5):
        groups.pass_ms(5000)
        groups.heartbeat("a")
    assert waiting.waits
    assert groups.sync("a", None, {"b": b"1"}).error is NONE
    assert waiting.synced.assignment == b"1"
    for _ in range(2):
        groups.pass_ms(SESSION_MS - 1)
        groups.heartbeat("a")
        assert groups.heartbeat("b") is NONE


def test_who_has_waited_long_for_the_assignment_has_a_session_again() -> None:
    groups = Groups()
    groups.form("a", "b", "c")
    groups.sync("b")
    sent_back = groups.sync("c")
    groups.pass_ms(SESSION_MS - 1)
    groups.heartbeat("a")
    groups.pass_ms(5000)  # the sessions of b and c are over, which does not count while they wait
    groups.join("a", protocols=OTHER)
    assert sent_back.error is ErrorCode.REBALANCE_IN_PROGRESS
    groups.pass_ms(SESSION_MS - 1)
    assert groups.member_ids() == ["a", "b", "c"]
    groups.pass_ms(1)
    assert groups.member_ids() == ["a"]


def test_a_new_member_waits_five_minutes_to_join_at_most() -> None:
    groups = Groups()
    groups.form_stable("a", rebalance_ms=1_000_000)
    asked = groups.enter("b")
    for _ in range(299):
        groups.pass_ms(1000)
        groups.heartbeat("a")
    assert asked.waits
    groups.pass_ms(1000)
    assert asked.join_refused == JoinRefused(ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert groups.member_ids() == ["a"]


def test_a_member_that_is_not_heard_of_is_removed_and_the_others_rebalance() -> None:
    groups = Groups()
    groups.form_stable("a", "b")
    groups.pass_ms(SESSION_MS - 1)
    groups.heartbeat("a")
    assert groups.member_ids() == ["a", "b"]
    groups.pass_ms(1)
    assert groups.member_ids() == ["a"]
    assert groups.heartbeat("a") is ErrorCode.REBALANCE_IN_PROGRESS
    assert groups.heartbeat("b", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_after_a_restart_every_member_has_a_session_to_be_heard_of() -> None:
    groups = Groups()
    groups.form_stable("a", "b")
    groups.pass_ms(SESSION_MS - 1)
    groups.restart()
    groups.pass_ms(SESSION_MS - 1)
    assert groups.heartbeat("a") is NONE
    groups.pass_ms(1)
    assert groups.member_ids() == ["a"]


# The sync phase


def test_who_does_not_sync_in_time_is_removed_and_the_others_rebalance() -> None:
    groups = Groups()
    groups.form("a", "b", "c", session_ms=100_000)
    waiting = groups.sync("b")
    groups.pass_ms(REBALANCE_MS - 1)
    assert waiting.waits
    groups.pass_ms(1)
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert groups.member_ids() == ["b"]
    assert groups.state() is ClassicState.PREPARING_REBALANCE
    assert groups.join("b").joined.leader == "b"


def test_who_does_not_fetch_its_assignment_in_time_is_removed_from_a_stable_group() -> None:
    groups = Groups()
    groups.form("a", "b", session_ms=100_000)
    groups.sync("a", None, {"a": b"1", "b": b"2"})
    assert groups.state() is ClassicState.STABLE
    groups.pass_ms(REBALANCE_MS)
    assert groups.member_ids() == ["a"]
    assert groups.state() is ClassicState.PREPARING_REBALANCE


def test_a_group_in_which_everybody_has_synced_is_left_alone() -> None:
    groups = Groups()
    groups.form_stable("a", "b", session_ms=100_000)
    groups.pass_ms(REBALANCE_MS + 1)
    assert groups.state() is ClassicState.STABLE
    assert groups.group().generation == 1


def test_the_time_to_sync_ends_with_the_phase_it_was_for() -> None:
    groups = Groups()
    groups.form("a", "b", session_ms=1_000_000)
    groups.pass_ms(REBALANCE_MS - 1)
    groups.join("b", protocols=OTHER, session_ms=1_000_000)
    groups.join("a", session_ms=1_000_000)
    assert groups.group().generation == 2
    groups.pass_ms(REBALANCE_MS - 1)
    assert groups.member_ids() == ["a", "b"]
    groups.pass_ms(1)
    assert groups.state() is ClassicState.EMPTY
