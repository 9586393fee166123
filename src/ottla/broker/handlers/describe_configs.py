"""DescribeConfigs: the options of topics and brokers, and where their values come from."""

from __future__ import annotations

from collections.abc import Container, Generator, Hashable

from ottla.access import Operation
from ottla.broker.config_resources.resource_kinds import find_kind
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import Reply, RequestContext
from ottla.broker.security.authorization import refuse_config_resource
from ottla.broker.security.caller import Caller
from ottla.config.describe import DescribedOption
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

# Each resource takes some time.
FIRST_RESOURCES = 8


def handle(
    node: Node, request: DescribeConfigsRequest, context: RequestContext
) -> Reply[DescribeConfigsResponse]:
    return node.cluster.share.answer(_respond(node, request, context.caller), FIRST_RESOURCES)


def _respond(
    node: Node, request: DescribeConfigsRequest, caller: Caller
) -> Generator[None, None, DescribeConfigsResponse]:
    """Describes every resource once, however often it is named."""
    results: dict[Hashable, DescribeConfigsResult] = {}
    for asked in request.resources:
        keys = asked.configuration_keys
        wanted = None if keys is None else frozenset(keys)
        key = (asked.resource_type, asked.resource_name, wanted)
        if key not in results:
            yield
            results[key] = _result(node, asked, wanted, request, caller)
    return DescribeConfigsResponse(results=list(results.values()))


def _result(
    node: Node,
    asked: DescribeConfigsResource,
    wanted: Container[str] | None,
    request: DescribeConfigsRequest,
    caller: Caller,
) -> DescribeConfigsResult:
    described = _describe(node, asked, caller)
    if isinstance(described, Refused):
        return DescribeConfigsResult(
            error_code=described.error,
            error_message=described.message,
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
            configs=[],
        )
    return DescribeConfigsResult(
        error_code=ErrorCode.NONE,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=[
            _option(option, request)
            for option in described
            if wanted is None or option.name in wanted
        ],
    )


def _describe(
    node: Node, asked: DescribeConfigsResource, caller: Caller
) -> list[DescribedOption] | Refused:
    kind = find_kind(asked.resource_type)
    if isinstance(kind, Refused):
        return kind
    refused = refuse_config_resource(
        node, caller, Operation.DESCRIBE_CONFIGS, asked.resource_type, asked.resource_name
    )
    return refused or kind.describe(node, asked.resource_name)


def _option(
    option: DescribedOption, request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    synonyms = option.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=option.name,
        value=option.value,
        read_only=option.read_only,
        config_source=option.source,
        is_sensitive=option.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in synonyms
        ],
        config_type=option.type,
        documentation=option.documentation if request.include_documentation else None,
    )


API = serve(DescribeConfigsRequest, DescribeConfigsResponse, handle, max_elements=1 << 17)
