"""Examples that documents about Kafka's assignors give."""

from __future__ import annotations

import pytest
from tests.core.assignors.notation import assign, claims, cluster, in_order, wants
from tests.core.assignors.recorded import RECORDED, Recorded

TWO_TOPICS = cluster(t0=3, t1=3)
SUBSCRIBED = {"C0": wants("t0 t1"), "C1": wants("t0 t1")}


def test_range_gives_the_first_members_of_every_topic_one_more() -> None:
    assert assign("range", TWO_TOPICS, SUBSCRIBED) == {
        "C0": "t0-0 t0-1 t1-0 t1-1",
        "C1": "t0-2 t1-2",
    }


def test_round_robin_deals_partitions_in_turn() -> None:
    assert assign("roundrobin", TWO_TOPICS, SUBSCRIBED) == {
        "C0": "t0-0 t0-2 t1-1",
        "C1": "t0-1 t1-0 t1-2",
    }


TEN = cluster(t=10)
THREE = {"consumer1": wants("t"), "consumer2": wants("t"), "consumer3": wants("t")}


def test_range_cuts_ten_partitions_into_three_runs() -> None:
    assert assign("range", TEN, THREE) == {
        "consumer1": "t-0 t-1 t-2 t-3",
        "consumer2": "t-4 t-5 t-6",
        "consumer3": "t-7 t-8 t-9",
    }


def test_round_robin_deals_ten_partitions_to_three() -> None:
    assert assign("roundrobin", TEN, THREE) == {
        "consumer1": "t-0 t-3 t-6 t-9",
        "consumer2": "t-1 t-4 t-7",
        "consumer3": "t-2 t-5 t-8",
    }


def test_sticky_shares_what_a_dead_member_had_and_leaves_the_rest() -> None:
    left = {
        "consumer1": claims("sticky", "t", "t-0 t-1 t-2 t-3"),
        "consumer2": claims("sticky", "t", "t-4 t-5 t-6"),
    }
    assert assign("sticky", TEN, left) == {
        "consumer1": "t-0 t-1 t-2 t-3 t-7",
        "consumer2": "t-4 t-5 t-6 t-8 t-9",
    }


def test_round_robin_passes_over_members_that_do_not_want_a_topic() -> None:
    """Of members with different topics one gets four partitions here, and another one."""
    group = {"C0": wants("t0"), "C1": wants("t0 t1"), "C2": wants("t0 t1 t2")}
    assert assign("roundrobin", cluster(t0=1, t1=2, t2=3), group) == {
        "C0": "t0-0",
        "C1": "t1-0",
        "C2": "t1-1 t2-0 t2-1 t2-2",
    }


def test_sticky_balances_what_round_robin_cannot() -> None:
    group = {"C0": wants("t0"), "C1": wants("t0 t1"), "C2": wants("t0 t1 t2")}
    assert assign("sticky", cluster(t0=1, t1=2, t2=3), group) == {
        "C0": "t0-0",
        "C1": "t1-0 t1-1",
        "C2": "t2-0 t2-1 t2-2",
    }


def test_sticky_moves_only_what_the_member_had_that_left() -> None:
    """KIP-54: three members, four topics of two partitions, then without the second member."""
    topics = cluster(t0=2, t1=2, t2=2, t3=2)
    wanted = "t0 t1 t2 t3"
    first = assign("sticky", topics, {name: wants(wanted) for name in ("C0", "C1", "C2")})
    assert first == {"C0": "t0-0 t1-1 t3-0", "C1": "t0-1 t2-0 t3-1", "C2": "t1-0 t2-1"}
    second = assign(
        "sticky", topics, {name: claims("sticky", wanted, first[name]) for name in ("C0", "C2")}
    )
    assert in_order(second) == {"C0": "t0-0 t0-1 t1-1 t3-0", "C2": "t1-0 t2-0 t2-1 t3-1"}


def test_sticky_keeps_more_than_round_robin_where_members_want_different_topics() -> None:
    """KIP-54: when C0 leaves, round-robin moves three partitions of C1 and C2, sticky none."""
    topics = cluster(t0=1, t1=2, t2=3)
    group = {
        "C1": claims("sticky", "t0 t1", "t1-0 t1-1"),
        "C2": claims("sticky", "t0 t1 t2", "t2-0 t2-1 t2-2"),
    }
    assert assign("sticky", topics, group) == {
        "C1": "t1-0 t1-1 t0-0",
        "C2": "t2-0 t2-1 t2-2",
    }


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_static_members_keep_their_shares_under_other_member_ids(name: str) -> None:
    """KIP-345: after a restart of all, the coordinator has given the members new ids."""
    topics = cluster(t0=3, t1=3)
    before = assign(name, topics, {"C0": wants("t0 t1", "I0"), "C1": wants("t0 t1", "I1")})
    after = assign(name, topics, {"C3": wants("t0 t1", "I0"), "C2": wants("t0 t1", "I1")})
    assert (after["C3"], after["C2"]) == (before["C0"], before["C1"])
    dynamic = assign(name, topics, {"C3": wants("t0 t1"), "C2": wants("t0 t1")})
    assert (dynamic["C3"], dynamic["C2"]) == (before["C1"], before["C0"])


@pytest.mark.parametrize("recorded", RECORDED, ids=[each.rule for each in RECORDED])
def test_sticky_answers_what_kafka_answered(recorded: Recorded) -> None:
    assert assign("sticky", recorded.topics, recorded.group) == recorded.shares
