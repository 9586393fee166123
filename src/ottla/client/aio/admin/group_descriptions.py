"""Descriptions of groups, by DescribeGroups (classic protocol) and ConsumerGroupDescribe (KIP-848)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from ottla.client.admin_model.groups import (
    GroupDescription,
    GroupState,
    GroupType,
    MemberDescription,
)
from ottla.client.aio.admin.answers import Answers
from ottla.client.aio.admin.topic_descriptions import operations
from ottla.client.model import Node
from ottla.core.assignors.protocol import decode_assignment
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeResponse,
)
from ottla.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from ottla.wire.messages.consumer_group_describe import Member as ConsumerMember
from ottla.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from ottla.wire.types import MalformedMessageError

CONSUMER_PROTOCOL = "consumer"


def any_group(group: DescribedGroup) -> str | None:
    """No reason to refuse a group."""
    return None


def not_a_consumer_group(group: DescribedGroup) -> str | None:
    """Why a group is not a consumer group; None if it is one."""
    if group.protocol_type in (CONSUMER_PROTOCOL, ""):
        return None
    return f"Its protocol type is {group.protocol_type}: it is not a consumer group."


def read_classic_groups(
    response: DescribeGroupsResponse,
    coordinator: Node,
    answers: Answers[str, GroupDescription],
    refuse: Callable[[DescribedGroup], str | None],
) -> None:
    """Groups of the classic protocol and their members, by DescribeGroups."""
    for group in response.groups:
        if group.error_code:
            answers.fail(group.group_id, group.error_code, group.error_message)
        elif group.group_state == GroupState.DEAD.value:
            # Before version 6 a broker reports a group that does not exist by this state (KIP-1043).
            answers.fail(group.group_id, ErrorCode.GROUP_ID_NOT_FOUND)
        elif (reason := refuse(group)) is not None:
            answers.fail(group.group_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, reason)
        else:
            answers.succeed(group.group_id, _classic_description(group, coordinator))


def _classic_description(group: DescribedGroup, coordinator: Node) -> GroupDescription:
    """A group of a DescribeGroups response."""
    return GroupDescription(
        group.group_id,
        group.protocol_type,
        GroupState.of(group.group_state),
        tuple(_classic_member(member, group.protocol_type) for member in group.members),
        group.protocol_data,
        coordinator,
        GroupType.CLASSIC,
        operations(group.authorized_operations),
    )


def _classic_member(member: DescribedGroupMember, protocol_type: str) -> MemberDescription:
    """A member; its partitions are decoded if it uses the consumer protocol type."""
    assignment = bytes(member.member_assignment)
    partitions: tuple[TopicPartition, ...] = ()
    if assignment and protocol_type == CONSUMER_PROTOCOL:
        # Clients may write anything; the description has the bytes.
        with contextlib.suppress(MalformedMessageError):
            partitions = decode_assignment(assignment).partitions
    return MemberDescription(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        partitions,
        bytes(member.member_metadata),
        assignment,
    )


def read_consumer_groups(
    response: ConsumerGroupDescribeResponse,
    coordinator: Node,
    answers: Answers[str, GroupDescription],
) -> None:
    """Groups of the consumer protocol (KIP-848) and their members, by ConsumerGroupDescribe."""
    for group in response.groups:
        if group.error_code:
            answers.fail(group.group_id, group.error_code, group.error_message)
        else:
            answers.succeed(group.group_id, _consumer_description(group, coordinator))


def _consumer_description(group: DescribedConsumerGroup, coordinator: Node) -> GroupDescription:
    """A group; its members have the partitions that they own now, which may differ from the target."""
    return GroupDescription(
        group.group_id,
        CONSUMER_PROTOCOL,
        GroupState.of(group.group_state),
        tuple(map(_consumer_member, group.members)),
        group.assignor_name,
        coordinator,
        GroupType.CONSUMER,
        operations(group.authorized_operations),
    )


def _consumer_member(member: ConsumerMember) -> MemberDescription:
    """A member; this protocol has no encoded subscription."""
    return MemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        _partitions_of(member.assignment),
    )


def _partitions_of(assignment: Assignment) -> tuple[TopicPartition, ...]:
    """The partitions of an assignment."""
    return tuple(
        TopicPartition(topic.topic_name, number)
        for topic in assignment.topic_partitions
        for number in topic.partitions
    )
