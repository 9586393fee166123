"""DescribeCluster: the brokers and the controller."""

from __future__ import annotations

from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import describable_cluster_operations
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.wire.types import OPERATIONS_OMITTED

BROKERS, CONTROLLERS = 1, 2


def handle(
    node: Node, request: DescribeClusterRequest, context: RequestContext
) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        is_known = request.endpoint_type == CONTROLLERS
        return DescribeClusterResponse(
            error_code=(
                ErrorCode.MISMATCHED_ENDPOINT_TYPE
                if is_known
                else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            ),
            error_message=(
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
                if is_known
                else f"Unsupported endpoint type {request.endpoint_type}"
            ),
            endpoint_type=BROKERS,
            cluster_id="",
            brokers=[],
        )
    return DescribeClusterResponse(
        error_code=ErrorCode.NONE,
        cluster_id=node.cluster.cluster_id,
        controller_id=node.cluster.controller_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=node_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=node.cluster.rack_of(node_id),
            )
            for node_id, endpoint in node.cluster.addresses_for(context.caller)
        ],
        cluster_authorized_operations=(
            describable_cluster_operations(node, context.caller)
            if request.include_cluster_authorized_operations
            else OPERATIONS_OMITTED
        ),
    )


API = serve(DescribeClusterRequest, DescribeClusterResponse, handle)
