"""What a member decides with the help of assignors."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ottla.client.model import Node
from ottla.client.state.group.group_leader import (
    assignable,
    check_cooperative,
    elected_assignor,
    rebalance_protocol,
    snapshot,
    subscriptions_of,
    topics_to_watch,
)
from ottla.client.state.metadata import ClusterMetadata, PartitionState, Topic
from ottla.core.assignors.model import (
    Assignment,
    Assignor,
    PartitionInfo,
    RebalanceProtocol,
    Subscription,
)
from ottla.core.assignors.registry import ASSIGNORS
from ottla.errors import ConfigError, FatalError, IllegalStateError
from ottla.model import NO_TOPIC_ID, TopicPartition
from ottla.wire.messages.join_group import JoinGroupResponseMember

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


class OnlyCooperative(Assignor):
    name = "mine"
    protocols = (RebalanceProtocol.COOPERATIVE,)

    def assign(
        self, cluster: object, subscriptions: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        return {}


def assignors(*names: str) -> list[Assignor]:
    return [ASSIGNORS[name]() for name in names]


def cluster(*replicas: tuple[int, ...]) -> ClusterMetadata:
    partitions = tuple(
        PartitionState(number, nodes[0], 0, nodes, nodes, (), 0)
        for number, nodes in enumerate(replicas)
    )
    return ClusterMetadata(
        nodes={1: Node(1, "h", 1, "east"), 2: Node(2, "h", 2, "west"), 3: Node(3, "h", 3, None)},
        topics={"a": Topic("a", NO_TOPIC_ID, False, partitions)},
    )


def test_members_are_cooperative_only_if_all_their_assignors_are() -> None:
    assert rebalance_protocol(assignors("cooperative-sticky")) is RebalanceProtocol.COOPERATIVE
    both = assignors("range", "cooperative-sticky")
    assert rebalance_protocol(both) is RebalanceProtocol.EAGER


def test_assignors_without_a_protocol_in_common_are_refused() -> None:
    with pytest.raises(ConfigError, match="range, mine"):
        rebalance_protocol([*assignors("range"), OnlyCooperative()])
    with pytest.raises(ConfigError, match="nothing"):
        rebalance_protocol([])


def test_an_elected_assignor_that_we_lack_is_an_error() -> None:
    assert elected_assignor(assignors("range", "sticky"), "sticky").name == "sticky"
    with pytest.raises(FatalError, match=r"'theirs'.*range, sticky"):
        elected_assignor(assignors("range", "sticky"), "theirs")


def test_a_subscription_that_cannot_be_read_names_its_member() -> None:
    broken = JoinGroupResponseMember(member_id="them", metadata=b"\x00")
    with pytest.raises(FatalError, match="them"):
        subscriptions_of([broken])


def test_assignors_see_racks_of_replicas() -> None:
    seen = assignable(cluster((1, 2), (2, 3)))
    assert seen == {"a": [PartitionInfo(0, ("east", "west")), PartitionInfo(1, ("west",))]}


def test_the_number_of_partitions_is_watched() -> None:
    before = snapshot(cluster((1,), (1,)), ["a", "missing"], None)
    assert before == snapshot(cluster((2,), (1,)), ["a", "missing"], None)
    assert before != snapshot(cluster((1,), (1,), (1,)), ["a", "missing"], None)
    assert before != snapshot(ClusterMetadata(), ["a", "missing"], None), "a topic that is gone"


def test_racks_are_watched_by_a_consumer_that_has_one() -> None:
    before = snapshot(cluster((1, 2)), ["a"], "east")
    assert before == snapshot(cluster((2, 1)), ["a"], "east")
    assert before != snapshot(cluster((1, 3)), ["a"], "east")


def test_a_cooperative_assignor_must_not_move_what_somebody_still_has() -> None:
    owned = {"x": Subscription(("a",), owned_partitions=(A0, A1)), "y": Subscription(("a",))}
    check_cooperative(owned, {"x": Assignment((A0,)), "y": Assignment(())})
    with pytest.raises(IllegalStateError, match="a-1"):
        check_cooperative(owned, {"x": Assignment((A0,)), "y": Assignment((A1,))})


def test_topics_that_an_assignor_adds_by_itself_are_watched() -> None:
    shares = {"x": Assignment((TopicPartition("extra", 0),))}
    assert topics_to_watch(OnlyCooperative(), shares, ["a"]) == ["a", "extra"]
    assert topics_to_watch(assignors("range")[0], shares, ["a"]) == ["a"]
