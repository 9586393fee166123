"""ConsumerGroupDescribe: the epochs, the assignments and the members of groups of the consumer protocol (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.access import Operation
from ottla.broker.coordination.groups import ask_group
from ottla.broker.handlers.consumer_group_heartbeat import check_enabled
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Division, Divisions, Repeated
from ottla.broker.requests.gather_responses import NowOrLater, respond_to_all
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import group_operations, may_see_topic, refuse_group
from ottla.broker.security.caller import Caller
from ottla.core.assignors.server_side.model import Partitions
from ottla.core.catalog import Catalog
from ottla.core.group.requests import (
    DescribedConsumerGroup,
    DescribedConsumerMember,
)
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

DIVISIONS = Divisions((Division("group_ids", "groups", repeated=Repeated()),))
# In Kafka's words.
HIDDEN = Refused(
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    "The group has described topic(s) that the client is not authorized to describe.",
)
CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def handle(
    node: Node, request: ConsumerGroupDescribeRequest, context: RequestContext
) -> NowOrLater[ConsumerGroupDescribeResponse]:
    refused = check_enabled(node)
    if refused is not None:
        return ConsumerGroupDescribeResponse(
            groups=[_failed(group_id, refused) for group_id in request.group_ids]
        )
    return respond_to_all(
        [
            _describe(node, context, group_id, request.include_authorized_operations)
            for group_id in request.group_ids
        ],
        lambda groups: ConsumerGroupDescribeResponse(groups=groups),
    )


def _describe(
    node: Node, context: RequestContext, group_id: str, with_operations: bool
) -> NowOrLater[DescribedGroup]:
    def respond(found: DescribedConsumerGroup | Refused) -> DescribedGroup:
        answer = _result(node.cluster.catalog, group_id, found)
        if with_operations and answer.error_code == ErrorCode.NONE:
            answer.authorized_operations = group_operations(node, context.caller, group_id)
        return answer if _may_see(node, context.caller, answer) else _failed(group_id, HIDDEN)

    refused = refuse_group(node, context.caller, Operation.DESCRIBE, group_id)
    if refused is not None:
        return _failed(group_id, Refused(refused.error))  # without a sentence, as in Kafka
    return ask_group(
        node.groups,
        group_id,
        lambda groups, turn, _: groups.describe_consumer_group(group_id),
        respond,
    )


def _may_see(node: Node, caller: Caller, group: DescribedGroup) -> bool:
    """Whether the caller may know of all topics that members have or get."""
    if node.authorizer.is_open:
        return True
    topics = dict.fromkeys(_assigned_topics(group))
    return all(may_see_topic(node, caller, topic) for topic in topics)


def _assigned_topics(group: DescribedGroup) -> Iterator[str]:
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            for topic in assignment.topic_partitions:
                yield topic.topic_name


def _result(
    catalog: Catalog, group_id: str, found: DescribedConsumerGroup | Refused
) -> DescribedGroup:
    if isinstance(found, Refused):
        return _failed(group_id, found)
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=found.state,
        group_epoch=found.group_epoch,
        assignment_epoch=found.assignment_epoch,
        assignor_name=found.assignor,
        members=[_member(catalog, member) for member in found.members],
    )


def _failed(group_id: str, refused: Refused) -> DescribedGroup:
    return DescribedGroup(
        error_code=refused.error,
        error_message=refused.message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )


def _member(catalog: Catalog, member: DescribedConsumerMember) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.pattern,
        assignment=_assignment(catalog, member.assignment),
        target_assignment=_assignment(catalog, member.target),
        member_type=CLASSIC_MEMBER if member.speaks_classic else CONSUMER_MEMBER,
    )


def _assignment(catalog: Catalog, partitions: Partitions) -> Assignment:
    """The partitions with the names of their topics; deleted topics are left out."""
    topics = catalog.topics_by_id
    return Assignment(
        topic_partitions=[
            TopicPartitions(
                topic_id=topic_id, topic_name=topics[topic_id].name, partitions=sorted(numbers)
            )
            for topic_id, numbers in partitions.items()
            if topic_id in topics
        ]
    )


API = serve(
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, handle, divisions=DIVISIONS
)
