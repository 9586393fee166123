from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.core.assignors.notation import assign, cluster, wants


@pytest.mark.parametrize(
    ("group", "counts", "shares"),
    [
        pytest.param({"a": ""}, {}, {"a": ""}, id="no-topic"),
        pytest.param({"a": "t"}, {}, {"a": ""}, id="topic-does-not-exist"),
        pytest.param({"a": "t"}, {"t": 3, "u": 3}, {"a": "t-0 t-1 t-2"}, id="only-what-it-wants"),
        pytest.param({"a": "u t"}, {"u": 2, "t": 1}, {"a": "t-0 u-0 u-1"}, id="all-it-wants"),
        pytest.param({"a": "t", "b": "t"}, {"t": 1}, {"a": "t-0", "b": ""}, id="too-few"),
        pytest.param({"a": "t", "b": "t"}, {"t": 2}, {"a": "t-0", "b": "t-1"}, id="one-each"),
        pytest.param(
            {"a": "t", "b": "t u", "c": "t"},
            {"t": 3, "u": 2},
            {"a": "t-0", "b": "t-1 u-0 u-1", "c": "t-2"},
            id="who-does-not-want-it-is-passed-over",
        ),
        pytest.param(
            {"a": "t u", "b": "t u"},
            {"t": 3, "u": 3},
            {"a": "t-0 t-2 u-1", "b": "t-1 u-0 u-2"},
            id="a-topic-begins-where-the-last-ended",
        ),
    ],
)
def test_partitions_are_dealt_in_order(
    group: Mapping[str, str], counts: Mapping[str, int], shares: Mapping[str, str]
) -> None:
    subscriptions = {member: wants(topics) for member, topics in group.items()}
    assert assign("roundrobin", cluster(**counts), subscriptions) == shares


def test_a_group_without_members_gets_nothing() -> None:
    assert assign("roundrobin", cluster(t=3), {}) == {}


def test_static_members_come_before_dynamic_ones() -> None:
    topics = cluster(t=3)
    one_static = {"consumer-a": wants("t"), "consumer-b": wants("t", "instance1")}
    assert assign("roundrobin", topics, one_static) == {
        "consumer-a": "t-1",
        "consumer-b": "t-0 t-2",
    }
    two_static = {"a": wants("t", "i2"), "b": wants("t", "i1")}
    assert assign("roundrobin", topics, two_static) == {"a": "t-1", "b": "t-0 t-2"}


def test_static_members_keep_their_shares_when_a_dynamic_one_is_replaced() -> None:
    static = {f"consumer{i}": wants("t u", f"instance{i}") for i in (1, 2, 3)}
    kept = {"consumer1": "t-0 u-1", "consumer2": "t-1 u-2", "consumer3": "t-2"}
    for dynamic in ("consumer4", "consumer5", "a"):
        shares = assign("roundrobin", cluster(t=3, u=3), {**static, dynamic: wants("t u")})
        assert shares == {**kept, dynamic: "u-0"}


def test_static_members_keep_their_shares_under_other_member_ids() -> None:
    expected = {
        "instance1": "t-0 t-3 u-1 u-4",
        "instance2": "t-1 t-4 u-2",
        "instance3": "t-2 u-0 u-3",
    }
    for ids in (("consumer1", "consumer2", "consumer3"), ("consumer1", "consumer5", "consumer4")):
        group = {member: wants("t u", f"instance{i + 1}") for i, member in enumerate(ids)}
        shares = assign("roundrobin", cluster(t=5, u=5), group)
        assert {f"instance{i + 1}": shares[member] for i, member in enumerate(ids)} == expected
