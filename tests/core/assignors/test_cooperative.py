from __future__ import annotations

from tests.core.assignors.notation import assign, claims, cluster, racked, wants

from ottla.core.assignors.model import Assignment, RebalanceProtocol, Subscription
from ottla.core.assignors.registry import ASSIGNORS
from ottla.core.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from ottla.core.assignors.user_data import encode_claim, encode_generation
from ottla.model import TopicPartition

NAME = "cooperative-sticky"


def test_the_cooperative_assignor_works_in_both_ways_and_the_others_eagerly() -> None:
    protocols = {name: ASSIGNORS[name]().protocols for name in ASSIGNORS}
    eager, cooperative = RebalanceProtocol.EAGER, RebalanceProtocol.COOPERATIVE
    assert protocols == {
        "range": (eager,),
        "roundrobin": (eager,),
        "sticky": (eager,),
        "cooperative-sticky": (cooperative, eager),
    }


def test_assignors_are_known_by_their_names() -> None:
    assert {name: make().name for name, make in ASSIGNORS.items()} == {n: n for n in ASSIGNORS}


def test_what_moves_is_first_taken_away_and_then_given() -> None:
    first = {"a": claims(NAME, "t", "t-0 t-1 t-2", 1), "b": wants("t")}
    assert assign(NAME, cluster(t=3), first) == {"a": "t-0 t-1", "b": ""}
    second = {"a": claims(NAME, "t", "t-0 t-1", 2), "b": claims(NAME, "t", "", 2)}
    assert assign(NAME, cluster(t=3), second) == {"a": "t-0 t-1", "b": "t-2"}


def test_what_moves_between_members_with_different_topics_is_first_taken_away() -> None:
    first = {"a": claims(NAME, "t", "t-0 t-1 t-2 t-3", 1), "b": wants("t u")}
    topics = cluster(t=4, u=1)
    assert assign(NAME, topics, first) == {"a": "t-1 t-2 t-3", "b": "u-0"}
    second = {"a": claims(NAME, "t", "t-1 t-2 t-3", 2), "b": claims(NAME, "t u", "u-0", 2)}
    assert assign(NAME, topics, second) == {"a": "t-1 t-2 t-3", "b": "u-0 t-0"}


def test_what_is_new_is_given_at_once() -> None:
    group = {"a": claims(NAME, "t", "t-0 t-1", 1), "b": claims(NAME, "t", "", 1)}
    assert assign(NAME, cluster(t=4), group) == {"a": "t-0 t-1", "b": "t-2 t-3"}


def test_what_two_members_of_one_generation_claim_is_taken_from_both() -> None:
    group = {
        "consumer1": claims(NAME, "t", "t-0 t-1"),
        "consumer2": claims(NAME, "t", "t-0 t-2"),
        "consumer3": claims(NAME, "t", ""),
    }
    assert assign(NAME, cluster(t=3), group) == {
        "consumer1": "t-1",
        "consumer2": "t-2",
        "consumer3": "",
    }
    assert assign(NAME, cluster(t=4), group) == {
        "consumer1": "t-1 t-3",
        "consumer2": "t-2",
        "consumer3": "",
    }


def test_the_eager_assignor_gives_at_once_what_two_members_claim() -> None:
    group = {
        "consumer1": claims("sticky", "t", "t-0 t-1"),
        "consumer2": claims("sticky", "t", "t-0 t-2"),
        "consumer3": claims("sticky", "t", ""),
    }
    assert assign("sticky", cluster(t=3), group) == {
        "consumer1": "t-1",
        "consumer2": "t-2",
        "consumer3": "t-0",
    }


def test_members_exchange_what_is_in_the_wrong_rack_in_two_steps() -> None:
    layout = racked({"t": 4}, 1, "ab")  # t-0 and t-2 in a, the others in b
    group = {
        "c0": claims(NAME, "t", "t-0 t-1", rack="a"),
        "c1": claims(NAME, "t", "t-2 t-3", rack="b"),
    }
    assert assign(NAME, layout, group) == {"c0": "t-0", "c1": "t-3"}


# What a member says of itself


def test_subscriptions_of_version_1_have_their_generation_in_the_user_data() -> None:
    """Of two claims the later one counts, where only one of them says so in the subscription."""
    t0 = (TopicPartition("t", 0),)
    older = Subscription(("t",), encode_generation(1), t0)
    newer = Subscription(("t",), None, t0, generation_id=2)
    assert assign(NAME, cluster(t=2), {"a": older, "b": newer}) == {"a": "t-1", "b": "t-0"}
    assert assign(NAME, cluster(t=2), {"b": older, "a": newer}) == {"a": "t-0", "b": "t-1"}


def test_the_generation_of_the_subscription_goes_before_that_of_the_user_data() -> None:
    t0 = (TopicPartition("t", 0),)
    group = {
        "a": Subscription(("t",), encode_generation(9), t0, generation_id=1),
        "b": Subscription(("t",), encode_generation(1), t0, generation_id=2),
    }
    assert assign(NAME, cluster(t=2), group) == {"a": "t-1", "b": "t-0"}


def test_the_eager_assignor_reads_claims_from_the_user_data_only() -> None:
    t0, t1 = TopicPartition("t", 0), TopicPartition("t", 1)
    group = {
        "a": Subscription(("t",), encode_claim((t1,), 1), (t0,), generation_id=2),
        "b": Subscription(("t",), None, (t1,), generation_id=2),
    }
    assert assign("sticky", cluster(t=2), group) == {"a": "t-1", "b": "t-0"}


def test_an_assignor_tells_what_its_member_got_last() -> None:
    sticky, cooperative = StickyAssignor(), CooperativeStickyAssignor()
    assert sticky.subscription_user_data(["t"]) is None
    assert cooperative.subscription_user_data(["t"]) == encode_generation(-1)
    t0 = TopicPartition("t", 0)
    for assignor in (sticky, cooperative):
        assignor.on_assignment(Assignment((t0,)), 7)
    assert sticky.subscription_user_data(["t"]) == encode_claim((t0,), 7)
    assert cooperative.subscription_user_data(["t"]) == encode_generation(7)


def test_range_and_round_robin_say_nothing_of_their_members() -> None:
    for name in ("range", "roundrobin"):
        assignor = ASSIGNORS[name]()
        assignor.on_assignment(Assignment((TopicPartition("t", 0),)), 7)
        assert assignor.subscription_user_data(["t"]) is None
