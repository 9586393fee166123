"""FindCoordinator: which broker coordinates a group or a transactional id."""

from __future__ import annotations

import asyncio
from functools import partial

from ottla.access import Operation
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Division, Divisions, Repeated
from ottla.broker.requests.gather_responses import NowOrLater, respond_to_all, then
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import (
    refuse_cluster,
    refuse_group,
    refuse_transactional_id,
)
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.events import EventLog
from ottla.model import Endpoint, TopicPartition
from ottla.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

DIVISIONS = Divisions((Division("coordinator_keys", "coordinators", repeated=Repeated()),))
FIRST_BATCHED_VERSION = 4
FIRST_VERSION_WITH_SHARE = 6
GROUP, TRANSACTION, SHARE = 0, 1, 2
NOT_AVAILABLE = Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)

logger = EventLog(__name__)

Found = tuple[int, Endpoint]


def handle(
    node: Node, request: FindCoordinatorRequest, context: RequestContext
) -> NowOrLater[FindCoordinatorResponse]:
    if context.version < FIRST_BATCHED_VERSION:
        return then(_answer(node, request.key_type, request.key, context), _single)
    return respond_to_all(
        [_answer(node, request.key_type, key, context) for key in request.coordinator_keys],
        lambda found: FindCoordinatorResponse(coordinators=found),
    )


def _single(found: Coordinator) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _answer(
    node: Node, key_type: int, key: str, context: RequestContext
) -> NowOrLater[Coordinator]:
    found = _find(node, key_type, key, context)
    if isinstance(found, asyncio.Future):
        return then(found, partial(_coordinator, key))
    return _coordinator(key, found)


def _coordinator(key: str, found: Found | Refused) -> Coordinator:
    if isinstance(found, Refused):
        return Coordinator(
            key=key,
            node_id=-1,
            host="",
            port=-1,
            error_code=found.error,
            error_message=found.text,
        )
    node_id, endpoint = found
    return Coordinator(
        key=key,
        node_id=node_id,
        host=endpoint.host,
        port=endpoint.port,
        error_code=ErrorCode.NONE,
        error_message=None,
    )


def _find(
    node: Node, key_type: int, key: str, context: RequestContext
) -> NowOrLater[Found | Refused]:
    refused = _refuse(node, key_type, key, context)
    if refused is not None:
        return refused
    coordinators = node.groups if key_type == GROUP else node.transactions
    partition = coordinators.partition_of(key)
    if isinstance(partition, asyncio.Future):
        return then(partition, partial(_located, node, coordinators.topic_name, context))
    return _located(node, coordinators.topic_name, context, partition)


def _located(
    node: Node, topic_name: str, context: RequestContext, partition: TopicPartition | Refused
) -> Found | Refused:
    if isinstance(partition, Refused):
        logger.error(
            "topic_not_created",
            "topic %(topic)s cannot be created: %(reason)s",
            topic=topic_name,
            reason=partition.message,
        )
        return NOT_AVAILABLE
    topic = node.cluster.catalog.topics.get(partition.topic)
    if topic is None:  # deleted since
        return NOT_AVAILABLE
    leader = node.cluster.leader_of(topic, partition.partition)
    endpoint = node.cluster.members.address_of(leader, context.caller)
    return NOT_AVAILABLE if endpoint is None else (leader, endpoint)


def _refuse(node: Node, key_type: int, key: str, context: RequestContext) -> Refused | None:
    if key_type == GROUP:
        return refuse_group(node, context.caller, Operation.DESCRIBE, key)
    if key_type == TRANSACTION:
        return refuse_transactional_id(node, context.caller, Operation.DESCRIBE, key)
    refused = None
    if key_type == SHARE and context.version >= FIRST_VERSION_WITH_SHARE:
        refused = refuse_cluster(node, context.caller, Operation.CLUSTER_ACTION)
    # There are no share groups.
    return refused or Refused(ErrorCode.INVALID_REQUEST)


API = serve(FindCoordinatorRequest, FindCoordinatorResponse, handle, divisions=DIVISIONS)
