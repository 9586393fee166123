from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest
from tests.core.assignors.notation import cluster, partitions, wants

from ottla.core.assignors import general
from ottla.core.assignors.model import (
    Assignment,
    Assignor,
    Cluster,
    RebalanceProtocol,
    Subscription,
)
from ottla.core.assignors.registry import ASSIGNORS
from ottla.model import TopicPartition


class EverythingToTheFirst(Assignor):
    """What somebody may write who needs no user data."""

    name = "first"

    def assign(
        self, cluster: Cluster, subscriptions: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        everything = tuple(
            TopicPartition(topic, info.partition) for topic in cluster for info in cluster[topic]
        )
        first = min(subscriptions)
        return {
            member: Assignment(everything if member == first else ()) for member in subscriptions
        }


class Stranger:
    """An assignor that does not inherit anything."""

    name = "stranger"
    protocols = (RebalanceProtocol.COOPERATIVE,)

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        return " ".join(topics).encode()

    def assign(
        self, cluster: Cluster, subscriptions: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        return {member: Assignment((), b"nothing") for member in subscriptions}

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None: ...


def test_an_assignor_of_ones_own_needs_a_name_and_assign_only() -> None:
    assignor: Assignor = EverythingToTheFirst()
    assert assignor.protocols == (RebalanceProtocol.EAGER,)
    assert assignor.subscription_user_data(["t"]) is None
    shares = assignor.assign(cluster(t=2), {"b": wants("t"), "a": wants("t")})
    assert shares == {"a": Assignment(partitions("t-0 t-1")), "b": Assignment(())}
    assignor.on_assignment(shares["a"], 1)


def test_an_assignor_without_assign_cannot_be_made() -> None:
    class Unfinished(Assignor):
        name = "unfinished"

    with pytest.raises(TypeError):
        Unfinished()  # type: ignore[abstract]


def test_an_assignor_need_not_inherit() -> None:
    assignor: Assignor = Stranger()
    assert assignor.subscription_user_data(["t", "u"]) == b"t u"
    assert assignor.assign({}, {"a": wants("t")}) == {"a": Assignment((), b"nothing")}


def test_an_assignment_is_complete_even_where_balancing_is_cut_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(general, "MAX_PASSES", 0)
    group = {
        "a": Subscription(("t", "u"), owned_partitions=partitions("t-0 t-1 t-2"), generation_id=1),
        "b": Subscription(("t",), generation_id=1),
    }
    shares = ASSIGNORS["cooperative-sticky"]().assign(cluster(t=3, u=1), group)
    assert shares["a"].partitions == partitions("t-0 t-1 t-2 u-0")
