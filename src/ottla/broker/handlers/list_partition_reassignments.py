"""ListPartitionReassignments: replicas are the storage engine's business, so nothing is ever being moved."""

from __future__ import annotations

from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.errors import ErrorCode
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(
    node: Node, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=ErrorCode.NONE, topics=[])


API = serve(ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, handle)
