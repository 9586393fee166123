"""Messages in the broker's log about rebalances that take long."""

from __future__ import annotations

import pytest
from tests.core.group.groups import REBALANCE_MS, SESSION_MS, Groups, subscription

from ottla.core.group.requests import Leaver

OTHER = {"range": subscription("other")}


def logged(groups: Groups, *events: str) -> list[str]:
    return [
        message.text % message.fields for message in groups.log_messages if message.event in events
    ]


def stable(*names: str, session_ms: int = SESSION_MS) -> Groups:
    groups = Groups()
    groups.form_stable(*names, session_ms=session_ms)
    groups.log_messages.clear()
    return groups


def test_a_rebalance_that_ends_by_its_timeout_says_so_in_one_line() -> None:
    groups = stable("a", "b", "i#c", session_ms=2 * REBALANCE_MS)
    asked = groups.join("a", protocols=OTHER)
    groups.join(new_id="d", session_ms=2 * REBALANCE_MS)
    groups.pass_ms(REBALANCE_MS - 1)
    assert [message.event for message in groups.log_messages] == ["rebalance_begins"]
    groups.pass_ms(1)
    assert not asked.waits
    assert logged(groups, "rebalance_timed_out", "member_never_joined") == [
        f"group g: the rebalance timed out after {REBALANCE_MS} ms: 2 of 3 member(s) and 1 new member id(s) have not "
        "joined"
    ]


def test_static_members_that_are_all_away_do_not_make_a_line_with_every_look() -> None:
    groups = stable("i#a", "b", session_ms=10 * REBALANCE_MS)
    groups.leave("b")
    groups.pass_ms(5 * REBALANCE_MS)
    assert logged(groups, "rebalance_timed_out") == []


def test_a_rebalance_in_which_everybody_comes_says_nothing_of_timeouts() -> None:
    groups = stable("a", "b")
    again = groups.join("a", protocols=OTHER)
    groups.join("b")
    assert not again.waits
    assert logged(groups, "rebalance_timed_out", "member_never_joined") == []


def test_a_rebalance_that_waited_for_an_id_that_nobody_used_says_so_in_one_line() -> None:
    groups = stable("a")
    groups.join(new_id="first")
    groups.pass_ms(1)
    groups.join(new_id="second")
    again = groups.join("a", protocols=OTHER)
    groups.pass_ms(SESSION_MS)
    assert not again.waits
    assert logged(groups, "member_never_joined", "rebalance_timed_out") == [
        "group g: the rebalance waited for second, a new member id with which no client has joined"
    ]


def test_an_id_that_nobody_uses_and_nobody_waits_for_is_not_worth_a_line() -> None:
    groups = stable("a")
    groups.join(new_id="first")
    groups.pass_ms(SESSION_MS - 1)
    groups.heartbeat("a")
    groups.pass_ms(1)
    assert groups.log_messages == []


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (["a"], "group g: a did not sync in time"),
        (["a", "b", "c"], "group g: 3 members did not sync in time, a among them"),
    ],
)
def test_members_that_do_not_sync_in_time_make_one_line(names: list[str], line: str) -> None:
    groups = Groups()
    groups.form(*names, session_ms=10 * REBALANCE_MS)
    groups.log_messages.clear()
    groups.pass_ms(REBALANCE_MS)
    assert groups.member_ids() == []
    assert logged(groups, "member_expired", "members_expired") == [line]


def test_members_that_do_not_join_in_time_make_one_line() -> None:
    groups = stable("a", "b", "c", session_ms=10 * REBALANCE_MS)
    groups.join("c", protocols=OTHER)
    groups.pass_ms(REBALANCE_MS)
    assert logged(groups, "member_expired", "members_expired") == [
        "group g: 2 members did not join in time, a among them"
    ]


def begun(groups: Groups) -> list[object]:
    return [
        message.fields["reason"]
        for message in groups.log_messages
        if message.event == "rebalance_begins"
    ]


def test_a_rebalance_says_why_it_begins() -> None:
    groups = stable("a", "b")
    groups.join("a", protocols=OTHER)
    assert begun(groups) == ["a joins again with another subscription"]
    groups = stable("a", "b")
    groups.leave(Leaver("b", None, "the consumer is closed"), "unknown")
    assert begun(groups) == ["b left (the consumer is closed)"]
    groups = stable("a", "b")
    groups.enter("c")
    groups.enter("d")
    assert begun(groups) == ["c joins"], "the second one joins while it goes on"
    groups = stable("a")
    groups.pass_ms(SESSION_MS)
    assert begun(groups) == ["a was not heard of in its session"]
    groups = Groups()
    groups.enter("a")
    assert begun(groups) == ["a joins"]
