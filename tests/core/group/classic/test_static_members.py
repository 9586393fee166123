"""Members with a `group.instance.id` (KIP-345): they come back without a rebalance, and only one at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.core.group.groups import REBALANCE_MS, SESSION_MS, Groups, subscription

from ottla.core.group.classic.group import ClassicState
from ottla.core.group.requests import Joined, JoinedMember, JoinRefused, Leaver
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode

NONE = ErrorCode.NONE
FENCED = ErrorCode.FENCED_INSTANCE_ID
BOTH = {"range": subscription("orders"), "sticky": b""}


def test_a_static_member_that_comes_back_keeps_its_place_and_nobody_rebalances() -> None:
    groups = Groups()
    groups.form_stable("a", "i#b")
    back = groups.join(instance="i", new_id="b2")
    assert back.joined == Joined("b2", 1, "consumer", "range", "a", ())
    assert groups.state() is ClassicState.STABLE
    assert groups.heartbeat("a") is NONE
    assert groups.sync("b2", 1, instance="i").synced.assignment == b"to b"
    assert groups.heartbeat("b2", instance="i") is NONE


def test_coming_back_is_durable() -> None:
    groups = Groups()
    groups.form_stable("a", "i#b")
    saved = len(groups.saves)
    groups.join(instance="i", new_id="b2", client_id="other")
    assert len(groups.saves) == saved + 1
    kept = {member.member_id: member for member in groups.saves[-1].members}
    assert list(kept) == ["a", "b2"]
    assert kept["b2"].instance_id == "i"
    assert kept["b2"].assignment == b"to b"
    assert kept["b2"].client_id == "other"
    groups.restart()
    assert groups.heartbeat("b2", 1, instance="i") is NONE
    assert groups.heartbeat("b", 1, instance="i") is FENCED
    assert groups.sync("b2", 1, instance="i").synced.assignment == b"to b"


def test_a_leader_that_comes_back_is_told_to_leave_the_assignment_as_it_is() -> None:
    groups = Groups()
    groups.form_stable("i#a", "b")
    back = groups.join(instance="i", new_id="a2", version=9)
    orders = subscription("orders")
    members = (JoinedMember("b", None, orders), JoinedMember("a2", "i", orders))
    assert back.joined == Joined("a2", 1, "consumer", "range", "a2", members, True)
    assert groups.group().leader == "a2"


@pytest.mark.parametrize("version", [5, 8])
def test_an_old_leader_that_comes_back_is_kept_from_assigning(version: int) -> None:
    groups = Groups()
    groups.form_stable("i#a", "b")
    back = groups.join(instance="i", new_id="a2", version=version)
    # It sees that somebody else leads, and fetches what it had.
    assert back.joined == Joined("a2", 1, "consumer", "range", "a", (), False)
    assert groups.sync("a2", 1, instance="i").synced.assignment == b"to a"
    assert groups.group().leader == "a2"


def test_a_follower_that_comes_back_is_not_told_of_the_others() -> None:
    groups = Groups()
    groups.form_stable("a", "i#b")
    back = groups.join(instance="i", new_id="b2", version=9)
    assert back.joined.members == ()
    assert not back.joined.skip_assignment


def test_a_changed_subscription_alone_does_not_make_a_static_member_rebalance_the_group() -> None:
    groups = Groups()
    groups.form_stable("a", "i#b")
    back = groups.join(instance="i", new_id="b2", protocols={"range": subscription("other")})
    assert back.error is NONE
    assert groups.state() is ClassicState.STABLE


def test_a_static_member_whose_protocols_change_the_election_makes_the_group_rebalance() -> None:
    groups = Groups()
    groups.form_stable("i#a", protocols=BOTH)
    assert groups.group().protocol == "range"
    back = groups.join(instance="i", new_id="a2", protocols=dict(reversed(BOTH.items())))
    assert (back.joined.generation, back.joined.protocol) == (2, "sticky")
    assert back.joined.member_id == back.joined.leader == "a2"

    groups.form_stable("i#a", "b", group="two", protocols=BOTH)
    waiting = groups.join(instance="i", new_id="a2", group="two", protocols={"sticky": b""})
    assert waiting.waits
    assert groups.state("two") is ClassicState.PREPARING_REBALANCE
    assert groups.join("b", group="two", protocols=BOTH).joined.protocol == "sticky"
    assert waiting.joined.generation == 2


def test_a_static_member_that_comes_back_between_join_and_sync_makes_the_group_rebalance() -> None:
    groups = Groups()
    groups.form("a", "i#b", "c")
    old, other = groups.sync("b", 1, instance="i"), groups.sync("c", 1)
    back = groups.join(instance="i", new_id="b2")
    assert old.sync_refused == Refused(FENCED)
    assert other.sync_refused == Refused(ErrorCode.REBALANCE_IN_PROGRESS)
    assert groups.state() is ClassicState.PREPARING_REBALANCE
    groups.join("a")
    groups.join("c")
    assert back.joined.generation == 2


def test_the_one_who_waits_to_join_under_the_old_id_is_fenced() -> None:
    groups = Groups()
    groups.form_stable("a", "i#b")
    groups.join("a")
    old = groups.join("b", instance="i", protocols={"range": subscription("other")})
    # Both had joined, so that a new generation began; the next one is waited for.
    groups.stabilize()
    groups.join("a")
    assert old.error is NONE
    waiting = groups.enter("c", instance="j")
    fresh = groups.enter("c2", instance="j")
    assert waiting.join_refused == JoinRefused(FENCED, "c")
    assert fresh.waits
    assert groups.group().joined_count == 2
    groups.join("b", instance="i")
    assert fresh.joined.generation == 3
    assert groups.member_ids() == ["a", "b", "c2"]


def test_a_static_member_that_comes_back_in_the_initial_delay_waits_for_its_end() -> None:
    groups = Groups(initial_rebalance_delay_ms=3000)
    old = groups.enter("a", instance="i")
    fresh = groups.join(instance="i", new_id="a2")
    assert old.error is FENCED
    groups.pass_ms(2999)
    assert fresh.waits
    groups.pass_ms(1)
    assert fresh.joined.leader == "a2"
    assert groups.member_ids() == ["a2"]


@pytest.mark.parametrize("what", ["join", "sync", "heartbeat", "leave", "commit"])
def test_the_old_id_of_a_static_member_is_fenced(what: str) -> None:
    groups = Groups()
    groups.form_stable("a", "i#b")
    groups.join(instance="i", new_id="b2")
    requests: dict[str, Callable[[], object]] = {
        "join": lambda: groups.join("b", instance="i").error,
        "sync": lambda: groups.sync("b", 1, instance="i").error,
        "heartbeat": lambda: groups.heartbeat("b", instance="i"),
        "leave": lambda: groups.leave(Leaver("b", "i"))[0],
        "commit": lambda: groups.commit(member_id="b", instance="i", generation=1),
    }
    assert requests[what]() is FENCED
    assert groups.state() is ClassicState.STABLE


@pytest.mark.parametrize("what", ["join", "sync", "heartbeat", "leave", "commit"])
def test_an_instance_id_that_the_group_does_not_have_is_unknown(what: str) -> None:
    groups = Groups()
    groups.form_stable("a", "i#b")
    requests: dict[str, Callable[[], object]] = {
        "join": lambda: groups.join("b", instance="x").error,
        "sync": lambda: groups.sync("b", 1, instance="x").error,
        "heartbeat": lambda: groups.heartbeat("b", instance="x"),
        "leave": lambda: groups.leave(Leaver("b", "x"))[0],
        "commit": lambda: groups.commit(member_id="b", instance="x", generation=1),
    }
    assert requests[what]() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_joins_with_its_id_is_a_member_like_any_other() -> None:
    groups = Groups()
    groups.form_stable("i#a", "j#b")
    assert groups.join("b", instance="j").joined.generation == 1
    assert groups.join("a", instance="i").waits
    assert groups.state() is ClassicState.PREPARING_REBALANCE


def test_a_static_member_outlives_its_connection_but_not_its_session() -> None:
    groups = Groups()
    groups.form_stable("a", "i#b")
    groups.pass_ms(SESSION_MS - 1)
    groups.heartbeat("a")
    groups.join(instance="i", new_id="b2")
    # The session of the old id has gone with it.
    groups.pass_ms(SESSION_MS - 1)
    groups.heartbeat("a")
    assert groups.state() is ClassicState.STABLE
    groups.pass_ms(1)
    assert groups.member_ids() == ["a"]
    assert groups.state() is ClassicState.PREPARING_REBALANCE


def test_a_static_member_that_comes_back_before_it_has_synced_still_has_to() -> None:
    groups = Groups()
    groups.form("a", "i#b", session_ms=200_000)
    groups.sync("a", 1, {"a": b"1", "b": b"2"})
    groups.join(instance="i", new_id="b2", session_ms=200_000)
    groups.pass_ms(REBALANCE_MS)
    assert groups.member_ids() == ["a"]


def test_a_new_static_member_makes_the_group_rebalance() -> None:
    groups = Groups()
    groups.form_stable("i#a")
    new = groups.join(instance="j", new_id="b")
    assert new.waits
    groups.join("a", instance="i")
    assert new.joined.generation == 2


def test_after_the_last_one_left_an_instance_id_begins_anew() -> None:
    groups = Groups()
    groups.form_stable("i#a")
    assert groups.leave(Leaver("", "i")) == [NONE]
    assert groups.join(instance="i", new_id="a2").joined.generation == 3
    assert groups.member_ids() == ["a2"]
