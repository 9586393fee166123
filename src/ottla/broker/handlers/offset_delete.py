"""OffsetDelete: forgets committed offsets of topics that a group does not read any more (KIP-496)."""

from __future__ import annotations

from ottla.access import Operation
from ottla.broker.coordination.groups import ask_group
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Division, Divisions
from ottla.broker.requests.gather_responses import NowOrLater
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_group, refuse_topic
from ottla.core.outcomes import Refused, error_of
from ottla.errors import ErrorCode
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

DIVISIONS = Divisions(
    (Division("topics", "topics", inner=Division("partitions", "partitions"), named=("name",)),)
)


def handle(
    node: Node, request: OffsetDeleteRequest, context: RequestContext
) -> NowOrLater[OffsetDeleteResponse]:
    caller = context.caller
    refused = refuse_group(node, caller, Operation.DELETE, request.group_id)
    if refused is not None:
        return OffsetDeleteResponse(error_code=refused.error, topics=[])
    hidden = {
        topic.name
        for topic in request.topics
        if refuse_topic(node, caller, Operation.READ, topic.name) is not None
    }
    partitions = [
        (topic.name, partition.partition_index)
        for topic in request.topics
        if topic.name not in hidden
        for partition in topic.partitions
        if node.cluster.topic_of(topic.name, partition.partition_index)
    ]

    def respond(results: list[Refused | None] | Refused) -> OffsetDeleteResponse:
        if isinstance(results, Refused):
            return OffsetDeleteResponse(error_code=results.error, topics=[])
        errors = [error_of(refused) for refused in results]
        return _response(request, dict(zip(partitions, errors, strict=True)), hidden)

    return ask_group(
        node.groups,
        request.group_id,
        lambda groups, turn, _: groups.delete_offsets(turn, request.group_id, partitions),
        respond,
    )


def _response(
    request: OffsetDeleteRequest, results: dict[tuple[str, int], ErrorCode], hidden: set[str]
) -> OffsetDeleteResponse:
    def error_for(topic: str, partition: int) -> ErrorCode:
        if topic in hidden:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return results.get((topic, partition), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    return OffsetDeleteResponse(
        error_code=ErrorCode.NONE,
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=error_for(topic.name, partition.partition_index),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


API = serve(OffsetDeleteRequest, OffsetDeleteResponse, handle, divisions=DIVISIONS)
