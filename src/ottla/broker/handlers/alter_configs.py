"""AlterConfigs: replaces everything that was set for a resource."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ottla.broker.configuring import alter
from ottla.broker.node import Node
from ottla.broker.request import RequestContext
from ottla.core.catalog import Refused
from ottla.errors import ErrorCode
from ottla.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

REQUEST = AlterConfigsRequest


def handle(
    node: Node, request: AlterConfigsRequest, context: RequestContext
) -> AlterConfigsResponse:
    times = Counter((asked.resource_type, asked.resource_name) for asked in request.resources)
    return AlterConfigsResponse(
        responses=[
            _alter(
                node,
                asked,
                request.validate_only,
                times[asked.resource_type, asked.resource_name],
            )
            for asked in request.resources
        ]
    )


def _alter(
    node: Node, asked: AlterConfigsResource, validate_only: bool, times_asked: int
) -> AlterConfigsResourceResponse:
    def change(_: Mapping[str, str]) -> dict[str, str] | Refused:
        null = [config.name for config in asked.configs if config.value is None]
        if null:
            return Refused(ErrorCode.INVALID_REQUEST, f"no value is given for {', '.join(null)}")
        return {config.name: config.value or "" for config in asked.configs}

    if times_asked > 1:
        refused: Refused | None = Refused(ErrorCode.INVALID_REQUEST, "the resource is named twice")
    else:
        refused = alter(node, asked.resource_type, asked.resource_name, change, validate_only)
    return AlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if refused is None else refused.error,
        error_message=None if refused is None else refused.message,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )
