"""ConsumerGroupHeartbeat: a member of the consumer protocol joins, stays, learns its partitions, leaves (KIP-848)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from ottla.access import Operation
from ottla.broker.coordination.coordinator import Coordinator
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.gather_responses import NowOrLater
from ottla.broker.requests.request import Reply, RequestContext
from ottla.broker.security.authorization import refuse_group, refuse_topics
from ottla.core.assignors.server_side.model import Partitions
from ottla.core.group.machine import GroupMachine
from ottla.core.group.requests import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerHeartbeat,
    ConsumerHeartbeatRequest,
)
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

FIRST_VERSION_WITH_OWN_MEMBER_ID = 1
# What Java's `trim` removes.
BLANKS = "".join(map(chr, range(33)))
# A sentence that quotes the longest names would not fit into a string, whose UTF-8 has 32,767 bytes at most.
MAX_MESSAGE_CHARS = 8_000
# A member is stored as a whole with every change. Kafka takes none whose record is larger than a batch may be.
MAX_TOPICS = 1 << 15
MAX_TOPICS_CHARS = 1 << 20
# A member reports all partitions that it owns.
MAX_ELEMENTS = 1 << 17


def handle(
    node: Node, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> Reply[ConsumerGroupHeartbeatResponse]:
    refused = (
        check_enabled(node)
        or _refuse(node, request, context)
        or _check(node, request, context.version)
    )
    if refused is not None:
        return _respond(refused)
    coordinator = node.groups.find(request.group_id)
    if isinstance(coordinator, Refused):
        return _respond(coordinator)
    heartbeat = _heartbeat(node, request, context)
    if heartbeat.pattern and not node.patterns.is_checked(heartbeat.pattern):
        return _ask_when_checked(node, coordinator, heartbeat)
    return _ask(coordinator, heartbeat)


async def _ask_when_checked(
    node: Node, coordinator: Coordinator[GroupMachine], heartbeat: ConsumerHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    """Lets the coordinator decide when it is known whether the member's pattern is valid."""
    await node.patterns.check(heartbeat.pattern or "")
    answer: Any = _ask(coordinator, heartbeat)
    return answer if isinstance(answer, ConsumerGroupHeartbeatResponse) else await answer


def _ask(
    coordinator: Coordinator[GroupMachine], heartbeat: ConsumerHeartbeatRequest
) -> NowOrLater[ConsumerGroupHeartbeatResponse]:
    return coordinator.ask(
        lambda groups, turn, _: groups.consumer_heartbeat(turn, heartbeat), _respond
    )


def _refuse(
    node: Node, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> Refused | None:
    topics = request.subscribed_topic_names or ()
    refused = refuse_group(node, context.caller, Operation.READ, request.group_id) or refuse_topics(
        node, context.caller, Operation.DESCRIBE, topics
    )
    return None if refused is None else Refused(refused.error)  # without a sentence, as in Kafka


def check_enabled(node: Node) -> Refused | None:
    enabled = "consumer" in node.options.config.group_coordinator_rebalance_protocols
    return None if enabled else Refused(ErrorCode.UNSUPPORTED_VERSION)


def _check(node: Node, request: ConsumerGroupHeartbeatRequest, version: int) -> Refused | None:
    """Kafka's rules for a request by itself, in Kafka's order and words."""
    epoch = request.member_epoch
    if (
        version >= FIRST_VERSION_WITH_OWN_MEMBER_ID or epoch > 0 or epoch == LEAVE_EPOCH
    ) and _is_blank(request.member_id):
        return _invalid("MemberId can't be empty.")
    if _is_blank(request.group_id):
        return _invalid("GroupId can't be empty.")
    if request.instance_id is not None and _is_blank(request.instance_id):
        return _invalid("InstanceId can't be empty.")
    if request.rack_id is not None and _is_blank(request.rack_id):
        return _invalid("RackId can't be empty.")
    if epoch == JOIN_EPOCH:
        refused = _check_join(request)
        if refused is not None:
            return refused
    elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        return _invalid("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        return _invalid("MemberEpoch is invalid.")
    names = request.subscribed_topic_names or ()
    if len(names) > MAX_TOPICS or sum(map(len, names)) > MAX_TOPICS_CHARS:
        return _invalid(
            f"SubscribedTopicNames has more than {MAX_TOPICS} names or {MAX_TOPICS_CHARS} characters."
        )
    assignors = node.options.config.group_consumer_assignors
    if request.server_assignor is not None and request.server_assignor not in assignors:
        return Refused(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}.",
        )
    return None


def _check_join(request: ConsumerGroupHeartbeatRequest) -> Refused | None:
    if request.rebalance_timeout_ms == -1:
        return _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        return _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        )
    return None


def _is_blank(text: str) -> bool:
    return not text.strip(BLANKS)


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)


def _heartbeat(
    node: Node, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerHeartbeatRequest:
    names = request.subscribed_topic_names
    member_id = request.member_id
    if not member_id and request.member_epoch == JOIN_EPOCH:
        # Before v1 the coordinator makes the ids of members that join (KIP-1082).
        member_id = str(node.cluster.ids.member_id())
    return ConsumerHeartbeatRequest(
        group_id=request.group_id,
        member_id=member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=None if names is None else frozenset(names),
        pattern=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=_owned(request.topic_partitions),
        client_id=context.client_id or "",
        client_host=f"/{context.caller.peer.host}",
        caller=context.caller,
    )


def _owned(topics: Sequence[TopicPartitions] | None) -> Partitions | None:
    if topics is None:
        return None
    owned: dict[UUID, frozenset[int]] = {}
    for topic in topics:
        owned[topic.topic_id] = owned.get(topic.topic_id, frozenset()) | set(topic.partitions)
    return owned


def _respond(result: ConsumerHeartbeat | Refused) -> ConsumerGroupHeartbeatResponse:
    if isinstance(result, Refused):
        return ConsumerGroupHeartbeatResponse(
            error_code=result.error,
            error_message=result.message and result.message[:MAX_MESSAGE_CHARS],
            member_epoch=0,
            heartbeat_interval_ms=0,
        )
    return ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=None if result.assignment is None else _assignment(result.assignment),
    )


def _assignment(partitions: Partitions) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(numbers))
            for topic_id, numbers in partitions.items()
        ]
    )


API = serve(
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    handle,
    max_elements=MAX_ELEMENTS,
)
