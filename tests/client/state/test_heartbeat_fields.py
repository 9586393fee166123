"""What ConsumerGroupHeartbeat requests contain: everything to join and after errors, else only news."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from ottla.client.state.group.consumer.heartbeat_fields import (
    HeartbeatFields,
    MemberFields,
    NoBrokerPatternsError,
    assigned_partitions,
    grouped,
)
from ottla.client.state.group.consumer.membership import (
    ConsumerMembership,
    Target,
    TopicIdPartition,
)
from ottla.errors import ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

ID, OTHER = UUID(int=1), UUID(int=2)
FIELDS = MemberFields(
    rebalance_timeout_ms=300_000,
    topics=("menus", "orders"),
    pattern=None,
    assignor="uniform",
    reached=None,
)
NO_NEWS = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=3)


def heartbeats(instance: str | None = None, epoch: int = 0) -> HeartbeatFields:
    member = ConsumerMembership("m", instance)
    member.member_epoch = epoch
    return HeartbeatFields("g", member, "rack-1")


def after_joining(fields: MemberFields = FIELDS, instance: str | None = None) -> HeartbeatFields:
    """Heartbeats of a member that has epoch 3, and whose first one was sent."""
    beats = heartbeats(instance)
    beats.request(fields, 1)
    beats._membership.member_epoch = 3
    return beats


def news(request: ConsumerGroupHeartbeatRequest) -> dict[str, Any]:
    """The fields that differ from a heartbeat that tells nothing."""
    return {
        name: value
        for name, value in vars_of(request).items()
        if value != vars_of(NO_NEWS)[name] and name != "instance_id"
    }


def vars_of(request: ConsumerGroupHeartbeatRequest) -> dict[str, Any]:
    return {name: getattr(request, name) for name in ConsumerGroupHeartbeatRequest.__annotations__}


def test_the_first_heartbeat_has_everything() -> None:
    assert heartbeats().request(FIELDS, 1) == ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rack_id="rack-1",
        rebalance_timeout_ms=300_000,
        subscribed_topic_names=["menus", "orders"],
        server_assignor="uniform",
        topic_partitions=[],
    )


def test_a_join_that_is_repeated_has_everything_again() -> None:
    beats = heartbeats()
    assert beats.request(FIELDS, 1) == beats.request(FIELDS, 1)


def test_later_heartbeats_have_only_news() -> None:
    beats = after_joining()
    assert beats.request(FIELDS, 1) == NO_NEWS
    assert not beats.has_news(FIELDS)
    other = FIELDS._replace(topics=("orders",))
    assert beats.has_news(other)
    assert news(beats.request(other, 1)) == {"subscribed_topic_names": ["orders"]}
    assert beats.request(other, 1) == NO_NEWS


def test_what_was_taken_over_is_reported_once() -> None:
    beats = after_joining()
    reached = FIELDS._replace(reached=Target(0, frozenset({TopicIdPartition(ID, 1)})))
    assert news(beats.request(reached, 1)) == {
        "topic_partitions": [TopicPartitions(topic_id=ID, partitions=[1])]
    }
    assert beats.request(reached, 1) == NO_NEWS


def test_the_same_partitions_for_another_target_are_reported_again() -> None:
    partitions = frozenset({TopicIdPartition(ID, 1)})
    beats = after_joining(FIELDS._replace(reached=Target(0, partitions)))
    again = FIELDS._replace(reached=Target(2, partitions))
    assert news(beats.request(again, 1)) == {
        "topic_partitions": [TopicPartitions(topic_id=ID, partitions=[1])]
    }


def test_a_member_that_gave_all_partitions_up_says_so() -> None:
    beats = after_joining(FIELDS._replace(reached=Target(0, frozenset({TopicIdPartition(ID, 1)}))))
    nothing = FIELDS._replace(reached=Target(1, frozenset()))
    assert beats.request(nothing, 1).topic_partitions == []


def test_after_an_error_everything_but_the_rack_is_told_again() -> None:
    beats = after_joining()
    beats.reset()
    assert beats.has_news(FIELDS)
    assert news(beats.request(FIELDS, 1)) == {
        "rebalance_timeout_ms": 300_000,
        "subscribed_topic_names": ["menus", "orders"],
        "server_assignor": "uniform",
        "topic_partitions": [],
    }


def test_a_pattern_is_told_when_it_changes_and_taken_back_by_an_empty_one() -> None:
    with_pattern = FIELDS._replace(topics=(), pattern="a.*")
    beats = heartbeats()
    first = beats.request(with_pattern, 1)
    assert (first.subscribed_topic_names, first.subscribed_topic_regex) == ([], "a.*")
    beats._membership.member_epoch = 3
    assert beats.request(with_pattern, 1) == NO_NEWS
    other = with_pattern._replace(pattern="b.*")
    assert news(beats.request(other, 1)) == {"subscribed_topic_regex": "b.*"}
    assert beats.request(FIELDS, 1).subscribed_topic_regex == ""


def test_a_static_member_takes_back_the_pattern_of_its_predecessor() -> None:
    assert heartbeats("i").request(FIELDS, 1).subscribed_topic_regex == ""
    assert heartbeats("i").request(FIELDS, 0).subscribed_topic_regex is None
    assert heartbeats().request(FIELDS, 1).subscribed_topic_regex is None


def test_a_broker_without_patterns_is_told_what_to_do_instead() -> None:
    with pytest.raises(NoBrokerPatternsError, match=r"subscribe with re\.compile") as refused:
        heartbeats().request(FIELDS._replace(pattern="a.*"), 0)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_the_last_heartbeat_says_that_the_member_leaves(instance: str | None, epoch: int) -> None:
    assert heartbeats(instance, 7).leave_request() == ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=epoch, instance_id=instance
    )


def test_every_heartbeat_of_a_static_member_has_its_name() -> None:
    assert after_joining(instance="i").request(FIELDS, 1).instance_id == "i"


def test_partitions_are_grouped_by_topic_in_order() -> None:
    partitions = [TopicIdPartition(OTHER, 0), TopicIdPartition(ID, 4), TopicIdPartition(ID, 1)]
    assert grouped(partitions) == [
        TopicPartitions(topic_id=ID, partitions=[1, 4]),
        TopicPartitions(topic_id=OTHER, partitions=[0]),
    ]


def test_an_answer_without_an_assignment_has_no_target() -> None:
    answer = ConsumerGroupHeartbeatResponse(error_code=0, member_epoch=1, heartbeat_interval_ms=5)
    assert assigned_partitions(answer) is None
    answer.assignment = Assignment(topic_partitions=[])
    assert assigned_partitions(answer) == frozenset()
    answer.assignment.topic_partitions = [TopicPartitions(topic_id=ID, partitions=[2, 3])]
    assert assigned_partitions(answer) == frozenset(
        {TopicIdPartition(ID, 2), TopicIdPartition(ID, 3)}
    )
