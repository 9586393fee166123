"""Descriptions of groups: an API for each type of groups, and the order in which they are asked."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.admin_model.groups import (
    GroupDescription,
    GroupState,
    GroupType,
    MemberDescription,
)
from ottla.client.aio.admin.answers import Answers, unsupported_error
from ottla.client.aio.admin.requests import AdminRequests, Ask, name_of, version_at
from ottla.client.aio.admin.topic_descriptions import operations
from ottla.client.model import Node
from ottla.core.assignors.model import Subscription
from ottla.core.assignors.protocol import decode_assignment, decode_subscription
from ottla.errors import AbortableError, ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.wire.messages import (
    consumer_group_describe,
    share_group_describe,
    streams_group_describe,
)
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ottla.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.wire.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from ottla.wire.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from ottla.wire.types import MalformedMessageError

CONSUMER_PROTOCOL: Final = "consumer"
_SHARE_PROTOCOL: Final = "share"
_STREAMS_PROTOCOL: Final = "streams"

# The errors of an API about a group that is not of its type, or if its type is not enabled.
_OTHER_TYPE: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)
# The types of members in ConsumerGroupDescribe; Kafka before 4.0 does not send them (KIP-1099).
_MEMBER_TYPES: Final = {0: GroupType.CLASSIC, 1: GroupType.CONSUMER}

GroupAnswers = Answers[str, GroupDescription]


@dataclass(frozen=True)
class DescribeApi:
    """An API that describes groups of one type."""

    request: type[Any]
    build: Callable[[int, list[str], bool], Any]
    """The request at a version, for some groups, with or without authorized operations."""
    read: Callable[[Any, Node, GroupAnswers], None]
    """Adds the groups of a response of this coordinator."""


def describing(
    requests: AdminRequests, apis: Iterable[DescribeApi], include_authorized_operations: bool
) -> Ask[str, GroupDescription]:
    """Asks a coordinator with one API after the other for the groups that those before do not know."""

    async def ask(node: int, groups: list[str], limit_ms: float, answers: GroupAnswers) -> None:
        connection = await requests.network.connection(node)
        # It may have left the cluster in the meantime.
        coordinator = requests.network.cluster.nodes.get(node) or Node(node, "", -1)
        left = list(groups)
        missing: dict[str, KafkaError] = {}
        for api in apis:
            try:
                version = version_at(connection, api.request)
            except AbortableError:
                continue
            request = api.build(version, left, include_authorized_operations)
            response = await requests.send(connection, request, version, limit_ms)
            part = answers.for_api(name_of(api.request))
            api.read(response, coordinator, part)
            for group, error in list(part.errors.items()):
                if error.code in _OTHER_TYPE:
                    del part.errors[group]
                    # The first API that knows that the group does not exist says it best.
                    if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                        missing.setdefault(group, error)
            answers.add_all(part)
            left = [group for group in left if not answers.mentions(group)]
            if not left:
                return
        answers.errors |= {group: missing[group] for group in left if group in missing}

    return ask


# The classic protocol


def classic_request(
    version: int, groups: list[str], include_authorized_operations: bool
) -> DescribeGroupsRequest:
    """A DescribeGroups request."""
    if include_authorized_operations and version < 3:
        raise unsupported_error(
            name_of(DescribeGroupsRequest), "Asking for authorized operations", "2.3"
        )
    return DescribeGroupsRequest(
        groups=groups, include_authorized_operations=include_authorized_operations
    )


def read_classic_groups(
    response: DescribeGroupsResponse, coordinator: Node, answers: GroupAnswers
) -> None:
    """Groups of the classic protocol, whatever their protocol type."""
    for group in response.groups:
        if group.error_code:
            answers.fail(group.group_id, group.error_code, group.error_message)
        elif group.group_state == GroupState.DEAD.value:
            # Before version 6 a broker reports a group that does not exist by this state (KIP-1043).
            answers.fail(group.group_id, ErrorCode.GROUP_ID_NOT_FOUND)
        else:
            answers.succeed(group.group_id, _classic_description(group, coordinator))


def read_classic_consumer_groups(
    response: DescribeGroupsResponse, coordinator: Node, answers: GroupAnswers
) -> None:
    """Consumer groups of the classic protocol; groups of other protocol types are errors."""
    read_classic_groups(response, coordinator, answers)
    for group_id, group in list(answers.results.items()):
        if group.protocol_type not in (CONSUMER_PROTOCOL, ""):
            del answers.results[group_id]
            reason = f"Its protocol type is {group.protocol_type}: it is not a consumer group."
            answers.fail(group_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, reason)


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
    """A member; its topics and partitions are decoded if it uses the consumer protocol type."""
    metadata, assignment = bytes(member.member_metadata), bytes(member.member_assignment)
    subscription = Subscription(())
    partitions: tuple[TopicPartition, ...] = ()
    if protocol_type == CONSUMER_PROTOCOL:
        # Clients may write anything; the description has the bytes. A group that rebalances has none.
        with contextlib.suppress(MalformedMessageError):
            subscription = decode_subscription(metadata) if metadata else subscription
        with contextlib.suppress(MalformedMessageError):
            partitions = decode_assignment(assignment).partitions if assignment else ()
    return MemberDescription(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=partitions,
        member_metadata=metadata,
        member_assignment=assignment,
        type=GroupType.CLASSIC,
        rack_id=subscription.rack_id,
        subscribed_topics=tuple(subscription.topics),
    )


# The consumer protocol (KIP-848)


def consumer_request(
    version: int, groups: list[str], include_authorized_operations: bool
) -> ConsumerGroupDescribeRequest:
    """A ConsumerGroupDescribe request."""
    return ConsumerGroupDescribeRequest(
        group_ids=groups, include_authorized_operations=include_authorized_operations
    )


def read_consumer_groups(
    response: ConsumerGroupDescribeResponse, coordinator: Node, answers: GroupAnswers
) -> None:
    """Groups of the consumer protocol; members of the classic one may be among theirs."""
    for group in response.groups:
        description = GroupDescription(
            group.group_id,
            CONSUMER_PROTOCOL,
            GroupState.of(group.group_state),
            tuple(map(_consumer_member, group.members)),
            group.assignor_name,
            coordinator,
            GroupType.CONSUMER,
            operations(group.authorized_operations),
            group.group_epoch,
            group.assignment_epoch,
        )
        answers.complete(group.group_id, description, group.error_code, group.error_message)


def _consumer_member(member: consumer_group_describe.Member) -> MemberDescription:
    """A member; this protocol has no encoded subscription."""
    return MemberDescription(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=_partitions_of(member.assignment),
        type=_MEMBER_TYPES.get(member.member_type),
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        target_assignment=_partitions_of(member.target_assignment),
        subscribed_topics=tuple(member.subscribed_topic_names),
        # The members of the classic protocol have an empty one.
        subscribed_topic_regex=member.subscribed_topic_regex or None,
    )


def _partitions_of(
    assignment: consumer_group_describe.Assignment | share_group_describe.Assignment,
) -> tuple[TopicPartition, ...]:
    """The partitions of an assignment."""
    return tuple(
        TopicPartition(topic.topic_name, number)
        for topic in assignment.topic_partitions
        for number in topic.partitions
    )


# Share groups (KIP-932)


def share_request(
    version: int, groups: list[str], include_authorized_operations: bool
) -> ShareGroupDescribeRequest:
    """A ShareGroupDescribe request."""
    return ShareGroupDescribeRequest(
        group_ids=groups, include_authorized_operations=include_authorized_operations
    )


def read_share_groups(
    response: ShareGroupDescribeResponse, coordinator: Node, answers: GroupAnswers
) -> None:
    """Share groups; several members may have the same partition."""
    for group in response.groups:
        description = GroupDescription(
            group.group_id,
            _SHARE_PROTOCOL,
            GroupState.of(group.group_state),
            tuple(map(_share_member, group.members)),
            group.assignor_name,
            coordinator,
            GroupType.SHARE,
            operations(group.authorized_operations),
            group.group_epoch,
            group.assignment_epoch,
        )
        answers.complete(group.group_id, description, group.error_code, group.error_message)


def _share_member(member: share_group_describe.Member) -> MemberDescription:
    return MemberDescription(
        member_id=member.member_id,
        group_instance_id=None,
        client_id=member.client_id,
        host=member.client_host,
        assignment=_partitions_of(member.assignment),
        type=GroupType.SHARE,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        subscribed_topics=tuple(member.subscribed_topic_names),
    )


# Streams groups (KIP-1071)


def streams_request(
    version: int, groups: list[str], include_authorized_operations: bool
) -> StreamsGroupDescribeRequest:
    """A StreamsGroupDescribe request."""
    return StreamsGroupDescribeRequest(
        group_ids=groups, include_authorized_operations=include_authorized_operations
    )


def read_streams_groups(
    response: StreamsGroupDescribeResponse, coordinator: Node, answers: GroupAnswers
) -> None:
    """Groups of Kafka Streams; their members have tasks, which read partitions of source topics."""
    for group in response.groups:
        topics = _source_topics(group.topology)
        description = GroupDescription(
            group.group_id,
            _STREAMS_PROTOCOL,
            GroupState.of(group.group_state),
            tuple(_streams_member(member, topics) for member in group.members),
            group.assignor_name or "",
            coordinator,
            GroupType.STREAMS,
            operations(group.authorized_operations),
            group.group_epoch,
            group.assignment_epoch,
        )
        answers.complete(group.group_id, description, group.error_code, group.error_message)


def _source_topics(topology: streams_group_describe.Topology | None) -> Mapping[str, list[str]]:
    """The topics that each subtopology reads."""
    if topology is None:
        return {}
    return {
        each.subtopology_id: [
            *each.source_topics,
            *(topic.name for topic in each.repartition_source_topics),
        ]
        for each in topology.subtopologies or ()
    }


def _streams_member(
    member: streams_group_describe.Member, topics: Mapping[str, list[str]]
) -> MemberDescription:
    return MemberDescription(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=_partitions_of_tasks(member.assignment, topics),
        type=GroupType.CLASSIC if member.is_classic else GroupType.STREAMS,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        target_assignment=_partitions_of_tasks(member.target_assignment, topics),
        subscribed_topics=tuple(topic for some in topics.values() for topic in some),
    )


def _partitions_of_tasks(
    assignment: streams_group_describe.Assignment, topics: Mapping[str, list[str]]
) -> tuple[TopicPartition, ...]:
    """The partitions that active tasks read; standby and warm-up tasks read none of them."""
    return tuple(
        TopicPartition(topic, number)
        for task in assignment.active_tasks
        for topic in topics.get(task.subtopology_id, ())
        for number in task.partitions
    )


_CLASSIC: Final = DescribeApi(DescribeGroupsRequest, classic_request, read_classic_groups)
_CLASSIC_CONSUMER: Final = DescribeApi(
    DescribeGroupsRequest, classic_request, read_classic_consumer_groups
)
_CONSUMER: Final = DescribeApi(ConsumerGroupDescribeRequest, consumer_request, read_consumer_groups)
_SHARE: Final = DescribeApi(ShareGroupDescribeRequest, share_request, read_share_groups)
_STREAMS: Final = DescribeApi(StreamsGroupDescribeRequest, streams_request, read_streams_groups)

# As in Kafka's Admin the consumer protocol first. It is asked again at the end: between the first two requests a group
# may have changed from the classic protocol to the consumer protocol, and then neither knew it.
EVERY_TYPE: Final = (_CONSUMER, _CLASSIC, _SHARE, _STREAMS, _CONSUMER)
CONSUMER_TYPES: Final = (_CONSUMER, _CLASSIC_CONSUMER, _CONSUMER)
