from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from tests.core.assignors.notation import PLAIN_CASES, assign, cluster, in_order, racked, wants

from ottla.core.assignors.model import Cluster, PartitionInfo, Subscription


@pytest.mark.parametrize(
    ("group", "counts", "shares"),
    [
        *PLAIN_CASES,
        pytest.param(
            {"a": "t", "b": "t u", "c": "t"},
            {"t": 3, "u": 2},
            {"a": "t-0", "b": "t-1 u-0 u-1", "c": "t-2"},
            id="each-topic-by-itself",
        ),
        pytest.param(
            {"a": "t t", "b": "t"}, {"t": 3}, {"a": "t-0 t-1", "b": "t-2"}, id="named-twice"
        ),
    ],
)
def test_every_topic_is_cut_into_runs_for_the_members_that_want_it(
    group: Mapping[str, str], counts: Mapping[str, int], shares: Mapping[str, str]
) -> None:
    subscriptions = {member: wants(topics) for member, topics in group.items()}
    assert in_order(assign("range", cluster(**counts), subscriptions)) == shares


def test_a_group_without_members_gets_nothing() -> None:
    assert assign("range", cluster(t=3), {}) == {}


def test_static_members_come_before_dynamic_ones() -> None:
    topics = cluster(t=3)
    one_static = {"consumer-a": wants("t"), "consumer-b": wants("t", "instance1")}
    assert assign("range", topics, one_static) == {"consumer-a": "t-2", "consumer-b": "t-0 t-1"}
    two_static = {"a": wants("t", "i2"), "b": wants("t", "i1")}
    assert assign("range", topics, two_static) == {"a": "t-2", "b": "t-0 t-1"}


def test_static_members_keep_their_shares_when_a_dynamic_one_is_replaced() -> None:
    static = {f"consumer{i}": wants("t u", f"instance{i}") for i in (1, 2, 3)}
    topics = cluster(t=5, u=4)
    kept = {"consumer1": "t-0 t-1 u-0", "consumer2": "t-2 u-1", "consumer3": "t-3 u-2"}
    for dynamic in ("consumer4", "consumer5", "a"):
        shares = assign("range", topics, {**static, dynamic: wants("t u")})
        assert in_order(shares) == {**kept, dynamic: "t-4 u-3"}


# Racks, as Kafka's tests lay them out (KIP-881)


def group_of(topics: Sequence[str], racks: Sequence[str | None]) -> dict[str, Subscription]:
    return {
        f"consumer{i}": wants(each, rack=rack)
        for i, (each, rack) in enumerate(zip(topics, racks, strict=True))
    }


def check(
    counts: Mapping[str, int],
    replicas: int,
    broker_racks: str,
    member_racks: Sequence[str | None],
    topics: Sequence[str],
    shares: Sequence[str],
) -> None:
    layout = racked(counts, replicas, broker_racks)
    expected = {f"consumer{i}": share for i, share in enumerate(shares)}
    assert assign("range", layout, group_of(topics, member_racks)) == expected


THREE_TOPICS = {"t1": 6, "t2": 7, "t3": 2}
ALL = "t1 t2 t3"
WITHOUT_RACKS = [
    "t1-0 t1-1 t2-0 t2-1 t2-2 t3-0",
    "t1-2 t1-3 t2-3 t2-4 t3-1",
    "t1-4 t1-5 t2-5 t2-6",
]


@pytest.mark.parametrize(
    ("replicas", "broker_racks", "member_racks"),
    [
        pytest.param(0, "", "abc", id="brokers-have-none"),
        pytest.param(3, "abc", [None] * 3, id="members-have-none"),
        pytest.param(3, "abc", "abc", id="all-replicas-everywhere"),
        pytest.param(4, "abcd", "abc", id="more-racks-than-members"),
        pytest.param(3, "abc", "def", id="none-in-common"),
        pytest.param(3, "abc", [None, "e", "f"], id="none-or-none-in-common"),
        pytest.param(3, "ab", "abc", id="all-replicas-in-all-racks-that-have-some"),
        pytest.param(1, "abc", ["", "", ""], id="empty-is-none"),
    ],
)
def test_racks_that_make_no_difference_change_nothing(
    replicas: int, broker_racks: str, member_racks: Sequence[str | None]
) -> None:
    layout: Cluster = cluster(**THREE_TOPICS)
    if broker_racks:
        layout = racked(THREE_TOPICS, replicas, broker_racks)
    expected = {f"consumer{i}": share for i, share in enumerate(WITHOUT_RACKS)}
    assert in_order(assign("range", layout, group_of([ALL] * 3, member_racks))) == expected


