"""What the sticky and the cooperative-sticky assignor have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

import pytest
from tests.core.assignors.notation import (
    PLAIN_CASES,
    STICKY_NAMES,
    assign,
    claims,
    cluster,
    in_order,
    racked,
    settled,
    wants,
)

from ottla.core.assignors.model import Cluster

pytestmark = pytest.mark.parametrize("name", STICKY_NAMES)


@pytest.mark.parametrize(
    ("group", "counts", "shares"),
    [
        *PLAIN_CASES,
        pytest.param(
            {"a": "t", "b": "t u", "c": "t"},
            {"t": 3, "u": 2},
            {"a": "t-0 t-2", "b": "u-0 u-1", "c": "t-1"},
            id="different-topics",
        ),
        pytest.param(
            {"a": "t u", "b": "t u"},
            {"t": 3, "u": 3},
            {"a": "t-0 t-2 u-1", "b": "t-1 u-0 u-2"},
            id="same-topics",
        ),
        pytest.param(
            {"consumer1": "t1 t2 t3 t4 t5", "consumer2": "t1 t3 t5", "consumer3": "t1 t3 t5"}
            | {"consumer4": "t1 t2 t3 t4 t5"},
            {"t1": 2, "t2": 1, "t3": 2, "t4": 1, "t5": 2},
            {"consumer1": "t2-0 t3-0", "consumer2": "t1-0 t3-1", "consumer3": "t1-1 t5-0"}
            | {"consumer4": "t4-0 t5-1"},
            id="what-round-robin-does-poorly",
        ),
    ],
)
def test_a_new_group_shares_evenly(
    name: str, group: Mapping[str, str], counts: Mapping[str, int], shares: Mapping[str, str]
) -> None:
    subscriptions = {member: wants(topics) for member, topics in group.items()}
    assert assign(name, cluster(**counts), subscriptions) == shares


def test_a_group_without_members_gets_nothing(name: str) -> None:
    assert assign(name, cluster(t=3), {}) == {}


Claims = Mapping[str, tuple[str, int]]


def claimed(name: str, topics: str, group: Claims) -> dict[str, str]:
    counts = {"topic": 3, "topic1": 3, "topic2": 3, "topic3": 3}
    subscriptions = {
        member: claims(name, topics, owned, generation_id)
        for member, (owned, generation_id) in group.items()
    }
    layout = cluster(**{topic: counts[topic] for topic in topics.split()})
    return in_order(assign(name, layout, subscriptions))


def test_what_is_new_goes_to_who_has_least(name: str) -> None:
    group = {
        "consumer1": claims(name, "t1 t2", "t1-0 t2-1"),
        "consumer2": claims(name, "t1 t2", "t1-1 t2-2"),
    }
    assert assign(name, cluster(t1=2, t2=3), group) == {
        "consumer1": "t1-0 t2-1 t2-0",
        "consumer2": "t1-1 t2-2",
    }


def test_members_below_the_quota_keep_what_they_have(name: str) -> None:
    group = {
        "consumer1": claims(name, "t1 t2", "t1-0"),
        "consumer2": claims(name, "t1 t2", "t1-1"),
        "consumer3": claims(name, "t1 t2", ""),
    }
    assert assign(name, cluster(t1=2, t2=3), group) == {
        "consumer1": "t1-0 t2-1",
        "consumer2": "t1-1 t2-2",
        "consumer3": "t2-0",
    }


def test_only_as_many_members_as_must_have_one_more(name: str) -> None:
    group = {
        "consumer1": claims(name, "t1 t2", "t1-0 t2-0"),
        "consumer2": claims(name, "t1 t2", "t1-1 t2-1"),
        "consumer3": claims(name, "t1 t2", ""),
    }
    assert settled(name, cluster(t1=2, t2=2), group) == {
        "consumer1": "t1-0",
        "consumer2": "t1-1 t2-1",
        "consumer3": "t2-0",
    }


def test_a_member_at_the_upper_quota_keeps_it(name: str) -> None:
    group = {
        "consumer1": claims(name, "t", "t-0 t-1"),
        "consumer2": claims(name, "t", "t-2"),
        "consumer3": claims(name, "t", ""),
    }
    assert assign(name, cluster(t=4), group) == {
        "consumer1": "t-0 t-1",
        "consumer2": "t-2",
        "consumer3": "t-3",
    }


def test_members_come_and_go(name: str) -> None:
    topics = cluster(t1=3, t2=4)
    shares = assign(name, topics, {"c1": wants("t1 t2"), "c2": wants("t1 t2")})
    assert shares == {"c1": "t1-0 t1-2 t2-1 t2-3", "c2": "t1-1 t2-0 t2-2"}
    more = {member: claims(name, "t1 t2", owned) for member, owned in shares.items()}
    more |= {member: claims(name, "t1 t2", "") for member in ("c3", "c4")}
    shares = settled(name, topics, more)
    assert shares == {"c1": "t1-0 t2-1", "c2": "t2-0 t1-1", "c3": "t1-2 t2-3", "c4": "t2-2"}
    fewer = {member: claims(name, "t1 t2", shares[member]) for member in ("c3", "c4")}
    assert assign(name, topics, fewer) == {
        "c3": "t1-2 t2-3 t1-0 t2-1",
        "c4": "t2-2 t1-1 t2-0",
    }


def test_every_topic_stays_balanced_while_members_come_and_go(name: str) -> None:
    topics = cluster(t1=12, t2=12)
    shares = assign(name, topics, {"c1": wants("t1 t2")})
    for members in (["c1", "c2"], ["c1", "c2", "c3", "c4"], ["c3", "c4"]):
        group = {member: claims(name, "t1 t2", shares.get(member, "")) for member in members}
        shares = settled(name, topics, group)
        for share in shares.values():
            assert share.count("t1-") == share.count("t2-") == 12 // len(members)


def test_a_new_topic_moves_nothing_and_a_deleted_one_only_itself(name: str) -> None:
    shares = assign(name, cluster(t=3), {"a": wants("t"), "b": wants("t")})
    group = {member: claims(name, "t u", owned) for member, owned in shares.items()}
    with_u = assign(name, cluster(t=3, u=3), group)
    for member, share in with_u.items():
        assert share.startswith(shares[member])
        assert len(share.split()) == 3
    group = {member: claims(name, "u", owned) for member, owned in with_u.items()}
    without_t = assign(name, cluster(u=3), group)
    for member, share in without_t.items():
        assert set(share.split()) <= set(with_u[member].split())


def test_a_group_whose_topics_are_gone_has_nothing(name: str) -> None:
    assert assign(name, {}, {"a": claims(name, "t", "t-0 t-1")}) == {"a": ""}
    assert assign(name, {"t": ()}, {"a": claims(name, "t", "t-0")}) == {"a": ""}


def test_what_is_owned_in_a_later_generation_counts(name: str) -> None:
    shares = claimed(
        name,
        "topic topic2 topic3",
        {
            "consumer1": ("topic-0 topic2-0 topic3-0", 10),
            "consumer2": ("topic-1 topic2-1 topic3-1", 9),
            "consumer3": ("topic2-1 topic3-0 topic3-2", 8),
        },
    )
    assert shares == {
        "consumer1": "topic-0 topic2-0 topic3-0",
        "consumer2": "topic-1 topic2-1 topic3-1",
        "consumer3": "topic-2 topic2-2 topic3-2",
    }


@pytest.mark.parametrize("old", [9, -1])
def test_a_member_that_fell_behind_owns_nothing_that_another_one_has(name: str, old: int) -> None:
    both = "topic-0 topic-2 topic2-1"
    shares = claimed(name, "topic topic2", {"consumer1": (both, 10), "consumer2": (both, old)})
    assert shares == {"consumer1": both, "consumer2": "topic-1 topic2-0 topic2-2"}


def test_a_member_that_fell_behind_keeps_what_nobody_else_has(name: str) -> None:
    shares = claimed(
        name,
        "topic topic2",
        {
            "consumer1": ("topic-0 topic2-1 topic-1", 10),
            "consumer2": ("topic-0 topic2-1 topic2-2", 8),
        },
    )
    assert shares == {
        "consumer1": "topic-0 topic-1 topic2-1",
        "consumer2": "topic-2 topic2-0 topic2-2",
    }


def test_members_of_different_generations_keep_what_they_have(name: str) -> None:
    shares = claimed(
        name,
        "topic topic1 topic2 topic3",
        {
            "consumer1": ("", -1),
            "consumer2": ("topic-0 topic2-0 topic1-0", 9),
            "consumer3": ("topic3-2 topic2-2 topic1-1", 8),
            "consumer4": ("topic3-1 topic-1 topic-2", 7),
        },
    )
    assert shares == {
        "consumer1": "topic1-2 topic2-1 topic3-0",
        "consumer2": "topic-0 topic1-0 topic2-0",
        "consumer3": "topic1-1 topic2-2 topic3-2",
        "consumer4": "topic-1 topic-2 topic3-1",
    }


@pytest.mark.parametrize("generations", list(permutations((1, 2, 3))))
def test_a_partition_that_three_generations_claim_goes_to_one(
    name: str, generations: Sequence[int]
) -> None:
    """KAFKA-13406: the general algorithm once gave it to two."""
    owned = ["t-0 t-2", "t-1 t-2 t-3", "t-2 t-4 t-5"]
    group = {
        f"consumer{i}": claims(name, "t", mine, generations[i]) for i, mine in enumerate(owned)
    }
    group["consumer3"] = claims(name, "u", "u-0", 2)
    shares = assign(name, cluster(t=6, u=1), group)
    given = " ".join(shares.values()).split()
    assert len(set(given)) == len(given)
    assert all(1 <= len(share.split()) <= 2 for share in shares.values())


def test_nothing_moves_where_no_single_move_makes_it_more_even(name: str) -> None:
    """A chain of two would give everybody two here; Kafka does not look for chains."""
    owned = {"c1": "t1-0", "c2": "t2-0 t3-0", "c3": "t4-0 t5-0 t6-0"}
    wanted = {"c1": "t1 t2", "c2": "t1 t2 t3 t4", "c3": "t2 t3 t4 t5 t6"}
    group = {member: claims(name, wanted[member], owned[member]) for member in owned}
    assert assign(name, cluster(t1=1, t2=1, t3=1, t4=1, t5=1, t6=1), group) == owned


def test_owned_partitions_move_to_members_that_have_two_less(name: str) -> None:
    group = {
        "a": claims(name, "t u", "t-0 t-1 t-2 t-3"),
        "b": claims(name, "t", ""),
        "c": claims(name, "u", "u-0"),
    }
    shares = settled(name, cluster(t=4, u=1), group)
    assert in_order(shares) == {"a": "t-2 t-3", "b": "t-0 t-1", "c": "u-0"}


# Racks, as Kafka's tests lay them out (KIP-881)

TOPICS = {"t1": 6, "t2": 7, "t3": 2}
ALL = "t1 t2 t3"
EVEN = ["t1-0 t1-3 t2-0 t2-3 t2-6", "t1-1 t1-4 t2-1 t2-4 t3-0", "t1-2 t1-5 t2-2 t2-5 t3-1"]
UNEVEN = ["t1-5 t2-0 t2-2 t2-4 t2-6", "t1-3 t2-1 t2-3 t2-5 t3-0", "t1-0 t1-1 t1-2 t1-4 t3-1"]
ONE_REPLICA = [
    "t1-3 t2-0 t2-2 t2-3 t2-6",
    "t1-4 t2-1 t2-4 t2-5 t3-0",
    "t1-0 t1-1 t1-2 t1-5 t3-1",
]
TWO_REPLICAS = [
    "t1-3 t2-0 t2-2 t2-5 t2-6",
    "t1-0 t2-1 t2-3 t2-4 t3-0",
    "t1-1 t1-2 t1-4 t1-5 t3-1",
]


def shares_with_racks(
    name: str,
    layout: Cluster,
    racks: Sequence[str | None],
    wanted: Sequence[str],
    owned: Sequence[str] = ("", "", ""),
) -> list[str]:
    group = {
        f"consumer{i}": claims(name, wanted[i], owned[i], -1, racks[i]) for i in range(len(racks))
    }
    return list(in_order(assign(name, layout, group)).values())


@pytest.mark.parametrize(
    ("replicas", "broker_racks", "racks"),
    [
        pytest.param(0, "", "abc", id="brokers-have-none"),
        pytest.param(3, "abc", [None] * 3, id="members-have-none"),
        pytest.param(3, "abc", "abc", id="all-replicas-everywhere"),
        pytest.param(4, "abcd", "abc", id="more-racks-than-members"),
        pytest.param(3, "abc", "def", id="none-in-common"),
        pytest.param(3, "abc", [None, "e", "f"], id="none-or-none-in-common"),
        pytest.param(3, "ab", "abc", id="all-replicas-in-all-racks-that-have-some"),
    ],
)
def test_racks_that_make_no_difference_change_nothing(
    name: str, replicas: int, broker_racks: str, racks: Sequence[str | None]
) -> None:
    layout: Cluster = cluster(**TOPICS)
    if broker_racks:
        layout = racked(TOPICS, replicas, broker_racks)
    assert shares_with_racks(name, layout, racks, [ALL] * 3) == EVEN
    assert shares_with_racks(name, layout, racks, [ALL] * 3, EVEN) == EVEN
    assert shares_with_racks(name, layout, racks, [ALL, ALL, "t1 t3"]) == UNEVEN
    assert shares_with_racks(name, layout, racks, [ALL, ALL, "t1 t3"], UNEVEN) == UNEVEN


@pytest.mark.parametrize(
    ("replicas", "wanted", "shares"),
    [
        (1, [ALL, ALL, ALL], EVEN),
        (2, [ALL, ALL, ALL], EVEN),
        (1, [ALL, ALL, "t1 t3"], ONE_REPLICA),
        (2, [ALL, ALL, "t1 t3"], TWO_REPLICAS),
    ],
)
def test_members_get_and_keep_what_is_in_their_rack(
    name: str, replicas: int, wanted: Sequence[str], shares: Sequence[str]
) -> None:
    layout = racked(TOPICS, replicas, "abc")
    assert shares_with_racks(name, layout, "abc", wanted) == shares
    assert shares_with_racks(name, layout, "abc", wanted, shares) == shares


MISALIGNED = ["t1-0 t1-1 t1-2 t1-3 t1-4", "t1-5 t2-0 t2-1 t2-2 t2-3", "t2-4 t2-5 t2-6 t3-0 t3-1"]


@pytest.mark.parametrize(
    ("wanted", "first", "last"),
    [
        ([ALL, ALL, ALL], ["t1-0 t1-3", "t2-1", "t2-5 t3-1"], EVEN),
        ([ALL, ALL, "t1 t3"], ["t1-3", "t2-1", "t3-1"], ONE_REPLICA),
    ],
)
def test_what_is_owned_in_the_wrong_rack_moves(
    name: str, wanted: Sequence[str], first: Sequence[str], last: Sequence[str]
) -> None:
    layout = racked(TOPICS, 1, "abc")
    shares = shares_with_racks(name, layout, "abc", wanted, MISALIGNED)
    if name == "cooperative-sticky":
        assert shares == first
        shares = shares_with_racks(name, layout, "abc", wanted, shares)
    assert shares == last


# Where Kafka breaks its own rules


def test_a_member_that_wants_nothing_gets_nothing(name: str) -> None:
    for idle, busy in (("c1", "c2"), ("c2", "c1")):
        shares = assign(name, cluster(t=3), {idle: wants(""), busy: wants("t")})
        assert shares == {busy: "t-0 t-1 t-2", idle: ""}


def test_a_topic_that_is_named_twice_counts_once(name: str) -> None:
    shares = assign(name, cluster(t=2, u=2), {"a": wants("t u"), "b": wants("t t")})
    assert shares == {"a": "u-0 u-1", "b": "t-0 t-1"}


@pytest.mark.parametrize("wanted", ["t u", "t u v"])
def test_nobody_owns_partitions_that_are_gone(name: str, wanted: str) -> None:
    """The topic was deleted and made again with fewer partitions."""
    group = {
        "c1": claims(name, "t u", "t-0 t-5 u-0"),
        "c2": claims(name, wanted, "t-1 u-1 u-2"),
    }
    shares = settled(name, cluster(t=2, u=3), group)
    assert in_order(shares) == {"c1": "t-0 u-0", "c2": "t-1 u-1 u-2"}


def test_a_member_that_was_away_gets_nothing_back_that_it_no_longer_wants(name: str) -> None:
    group = {
        "c0": claims(name, "t0 t1", "t1-0 t0-0", 3),
        "c1": claims(name, "t1", "t0-0 t1-0", 1),
        "c2": claims(name, "t0", "t0-0", 1),
    }
    shares = settled(name, cluster(t0=1, t1=1), group)
    assert "t0" not in shares["c1"]
    assert sorted(" ".join(shares.values()).split()) == ["t0-0", "t1-0"]
