"""ListPartitionReassignments: replicas are the storage engine's business, so nothing is ever being moved."""

from __future__ import annotations

from ottla.access import Operation
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_cluster
from ottla.errors import ErrorCode
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def handle(
    node: Node, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    refused = refuse_cluster(node, context.caller, Operation.DESCRIBE)
    if refused is None:
        return ListPartitionReassignmentsResponse(error_code=ErrorCode.NONE, topics=[])
    return ListPartitionReassignmentsResponse(
        error_code=refused.error,
        error_message=refused.message,
        # Kafka names what was asked for.
        topics=[
            OngoingTopicReassignment(
                name=topic.name,
                partitions=[
                    OngoingPartitionReassignment(
                        partition_index=partition,
                        replicas=[],
                        adding_replicas=[],
                        removing_replicas=[],
                    )
                    for partition in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ],
    )


API = serve(ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, handle)
