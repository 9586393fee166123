"""What becomes of offsets and groups that nobody uses; listing, describing and deleting groups."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.group.groups import DAY_MS, REBALANCE_MS, START_MS, Groups, offset, subscription

from ottla.core.group.classic.group import ClassicState
from ottla.core.group.events import GroupDeleted, GroupSaved, OffsetCommitted, OffsetDeleted
from ottla.core.group.requests import DescribedGroup, DescribedMember, ListedGroup
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode

NONE = ErrorCode.NONE
RETENTION_MS = 7 * DAY_MS
ALIVE_MS = 1_800_000


def new_groups() -> Groups:
    """Expiry is checked when a test asks for it."""
    return Groups(retention_check_interval_ms=1 << 60)


def reader(groups: Groups, *topics: str) -> None:
    """A group `g` with one member `a` that lives for half an hour."""
    groups.form_stable("a", session_ms=ALIVE_MS, protocols={"range": subscription(*topics)})


def stay_alive(groups: Groups, passed_ms: int) -> None:
    step_ms = ALIVE_MS // 2
    for _ in range(passed_ms // step_ms):
        groups.pass_ms(step_ms)
        groups.heartbeat("a")
    groups.pass_ms(passed_ms % step_ms)


# The three clocks


def test_offsets_of_a_consumer_without_a_group_age_from_their_commit_on() -> None:
    groups = new_groups()
    groups.commit(offset("orders", 0))
    groups.pass_ms(DAY_MS)
    groups.commit(offset("orders", 1))
    groups.pass_ms(RETENTION_MS - DAY_MS - 1)
    groups.expire()
    assert groups.committed_partitions("g") == [("orders", 0), ("orders", 1)]
    groups.pass_ms(1)
    groups.expire()
    assert groups.committed_partitions("g") == [("orders", 1)]
    assert groups.events[-1] == OffsetDeleted("g", "orders", 0)


def test_somebody_who_only_asks_for_an_id_does_not_make_offsets_younger() -> None:
    groups = new_groups()
    groups.commit(offset())
    groups.pass_ms(RETENTION_MS - 1)
    groups.join(new_id="a")
    groups.pass_ms(1)
    groups.expire()
    assert groups.fetched("orders") == -1
    assert groups.join("a").error is NONE


def test_offsets_of_an_empty_group_age_from_when_it_became_empty() -> None:
    groups = new_groups()
    reader(groups, "orders")
    groups.commit(offset(), generation=1, member_id="a")
    stay_alive(groups, 10 * DAY_MS)
    groups.leave("a")
    groups.pass_ms(RETENTION_MS - 1)
    groups.expire()
    assert groups.fetched("orders") == 1
    groups.pass_ms(1)
    groups.expire()
    assert groups.fetched("orders") == -1
    assert groups.events[-2:] == [OffsetDeleted("g", "orders", 0), GroupDeleted("g")]
    assert groups.machine.list_groups() == []


def test_an_empty_group_keeps_its_age_over_a_restart() -> None:
    groups = new_groups()
    reader(groups, "orders")
    groups.commit(offset(), generation=1, member_id="a")
    groups.leave("a")
    groups.pass_ms(RETENTION_MS - 1)
    groups.restart()
    groups.expire()
    assert groups.fetched("orders") == 1
    groups.pass_ms(1)
    groups.expire()
    assert groups.fetched("orders") == -1


def test_in_a_stable_group_only_topics_that_it_no_longer_reads_age() -> None:
    groups = new_groups()
    reader(groups, "orders")
    groups.commit(offset("orders"), offset("given up"), generation=1, member_id="a")
    stay_alive(groups, RETENTION_MS - 1)
    groups.expire()
    assert len(groups.committed_partitions("g")) == 2
    groups.pass_ms(1)
    groups.expire()
    assert groups.committed_partitions("g") == [("orders", 0)]
    assert groups.state() is ClassicState.STABLE


def test_in_a_group_that_rebalances_nothing_ages() -> None:
    groups = new_groups()
    reader(groups, "orders")
    groups.commit(offset("given up"), generation=1, member_id="a")
    stay_alive(groups, RETENTION_MS)
    groups.enter("b", protocols={"range": subscription("orders")}, rebalance_ms=REBALANCE_MS)
    assert groups.state() is ClassicState.PREPARING_REBALANCE
    groups.expire()
    assert groups.fetched("given up") == 1


@pytest.mark.parametrize(
    "options",
    [
        {"protocol_type": "connect", "protocols": {"v1": b""}},
        {"protocols": {"range": b"not a subscription"}},
    ],
)
def test_in_a_group_whose_topics_are_not_known_nothing_ages(options: dict[str, Any]) -> None:
    groups = new_groups()
    groups.form_stable("a", session_ms=ALIVE_MS, **options)
    groups.commit(offset("orders"), generation=1, member_id="a")
    stay_alive(groups, 2 * RETENTION_MS)
    groups.expire()
    assert groups.fetched("orders") == 1


def test_a_group_of_the_oldest_format_does_not_say_since_when_it_is_empty() -> None:
    groups = new_groups()
    groups.machine.apply(GroupSaved("g", "consumer", 3, None, None, -1, ()))
    groups.machine.apply(OffsetCommitted("g", "orders", 0, 5, -1, "", START_MS - RETENTION_MS))
    groups.machine.apply(OffsetCommitted("g", "orders", 1, 5, -1, "", START_MS - RETENTION_MS + 1))
    with groups.one_turn() as turn:
        groups.machine.start(turn)
    groups.expire()
    assert groups.committed_partitions("g") == [("orders", 1)]


def test_a_retention_time_that_the_client_named_counts_instead() -> None:
    groups = new_groups()
    reader(groups, "orders")
    groups.commit(
        offset("short", retention_ms=1000),
        offset("long", retention_ms=20 * DAY_MS),
        offset("orders", retention_ms=1000),
        generation=1,
        member_id="a",
    )
    committed = [event for event in groups.events if isinstance(event, OffsetCommitted)]
    assert [event.expires_at_ms - START_MS for event in committed] == [1000, 20 * DAY_MS, 1000]
    groups.restart()
    groups.pass_ms(999)
    groups.expire()
    assert groups.fetched("short") == 1
    groups.pass_ms(1)
    groups.expire()
    # It is subscribed to one of them.
    assert (groups.fetched("short"), groups.fetched("orders")) == (-1, 1)
    stay_alive(groups, 19 * DAY_MS)
    groups.expire()
    assert groups.fetched("long") == 1
    stay_alive(groups, DAY_MS)
    groups.expire()
    assert groups.fetched("long") == -1


def test_a_retention_time_as_long_as_can_be_is_for_ever() -> None:
    groups = new_groups()
    groups.commit(offset("orders", retention_ms=(1 << 63) - 1))
    groups.restart()
    groups.pass_ms(1000 * RETENTION_MS)
    groups.expire()
    assert groups.fetched("orders") == 1


def test_an_offset_with_one_pending_is_kept_until_the_transaction_ends() -> None:
    groups = new_groups()
    groups.commit(offset("orders", 0), offset("orders", 1))
    groups.commit_in_transaction(7, offset("orders", 0, 9))
    groups.pass_ms(RETENTION_MS)
    groups.expire()
    assert groups.committed_partitions("g") == [("orders", 0)]
    groups.end_transaction("abort", 7)
    groups.expire()
    assert groups.committed_partitions("g") == []


def test_a_group_with_only_pending_offsets_is_kept() -> None:
    groups = new_groups()
    reader(groups, "orders")
    groups.leave("a")
    groups.commit_in_transaction(7, offset())
    groups.pass_ms(RETENTION_MS)
    groups.expire()
    assert [listed.group_id for listed in groups.machine.list_groups()] == ["g"]
    assert not any(isinstance(event, GroupDeleted) for event in groups.events)
    groups.end_transaction("abort", 7)
    groups.expire()
    assert groups.machine.list_groups() == []


# Groups of which nothing is left


def test_an_empty_group_without_offsets_vanishes() -> None:
    groups = new_groups()
    reader(groups, "orders")
    groups.leave("a")
    groups.expire()
    assert groups.events[-1] == GroupDeleted("g")
    assert groups.machine.list_groups() == []
    groups.restart()
    assert groups.machine.list_groups() == []


def test_a_group_that_somebody_was_given_an_id_for_is_kept_as_long_as_that() -> None:
    groups = new_groups()
    groups.join(new_id="a", session_ms=6000)
    groups.expire()
    assert groups.join("a").error is NONE

    groups.join(new_id="b", session_ms=6000, group="two")
    groups.pass_ms(6000)
    groups.expire()
    assert [listed.group_id for listed in groups.machine.list_groups()] == ["g"]


def test_a_group_with_members_is_kept() -> None:
    groups = new_groups()
    groups.form("a")
    groups.expire()
    assert groups.member_ids() == ["a"]


def test_expiry_is_checked_in_intervals() -> None:
    groups = Groups(retention_check_interval_ms=600_000, offsets_retention_ms=1000)
    groups.commit(offset())
    groups.pass_ms(599_999)
    assert groups.fetched("orders") == 1
    groups.pass_ms(1)
    assert groups.fetched("orders") == -1
    groups.commit(offset())
    groups.pass_ms(600_000)
    assert groups.fetched("orders") == -1


# Deleting groups


def test_an_empty_group_can_be_deleted_with_its_offsets() -> None:
    groups = new_groups()
    reader(groups, "orders")
    groups.commit(offset("orders", 0), offset("orders", 1), generation=1, member_id="a")
    groups.leave("a")
    groups.commit_in_transaction(7, offset("orders", 1), offset("orders", 2))
    written = len(groups.events)
    assert groups.delete() is NONE
    assert groups.events[written:] == [
        *(OffsetDeleted("g", "orders", partition) for partition in range(3)),
        GroupDeleted("g"),
    ]
    groups.end_transaction("commit", 7)
    assert groups.machine.list_groups() == []
    groups.restart()
    assert groups.machine.list_groups() == []


def test_a_group_that_only_has_offsets_can_be_deleted() -> None:
    groups = new_groups()
    groups.commit(offset())
    assert groups.delete() is NONE
    assert groups.events[1:] == [OffsetDeleted("g", "orders", 0)]
    assert groups.delete() is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    "state",
    [ClassicState.PREPARING_REBALANCE, ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE],
)
def test_a_group_with_members_cannot_be_deleted(state: ClassicState) -> None:
    groups = new_groups()
    groups.form("a")
    if state is not ClassicState.COMPLETING_REBALANCE:
        groups.stabilize()
    if state is ClassicState.PREPARING_REBALANCE:
        groups.enter("b")
    assert groups.delete() is ErrorCode.NON_EMPTY_GROUP
    assert groups.state() is state


def test_a_group_that_does_not_exist_cannot_be_deleted() -> None:
    assert new_groups().delete() is ErrorCode.GROUP_ID_NOT_FOUND


def test_an_id_given_out_before_the_deletion_is_unknown_after_it() -> None:
    groups = new_groups()
    groups.join(new_id="a")
    assert groups.delete() is NONE
    assert groups.machine.membership.deadlines.next_ms() is None
    assert groups.join("a").error is ErrorCode.UNKNOWN_MEMBER_ID


# Looking at groups


def test_every_group_is_listed_with_its_type_and_state() -> None:
    groups = new_groups()
    groups.form_stable("a", group="stable")
    groups.form("a", group="completing")
    groups.form_stable("a", group="empty")
    groups.leave("a", group="empty")
    groups.form_stable("a", group="preparing")
    groups.enter("b", group="preparing")
    groups.form_stable("w", group="workers", protocol_type="connect", protocols={"v": b""})
    groups.commit(offset(), group="simple")
    groups.commit_in_transaction(7, offset(), group="pending")
    assert groups.machine.list_groups() == [
        ListedGroup("stable", "consumer", "Stable", "classic"),
        ListedGroup("completing", "consumer", "CompletingRebalance", "classic"),
        ListedGroup("empty", "consumer", "Empty", "classic"),
        ListedGroup("preparing", "consumer", "PreparingRebalance", "classic"),
        ListedGroup("workers", "connect", "Stable", "classic"),
        ListedGroup("simple", "", "Empty", "classic"),
        ListedGroup("pending", "", "Empty", "classic"),
    ]


def test_a_stable_group_is_described_with_what_its_members_have() -> None:
    groups = new_groups()
    groups.form_stable("a", "i#b")
    members = tuple(
        DescribedMember(
            name, instance, "client", "/127.0.0.1", subscription("orders"), b"to " + name.encode()
        )
        for name, instance in (("a", None), ("b", "i"))
    )
    described = DescribedGroup("Stable", "consumer", "range", members)
    assert groups.machine.describe("g") == described
    groups.restart()
    assert groups.machine.describe("g") == described


def test_a_group_that_rebalances_is_described_with_the_assignment_it_still_has() -> None:
    groups = new_groups()
    groups.form("a")
    member = DescribedMember("a", None, "client", "/127.0.0.1", b"", b"")
    assert groups.machine.describe("g") == DescribedGroup(
        "CompletingRebalance", "consumer", "", (member,)
    )
    groups.stabilize()
    groups.enter("b")
    members = (member._replace(assignment=b"to a"), member._replace(member_id="b"))
    assert groups.machine.describe("g") == DescribedGroup(
        "PreparingRebalance", "consumer", "", members
    )


def test_groups_without_members_are_described_as_empty_and_others_not_at_all() -> None:
    groups = new_groups()
    groups.commit(offset())
    assert groups.machine.describe("g") == DescribedGroup("Empty", "", "", ())
    missing = groups.machine.describe("nobody")
    assert isinstance(missing, Refused)
    assert missing.error is ErrorCode.GROUP_ID_NOT_FOUND
    reader(groups, "orders")
    groups.leave("a")
    assert groups.machine.describe("g") == DescribedGroup("Empty", "consumer", "", ())
