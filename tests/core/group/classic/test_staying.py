"""Heartbeats, assignments and leaving, state by state."""

from __future__ import annotations

import pytest
from tests.core.group.groups import SESSION_MS, START_MS, Groups, offset, subscription

from ottla.core.group.classic.group import ClassicState
from ottla.core.group.events import GroupSaved, SavedMember
from ottla.core.group.requests import Joined, JoinRefused, Leaver, Synced
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode

NONE = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
OLD = ErrorCode.ILLEGAL_GENERATION
REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS


def in_state(state: ClassicState) -> Groups:
    """A group of `a` (the leader) and `b` at generation 1, or without them if it is empty."""
    groups = Groups()
    groups.form("a", "b")
    if state is not ClassicState.COMPLETING_REBALANCE:
        groups.stabilize()
    if state is ClassicState.PREPARING_REBALANCE:
        groups.enter("c")
    if state is ClassicState.EMPTY:
        groups.leave("a", "b")
    assert groups.state() is state
    return groups


# Heartbeats


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (ClassicState.EMPTY, UNKNOWN),
        (ClassicState.PREPARING_REBALANCE, REBALANCE),
        (ClassicState.COMPLETING_REBALANCE, NONE),
        (ClassicState.STABLE, NONE),
    ],
)
def test_what_a_heartbeat_is_told(state: ClassicState, error: ErrorCode) -> None:
    groups = in_state(state)
    assert groups.heartbeat("b", 1) is error
    assert groups.heartbeat("stranger", 1) is UNKNOWN
    if state is not ClassicState.EMPTY:
        assert groups.heartbeat("b", 0) is OLD
        assert groups.heartbeat("b", 2) is OLD


def test_a_heartbeat_to_a_group_that_does_not_exist() -> None:
    assert Groups().heartbeat("a", 1, group="nobody") is UNKNOWN


def test_a_given_id_cannot_heartbeat() -> None:
    groups = Groups()
    groups.join(new_id="a")
    assert groups.heartbeat("a", 0) is UNKNOWN


def test_a_sync_to_a_stable_group_keeps_the_session_alive() -> None:
    groups = in_state(ClassicState.STABLE)
    groups.pass_ms(SESSION_MS - 1)
    groups.sync("b", 1)
    groups.heartbeat("a", 1)
    groups.pass_ms(SESSION_MS - 1)
    assert groups.heartbeat("b", 1) is NONE


@pytest.mark.parametrize(
    "state",
    [ClassicState.PREPARING_REBALANCE, ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE],
)
def test_a_heartbeat_keeps_the_session_alive(state: ClassicState) -> None:
    groups = in_state(state)
    groups.pass_ms(SESSION_MS - 1)
    groups.heartbeat("a", 1)
    groups.heartbeat("b", 1)
    groups.pass_ms(SESSION_MS - 1)
    assert {"a", "b"} <= set(groups.member_ids())


def test_a_heartbeat_of_another_generation_does_not_keep_the_session_alive() -> None:
    groups = in_state(ClassicState.STABLE)
    groups.pass_ms(SESSION_MS - 1)
    groups.heartbeat("a")
    groups.heartbeat("b", 0)
    groups.pass_ms(1)
    assert groups.member_ids() == ["a"]


# Syncing


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (ClassicState.EMPTY, UNKNOWN),
        (ClassicState.PREPARING_REBALANCE, REBALANCE),
        (ClassicState.STABLE, NONE),
    ],
)
def test_what_a_sync_is_told(state: ClassicState, error: ErrorCode) -> None:
    groups = in_state(state)
    assert groups.sync("b", 1).error is error
    assert groups.sync("stranger", 1).error is UNKNOWN
    if state is not ClassicState.EMPTY:
        assert groups.sync("b", 0).error is OLD


def test_a_sync_to_a_group_that_does_not_exist() -> None:
    assert Groups().sync("a", 1, group="nobody").error is UNKNOWN


def test_the_assignment_reaches_everybody_when_the_leader_brings_it() -> None:
    groups = in_state(ClassicState.COMPLETING_REBALANCE)
    follower = groups.sync("b", 1)
    assert follower.waits
    groups.pass_ms(100)
    leader = groups.sync("a", 1, {"a": b"1", "b": b"2", "stranger": b"3"})
    assert leader.synced == Synced("consumer", "range", b"1")
    assert follower.synced == Synced("consumer", "range", b"2")
    assert groups.state() is ClassicState.STABLE
    assert groups.saves == [
        GroupSaved(
            "g",
            "consumer",
            1,
            "range",
            "a",
            START_MS + 100,
            tuple(
                SavedMember(
                    name,
                    None,
                    "client",
                    "/127.0.0.1",
                    60_000,
                    10_000,
                    subscription("orders"),
                    assigned,
                )
                for name, assigned in (("a", b"1"), ("b", b"2"))
            ),
        )
    ]


def test_a_member_without_an_assignment_gets_an_empty_one() -> None:
    groups = in_state(ClassicState.COMPLETING_REBALANCE)
    groups.sync("a", 1, {"a": b"1"})
    assert groups.sync("b", 1).synced.assignment == b""


def test_a_follower_cannot_assign() -> None:
    groups = in_state(ClassicState.COMPLETING_REBALANCE)
    follower = groups.sync("b", 1, {"a": b"mine", "b": b"mine"})
    groups.sync("a", 1, {"b": b"2"})
    assert follower.synced.assignment == b"2"


