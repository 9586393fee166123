"""Groups of the new consumer protocol as the admin client reads them."""

from __future__ import annotations

from ottla.admin import GroupDescription, GroupState, GroupType
from ottla.client.aio.admin.answers import Answers
from ottla.client.aio.admin.group_descriptions import read_consumer_groups
from ottla.client.model import Node
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from ottla.wire.types import ZERO_UUID

NODE = Node(3, "127.0.0.1", 9092)


def group_of(name: str, code: int = 0) -> DescribedGroup:
    owned = Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=ZERO_UUID, topic_name="orders", partitions=[2, 0])
        ]
    )
    member = Member(
        member_id="m-1",
        instance_id="static",
        member_epoch=7,
        client_id="kitchen",
        client_host="/127.0.0.1",
        subscribed_topic_names=["orders"],
        assignment=owned,
        target_assignment=Assignment(topic_partitions=[]),
    )
    return DescribedGroup(
        error_code=code,
        group_id=name,
        group_state="Reconciling",
        group_epoch=8,
        assignment_epoch=8,
        assignor_name="uniform",
        members=[member],
    )


def test_members_of_new_groups_have_what_they_own_now() -> None:
    answers: Answers[str, GroupDescription] = Answers("ConsumerGroupDescribe", "group")
    gone = group_of("gone", ErrorCode.GROUP_ID_NOT_FOUND)
    read_consumer_groups(
        ConsumerGroupDescribeResponse(groups=[group_of("new"), gone]), NODE, answers
    )
    found = answers.results["new"]
    assert (found.state, found.type) == (GroupState.RECONCILING, GroupType.CONSUMER)
    assert (found.partition_assignor, found.coordinator) == ("uniform", NODE)
    (member,) = found.members
    assert (member.group_instance_id, member.client_id) == ("static", "kitchen")
    assert member.assignment == (TopicPartition("orders", 2), TopicPartition("orders", 0))
    assert answers.errors["gone"].code is ErrorCode.GROUP_ID_NOT_FOUND