@pytest.mark.parametrize(
    ("replicas", "topics", "shares"),
    [
        (
            1,
            [ALL, ALL, ALL],
            [
                "t1-0 t1-3 t2-0 t2-3 t2-6",
                "t1-1 t1-4 t2-1 t2-4 t3-0",
                "t1-2 t1-5 t2-2 t2-5 t3-1",
            ],
        ),
        (
            2,
            [ALL, ALL, ALL],
            [
                "t1-0 t1-2 t2-0 t2-2 t2-3 t3-1",
                "t1-1 t1-3 t2-1 t2-4 t3-0",
                "t1-4 t1-5 t2-5 t2-6",
            ],
        ),
        (
            1,
            [ALL, ALL, "t1 t3"],
            [
                "t1-0 t1-3 t2-0 t2-2 t2-3 t2-6",
                "t1-1 t1-4 t2-1 t2-4 t2-5 t3-0",
                "t1-2 t1-5 t3-1",
            ],
        ),
        (
            2,
            [ALL, ALL, "t1 t3"],
            [
                "t1-0 t1-2 t2-0 t2-2 t2-3 t2-5 t3-1",
                "t1-1 t1-3 t2-1 t2-4 t2-6 t3-0",
                "t1-4 t1-5",
            ],
        ),
    ],
)
def test_members_get_what_is_in_their_rack_as_far_as_the_balance_allows(
    replicas: int, topics: Sequence[str], shares: Sequence[str]
) -> None:
    check(THREE_TOPICS, replicas, "abc", "abc", topics, shares)


FIVES = {"t1": 5, "t2": 5, "t3": 5}
ALIGNED = [
    "t1-0 t1-1 t2-0 t2-1 t3-0 t3-1",
    "t1-2 t1-3 t2-2 t2-3 t3-2 t3-3",
    "t1-4 t2-4 t3-4",
]


@pytest.mark.parametrize(
    ("replicas", "topics", "shares"),
    [
        (1, [ALL, ALL, ALL], ALIGNED),
        (2, [ALL, ALL, ALL], ALIGNED),
        (
            1,
            [ALL, ALL, "t1 t3"],
            [
                "t1-0 t1-1 t2-0 t2-1 t2-4 t3-0 t3-1",
                "t1-2 t1-3 t2-2 t2-3 t3-2 t3-3",
                "t1-4 t3-4",
            ],
        ),
        (
            2,
            [ALL, ALL, "t1 t3"],
            [
                "t1-2 t2-0 t2-1 t2-3 t3-2",
                "t1-0 t1-3 t2-2 t2-4 t3-0 t3-3",
                "t1-1 t1-4 t3-1 t3-4",
            ],
        ),
    ],
)
def test_equal_numbers_of_topics_that_are_alike_stay_together_whatever_the_racks(
    replicas: int, topics: Sequence[str], shares: Sequence[str]
) -> None:
    check(FIVES, replicas, "abc", "abc", topics, shares)


PAIRS = {"t1": 6, "t2": 6, "t3": 2, "t4": 2}
FOUR = "t1 t2 t3 t4"


@pytest.mark.parametrize(
    ("broker_racks", "topics", "shares"),
    [
        (
            "ab",
            ["t1 t2", "t1 t2", "t3 t4", "t3 t4"],
            [
                "t1-0 t1-2 t1-4 t2-0 t2-2 t2-4",
                "t1-1 t1-3 t1-5 t2-1 t2-3 t2-5",
                "t3-1 t4-1",
                "t3-0 t4-0",
            ],
        ),
        (
            "ab",
            [FOUR] * 4,
            [
                "t1-0 t1-2 t2-0 t2-2 t3-0 t4-0",
                "t1-1 t1-3 t2-1 t2-3 t3-1 t4-1",
                "t1-5 t2-5",
                "t1-4 t2-4",
            ],
        ),
        (
            "abc",
            [FOUR] * 4,
            [
                "t1-0 t1-3 t2-0 t2-3 t3-0 t4-0",
                "t1-1 t1-4 t2-1 t2-4 t3-1 t4-1",
                "t1-2 t2-2",
                "t1-5 t2-5",
            ],
        ),
    ],
)
def test_topics_that_are_alike_in_their_racks_go_together_to_who_is_near(
    broker_racks: str, topics: Sequence[str], shares: Sequence[str]
) -> None:
    check(PAIRS, 1, broker_racks, "abba", topics, shares)


def test_static_members_keep_their_shares_under_other_member_ids_with_racks() -> None:
    layout = {
        topic: [PartitionInfo(n, ("abc"[n % 3], "abc"[(n + 1) % 3])) for n in range(5)]
        for topic in ("topic1", "topic2")
    }
    expected = {
        "instance1": "topic1-0 topic1-2 topic2-0 topic2-2",
        "instance2": "topic1-1 topic1-3 topic2-1 topic2-3",
        "instance3": "topic1-4 topic2-4",
    }
    for ids in (("consumer1", "consumer2", "consumer3"), ("consumer1", "consumer5", "consumer4")):
        group = {
            member: wants("topic1 topic2", f"instance{i + 1}", "abc"[i])
            for i, member in enumerate(ids)
        }
        shares = assign("range", layout, group)
        assert {f"instance{i + 1}": shares[member] for i, member in enumerate(ids)} == expected
