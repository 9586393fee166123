"""How members get into a group, and why they do not."""

from __future__ import annotations

import pytest
from tests.core.group.groups import SESSION_MS, Groups, subscription

from ottla.core.group.classic.group import ClassicState
from ottla.core.group.requests import Joined, JoinRefused
from ottla.errors import ErrorCode

NONE = ErrorCode.NONE
FULL = ErrorCode.GROUP_MAX_SIZE_REACHED


# The member id


def test_a_new_member_is_given_an_id_to_join_with() -> None:
    groups = Groups()
    first = groups.join(new_id="a")
    assert first.join_refused == JoinRefused(ErrorCode.MEMBER_ID_REQUIRED, "a")
    assert groups.state() is ClassicState.EMPTY
    second = groups.join("a")
    assert (second.error, second.joined.member_id) == (NONE, "a")
    assert second.joined.generation == 1


@pytest.mark.parametrize("version", [0, 3])
def test_an_old_client_joins_without_being_sent_back(version: int) -> None:
    groups = Groups()
    asked = groups.join(new_id="a", version=version)
    assert asked.joined._replace(members=()) == Joined("a", 1, "consumer", "range", "a", ())


def test_a_static_member_joins_without_being_sent_back() -> None:
    groups = Groups()
    assert groups.join(new_id="a", instance="i").joined.member_id == "a"


def test_nothing_is_written_for_an_id_that_was_only_given_out() -> None:
    groups = Groups()
    groups.join(new_id="a")
    assert groups.log == []


def test_an_id_that_was_given_out_is_good_for_the_session_timeout() -> None:
    groups = Groups()
    groups.join(new_id="a")
    groups.pass_ms(SESSION_MS - 1)
    assert groups.join("a").error is NONE

    groups.join(new_id="b", group="late")
    groups.pass_ms(SESSION_MS)
    assert groups.join("b", group="late").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_nobody_was_given_is_unknown() -> None:
    groups = Groups()
    asked = groups.join("stranger")
    assert asked.join_refused == JoinRefused(ErrorCode.UNKNOWN_MEMBER_ID, "stranger")
    assert "g" not in groups.machine.membership.groups
    groups.form_stable("a")
    assert groups.join("stranger").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.state() is ClassicState.STABLE


def test_an_id_that_was_given_out_cannot_be_used_by_a_static_member() -> None:
    groups = Groups()
    groups.join(new_id="a")
    assert groups.join("a", instance="i").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_given_id_that_is_never_used_holds_up_a_rebalance_only_for_its_session() -> None:
    groups = Groups()
    groups.form_stable("a")
    groups.join(new_id="b", session_ms=7000)
    again = groups.join("a", protocols={"range": subscription("other")})
    groups.pass_ms(6999)
    assert again.waits
    groups.pass_ms(1)
    assert again.joined.generation == 2


def test_a_given_id_that_is_never_used_does_not_disturb_a_stable_group() -> None:
    groups = Groups()
    groups.form_stable("a")
    groups.join(new_id="b", session_ms=7000)
    groups.pass_ms(6000)
    groups.heartbeat("a")
    groups.pass_ms(2000)
    assert groups.heartbeat("a") is NONE
    assert groups.state() is ClassicState.STABLE


# Session timeouts


@pytest.mark.parametrize(
    ("session_ms", "error"),
    [
        (5999, ErrorCode.INVALID_SESSION_TIMEOUT),
        (6000, NONE),
        (1_800_000, NONE),
        (1_800_001, ErrorCode.INVALID_SESSION_TIMEOUT),
        (-1, ErrorCode.INVALID_SESSION_TIMEOUT),
    ],
)
def test_session_timeouts_have_limits(session_ms: int, error: ErrorCode) -> None:
    groups = Groups()
    asked = groups.enter("a", session_ms=session_ms)
    assert asked.error is error
    assert ("g" in groups.machine.membership.groups) == (error is NONE)


def test_a_refused_session_timeout_is_answered_to_whoever_asked() -> None:
    groups = Groups()
    groups.form_stable("a")
    asked = groups.join("a", session_ms=1)
    assert asked.join_refused == JoinRefused(ErrorCode.INVALID_SESSION_TIMEOUT, "a")
    assert groups.state() is ClassicState.STABLE


# Protocols


