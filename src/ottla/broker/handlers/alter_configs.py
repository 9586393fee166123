"""AlterConfigs: replaces everything that was set for a resource."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ottla.broker.config_resources.alteration import RESOURCES, Alteration, alter_all
from ottla.broker.config_resources.resource_kind import ResourceKind
from ottla.broker.loop.loop_share import Steps
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Divisions
from ottla.broker.requests.request import Reply, RequestContext
from ottla.config.options import ResourceType
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

DIVISIONS = Divisions((RESOURCES,))

# A sentence that quotes the longest value would not fit into a string.
MAX_MESSAGE_CHARS = 8_000


def handle(
    node: Node, request: AlterConfigsRequest, context: RequestContext
) -> Reply[AlterConfigsResponse]:
    return node.cluster.share.answer(_respond(node, request, context))


def _respond(
    node: Node, request: AlterConfigsRequest, context: RequestContext
) -> Steps[AlterConfigsResponse]:
    outcomes = yield from alter_all(
        node,
        context.caller,
        [
            Alteration(
                asked.resource_type,
                asked.resource_name,
                _malformed(asked),
                partial(_replaced, asked),
            )
            for asked in request.resources
        ],
        request.validate_only,
    )
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=ErrorCode.NONE if refused is None else refused.error,
                error_message=None
                if refused is None
                else (refused.message or "")[:MAX_MESSAGE_CHARS] or None,
                resource_type=asked.resource_type,
                resource_name=asked.resource_name,
            )
            for asked, refused in zip(request.resources, outcomes, strict=True)
        ]
    )


def _malformed(asked: AlterConfigsResource) -> Refused | None:
    null = [config.name for config in asked.configs if config.value is None]
    if null:
        return Refused(ErrorCode.INVALID_REQUEST, f"no value is given for {', '.join(null)}")
    if asked.resource_type == ResourceType.BROKER_LOGGER:
        return Refused(
            ErrorCode.INVALID_REQUEST, f"Unknown resource type {ResourceType.BROKER_LOGGER}"
        )
    return None


def _replaced(
    asked: AlterConfigsResource, kind: ResourceKind, current: Mapping[str, str]
) -> dict[str, str] | Refused:
    """The options of the request, whatever was set before."""
    return {config.name: config.value or "" for config in asked.configs}


API = serve(AlterConfigsRequest, AlterConfigsResponse, handle, divisions=DIVISIONS)
