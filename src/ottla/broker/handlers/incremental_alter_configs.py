"""IncrementalAlterConfigs: sets, removes, extends or shortens single options."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ottla.broker.config_resources.alteration import RESOURCES, Alteration, alter_all
from ottla.broker.config_resources.logger_resources import LoggerResources
from ottla.broker.config_resources.option_changes import (
    OptionChange,
    changed_options,
    check_changes,
)
from ottla.broker.config_resources.resource_kind import ResourceKind
from ottla.broker.loop.loop_share import Steps
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Divisions
from ottla.broker.requests.request import Reply, RequestContext
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

DIVISIONS = Divisions((RESOURCES,))

# A sentence that quotes the longest value would not fit into a string.
MAX_MESSAGE_CHARS = 8_000


def handle(
    node: Node, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> Reply[IncrementalAlterConfigsResponse]:
    return node.cluster.share.answer(_respond(node, request, context))


def _respond(
    node: Node, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> Steps[IncrementalAlterConfigsResponse]:
    outcomes = yield from alter_all(
        node,
        context.caller,
        [
            Alteration(
                asked.resource_type,
                asked.resource_name,
                check_changes(_changes(asked)),
                partial(_changed, node, asked),
            )
            for asked in request.resources
        ],
        request.validate_only,
    )
    return IncrementalAlterConfigsResponse(
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


def _changed(
    node: Node, asked: AlterConfigsResource, kind: ResourceKind, current: Mapping[str, str]
) -> dict[str, str] | Refused:
    if isinstance(kind, LoggerResources):
        return kind.changed(_changes(asked), current)
    return changed_options(partial(kind.unset_list, node), _changes(asked), current)


def _changes(asked: AlterConfigsResource) -> list[OptionChange]:
    return [
        OptionChange(config.config_operation, config.name, config.value) for config in asked.configs
    ]


API = serve(
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, handle, divisions=DIVISIONS
)
