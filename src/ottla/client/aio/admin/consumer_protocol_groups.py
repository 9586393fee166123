"""Groups of the new consumer protocol (KIP-848), as ConsumerGroupDescribe has them."""

from __future__ import annotations

from ottla.client.admin_model import GroupDescription, GroupState, GroupType, MemberDescription
from ottla.client.aio.admin.results import Answers
from ottla.client.aio.admin.state_names import word_of
from ottla.client.aio.admin.topic_descriptions import operations
from ottla.client.model import Node
from ottla.model import TopicPartition
from ottla.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
)

CONSUMER_PROTOCOL = "consumer"


def read_new_groups(
    response: ConsumerGroupDescribeResponse,
    coordinator: Node,
    answers: Answers[str, GroupDescription],
) -> None:
    """Groups and their members."""
    for group in response.groups:
        if group.error_code:
            answers.refuse(group.group_id, group.error_code, group.error_message)
        else:
            answers.give(group.group_id, description_of(group, coordinator))


def description_of(group: DescribedGroup, coordinator: Node) -> GroupDescription:
    """A group, whose members have what they own now: the target may be another."""
    return GroupDescription(
        group.group_id,
        CONSUMER_PROTOCOL,
        word_of(GroupState, group.group_state, GroupState.UNKNOWN),
        tuple(map(member_of, group.members)),
        group.assignor_name,
        coordinator,
        GroupType.CONSUMER,
        operations(group.authorized_operations),
    )


def member_of(member: Member) -> MemberDescription:
    """A member; what it subscribes to is no bytes in this protocol."""
    return MemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        partitions_of(member.assignment),
    )


def partitions_of(assignment: Assignment) -> tuple[TopicPartition, ...]:
    """The partitions of an assignment by name."""
    return tuple(
        TopicPartition(topic.topic_name, number)
        for topic in assignment.topic_partitions
        for number in topic.partitions
    )
