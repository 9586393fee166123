"""ListConfigResources: the names of all resources that have configs, by type (KIP-1142)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ottla.access import Operation
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_cluster
from ottla.config.options import ResourceType
from ottla.errors import ErrorCode
from ottla.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

FIRST_VERSION_WITH_TYPES = 1


def _nodes(node: Node) -> Iterable[str]:
    return map(str, node.cluster.members.present)


# In the order in which Kafka lists them.
NAMES: Final[Mapping[int, Callable[[Node], Iterable[str]]]] = {
    ResourceType.GROUP: lambda node: node.cluster.catalog.group_configs,
    ResourceType.CLIENT_METRICS: lambda node: node.cluster.catalog.client_metrics,
    ResourceType.BROKER_LOGGER: _nodes,
    ResourceType.BROKER: _nodes,
    ResourceType.TOPIC: lambda node: node.cluster.catalog.topics,
}


def handle(
    node: Node, request: ListConfigResourcesRequest, context: RequestContext
) -> ListConfigResourcesResponse:
    refused = refuse_cluster(node, context.caller, Operation.DESCRIBE_CONFIGS)
    if refused is not None:
        return ListConfigResourcesResponse(error_code=refused.error, config_resources=[])
    wanted: set[int] = {ResourceType.CLIENT_METRICS}
    if context.version >= FIRST_VERSION_WITH_TYPES:
        wanted = set(request.resource_types) or set(NAMES)
    if not wanted <= NAMES.keys():
        return ListConfigResourcesResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=[]
        )
    return ListConfigResourcesResponse(
        error_code=ErrorCode.NONE,
        config_resources=[
            ConfigResource(resource_name=name, resource_type=resource_type)
            for resource_type, names in NAMES.items()
            if resource_type in wanted
            for name in names(node)
        ],
    )


API = serve(ListConfigResourcesRequest, ListConfigResourcesResponse, handle)