def test_a_generation_has_one_assignment() -> None:
    groups = in_state(ClassicState.COMPLETING_REBALANCE)
    groups.sync("a", 1, {"a": b"1", "b": b"2"})
    assert groups.sync("a", 1, {"a": b"2", "b": b"1"}).synced.assignment == b"1"
    assert groups.sync("b", 1).synced.assignment == b"2"
    assert len(groups.saves) == 1


def test_who_syncs_again_while_it_waits_is_answered_once_with_the_assignment() -> None:
    groups = in_state(ClassicState.COMPLETING_REBALANCE)
    first, second = groups.sync("b", 1), groups.sync("b", 1)
    assert first.error is REBALANCE
    groups.sync("a", 1, {"b": b"2"})
    assert second.synced.assignment == b"2"


@pytest.mark.parametrize("state", [ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE])
@pytest.mark.parametrize(
    ("protocol_type", "protocol"), [("connect", "range"), ("consumer", "sticky")]
)
def test_a_member_that_thinks_of_another_protocol_is_refused(
    state: ClassicState, protocol_type: str, protocol: str
) -> None:
    groups = in_state(state)
    asked = groups.sync("a", 1, {"a": b"x"}, protocol_type=protocol_type, protocol=protocol)
    assert asked.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert groups.state() is state
    right = groups.sync("a", 1, {}, protocol_type="consumer", protocol="range")
    assert right.error is NONE


def test_the_assignment_survives_a_restart() -> None:
    groups = in_state(ClassicState.STABLE)
    groups.restart()
    assert groups.state() is ClassicState.STABLE
    assert groups.group().leader == "a"
    assert groups.sync("b", 1).synced == Synced("consumer", "range", b"to b")
    assert groups.join("b").joined == Joined("b", 1, "consumer", "range", "a", ())


def test_a_generation_whose_assignment_was_not_saved_is_lost_in_a_restart() -> None:
    groups = in_state(ClassicState.STABLE)
    groups.join("a")
    groups.join("b")
    assert groups.group().generation == 2
    groups.restart()
    assert groups.group().generation == 1
    assert groups.heartbeat("a", 2) is OLD
    assert groups.sync("a", 2).error is OLD
    assert groups.commit(offset(), member_id="a", generation=2) is OLD


# Leaving


def test_a_member_that_leaves_makes_the_others_rebalance() -> None:
    groups = in_state(ClassicState.STABLE)
    assert groups.leave("b") == [NONE]
    assert groups.heartbeat("a") is REBALANCE
    assert groups.heartbeat("b", 1) is UNKNOWN
    assert groups.join("a").joined.generation == 2


def test_a_member_that_leaves_between_join_and_sync_sends_the_others_back() -> None:
    groups = in_state(ClassicState.COMPLETING_REBALANCE)
    waiting = groups.sync("b", 1)
    groups.leave("a")
    assert waiting.error is REBALANCE
    assert groups.join("b").joined.leader == "b"


def test_a_member_that_leaves_lets_those_go_on_who_waited_for_it() -> None:
    groups = in_state(ClassicState.STABLE)
    asked = groups.join("a")
    groups.leave("b")
    assert asked.joined.generation == 2


def test_who_leaves_while_it_waits_is_answered() -> None:
    groups = in_state(ClassicState.STABLE)
    asked = groups.join("a")
    groups.leave("a")
    assert asked.join_refused == JoinRefused(UNKNOWN, "")
    groups = in_state(ClassicState.COMPLETING_REBALANCE)
    asked = groups.sync("b", 1)
    groups.leave("b")
    assert asked.sync_refused == Refused(UNKNOWN)


def test_several_leave_at_once_and_each_is_answered_for_itself() -> None:
    groups = Groups()
    groups.form_stable("a", "b", "i#c", "j#d")
    groups.join(new_id="p")
    errors = groups.leave(
        Leaver("a", None),
        Leaver("", "i"),
        Leaver("stranger", None),
        Leaver("", "nobody"),
        Leaver("", None),
        Leaver("b", "j"),
        Leaver("d", "j"),
        Leaver("a", None),
        Leaver("p", None),
    )
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert errors == [NONE, NONE, UNKNOWN, UNKNOWN, UNKNOWN, fenced, NONE, UNKNOWN, NONE]
    assert groups.member_ids() == ["b"]
    assert groups.group().pending_joins == {}
    assert groups.join("b").joined.generation == 2


def test_all_that_leave_together_leave_an_empty_group() -> None:
    groups = in_state(ClassicState.STABLE)
    assert groups.leave("a", "b") == [NONE, NONE]
    assert groups.state() is ClassicState.EMPTY
    assert groups.group().generation == 2
    assert groups.leave("a") == [UNKNOWN]


def test_nobody_leaves_a_group_that_does_not_exist() -> None:
    assert Groups().leave("a", Leaver("", "i"), group="nobody") == [UNKNOWN, UNKNOWN]


def test_a_leave_that_finds_nobody_does_not_disturb_the_group() -> None:
    groups = in_state(ClassicState.STABLE)
    assert groups.leave("stranger") == [UNKNOWN]
    assert groups.state() is ClassicState.STABLE


def test_a_given_id_that_leaves_is_not_waited_for() -> None:
    groups = in_state(ClassicState.STABLE)
    groups.join(new_id="p")
    groups.join("a")
    asked = groups.join("b")
    assert asked.waits
    assert groups.leave("p") == [NONE]
    assert asked.joined.generation == 2
    assert groups.join("p").error is UNKNOWN


def test_the_session_of_who_left_is_over() -> None:
    groups = in_state(ClassicState.STABLE)
    groups.leave("a", "b")
    assert groups.machine.membership.deadlines.next_ms() is None
