"""IncrementalAlterConfigs: sets, removes, extends or shortens single options."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import IntEnum
from functools import partial

from ottla.broker.config_resources import RESOURCES, ResourceType, alter_all
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Divisions
from ottla.broker.requests.request import RequestContext
from ottla.config.broker import BrokerConfig
from ottla.config.options import OptionType, find_option, value_text
from ottla.config.topic import TopicConfig
from ottla.core.outcomes import Refused
from ottla.errors import ConfigError, ErrorCode
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

DIVISIONS = Divisions((RESOURCES,))


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def handle(
    node: Node, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    outcomes = alter_all(
        node,
        [
            (asked.resource_type, asked.resource_name, partial(_changed, node, asked))
            for asked in request.resources
        ],
        request.validate_only,
    )
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=ErrorCode.NONE if refused is None else refused.error,
                error_message=None if refused is None else refused.message,
                resource_type=asked.resource_type,
                resource_name=asked.resource_name,
            )
            for asked, refused in zip(request.resources, outcomes, strict=True)
        ]
    )


def _changed(
    node: Node, asked: AlterConfigsResource, current: Mapping[str, str]
) -> dict[str, str] | Refused:
    times = Counter(config.name for config in asked.configs)
    twice = sorted(name for name, count in times.items() if count > 1)
    if twice:
        return Refused(ErrorCode.INVALID_REQUEST, f"{', '.join(twice)} is named twice")
    changed = dict(current)
    for config in asked.configs:
        refused = _apply(node, asked.resource_type, config, changed)
        if refused is not None:
            return refused
    return changed


def _apply(
    node: Node, resource_type: int, config: AlterableConfig, changed: dict[str, str]
) -> Refused | None:
    """One operation on one option, in place."""
    operation, name, value = config.config_operation, config.name, config.value
    if operation == Operation.DELETE:
        changed.pop(name, None)
        return None
    if value is None:
        return Refused(ErrorCode.INVALID_REQUEST, f"no value is given for {name}")
    if operation == Operation.SET:
        changed[name] = value
        return None
    if operation not in (Operation.APPEND, Operation.SUBTRACT):
        return Refused(ErrorCode.INVALID_REQUEST, f"there is no operation {operation} on options")
    config_class = TopicConfig if resource_type == ResourceType.TOPIC else BrokerConfig
    try:
        known = find_option(config_class, name)
    except ConfigError as error:
        return Refused(ErrorCode.INVALID_CONFIG, str(error))
    if known.type is not OptionType.LIST:
        return Refused(
            ErrorCode.INVALID_CONFIG, f"{name} is not a list: it can only be set or deleted"
        )
    default = known.render(known.default) or ""
    if resource_type == ResourceType.BROKER:
        default = value_text(node.options.config, name) or ""
    items = [item for item in changed.get(name, default).split(",") if item]
    given = [item.strip() for item in value.split(",")]
    if operation == Operation.APPEND:
        items += [item for item in given if item not in items]
    else:
        items = [item for item in items if item not in given]
    changed[name] = ",".join(items)
    return None


API = serve(
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, handle, divisions=DIVISIONS
)