@pytest.mark.parametrize(
    ("protocol_type", "protocols"), [("", {"range": b""}), ("consumer", {}), ("", {})]
)
def test_a_group_cannot_begin_without_a_protocol(
    protocol_type: str, protocols: dict[str, bytes]
) -> None:
    groups = Groups()
    asked = groups.join(protocol_type=protocol_type, protocols=protocols)
    assert asked.join_refused == JoinRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert "g" not in groups.machine.membership.groups


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("connect", {"range": b""}), ("consumer", {"sticky": b""}), ("consumer", {})],
)
def test_a_member_must_have_a_protocol_in_common_with_everybody(
    protocol_type: str, protocols: dict[str, bytes]
) -> None:
    groups = Groups()
    groups.form_stable("a", "b")
    new = groups.join(protocol_type=protocol_type, protocols=protocols)
    assert new.join_refused == JoinRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    known = groups.join("b", protocol_type=protocol_type, protocols=protocols)
    assert known.join_refused == JoinRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "b")
    assert groups.state() is ClassicState.STABLE


def test_a_protocol_that_only_some_support_is_not_in_common() -> None:
    groups = Groups()
    groups.form("a", protocols={"x": b"", "y": b""})
    groups.enter("b", protocols={"x": b"", "z": b""})
    assert groups.enter("c", protocols={"y": b"", "z": b""}).error is (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    assert groups.enter("c", protocols={"z": b"", "x": b""}).waits


def test_an_empty_group_takes_another_protocol_type() -> None:
    groups = Groups()
    groups.form_stable("a")
    groups.leave("a")
    assert groups.state() is ClassicState.EMPTY
    asked = groups.enter("w", protocol_type="connect", protocols={"v1": b""})
    assert (asked.joined.protocol_type, asked.joined.protocol) == ("connect", "v1")


@pytest.mark.parametrize(
    ("preferences", "elected"),
    [
        (["xy", "xy", "yx"], "x"),
        (["xy", "yx", "yx"], "y"),
        (["zx", "zx", "xw"], "x"),  # what most like best is no candidate if one does not know it
        (["zxy", "wyx", "wyx"], "y"),  # a vote goes to the best one that everybody supports
        (["x"], "x"),
    ],
)
def test_the_protocol_with_the_most_votes_is_elected(preferences: list[str], elected: str) -> None:
    groups = Groups()
    with groups.one_turn():
        asked = [
            groups.enter(f"m{number}", protocols={name: name.encode() for name in likes})
            for number, likes in enumerate(preferences)
        ]
    assert {one.joined.protocol for one in asked} == {elected}
    assert [member.metadata for member in asked[0].joined.members] == [
        elected.encode() for _ in preferences
    ]


# Size


def test_a_full_group_refuses_new_members_and_keeps_those_it_has() -> None:
    groups = Groups(max_size=2)
    groups.form_stable("a", "b")
    assert groups.join().join_refused == JoinRefused(FULL, "")
    assert groups.enter("c").error is FULL
    assert groups.enter("c", instance="i").error is FULL
    assert groups.state() is ClassicState.STABLE
    assert groups.join("b").error is NONE


def test_given_ids_do_not_count_as_members() -> None:
    groups = Groups(max_size=2, initial_rebalance_delay_ms=3000)
    for name in ("a", "b", "c"):
        assert groups.join(new_id=name).error is ErrorCode.MEMBER_ID_REQUIRED
    first, second = groups.join("a"), groups.join("b")
    assert groups.join("c").join_refused == JoinRefused(FULL, "")
    assert groups.join("a").waits  # who already waits may ask again
    groups.pass_ms(10_000)
    assert second.error is NONE
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert groups.member_ids() == ["a", "b"]
    # The refused one was forgotten and does not hold up the next rebalance.
    assert groups.group().pending_joins == {}


def test_a_given_id_that_finds_the_group_full_does_not_cause_a_rebalance() -> None:
    groups = Groups(max_size=2)
    groups.form_stable("a")
    groups.join(new_id="c", session_ms=1_000_000)
    with groups.one_turn():
        groups.enter("b")
        groups.join("a")
    # The rebalance waits for c until the time for it is over, and then the group is full.
    groups.pass_ms(60_000)
    groups.stabilize()
    assert groups.member_ids() == ["a", "b"]
    assert groups.join("c").error is FULL
    assert groups.state() is ClassicState.STABLE
    assert groups.join("c").error is FULL


def test_a_group_larger_than_a_lowered_limit_shrinks_after_a_restart() -> None:
    groups = Groups()
    groups.form_stable("a", "b", "c")
    groups.restart(max_size=2)
    assert groups.state() is ClassicState.PREPARING_REBALANCE
    assert groups.heartbeat("a") is ErrorCode.REBALANCE_IN_PROGRESS
    first = groups.join("c")
    second = groups.join("a")
    assert groups.join("b").join_refused == JoinRefused(FULL, "")
    # The others do not wait for the one that was turned away.
    assert first.joined.generation == second.joined.generation == 2
    assert groups.member_ids() == ["a", "c"]


def test_a_group_as_large_as_the_limit_is_left_alone_after_a_restart() -> None:
    groups = Groups()
    groups.form_stable("a", "b")
    groups.restart(max_size=2)
    assert groups.state() is ClassicState.STABLE
