"""DescribeConfigs: the options of topics and brokers, and where their values come from."""

from __future__ import annotations

from ottla.broker.configuring import ResourceType, check_broker_name, find_topic, unknown_resource
from ottla.broker.node import Node
from ottla.broker.request import RequestContext
from ottla.config.describe import ConfigSource, DescribedOption, describe_broker, describe_topic
from ottla.core.catalog import Refused
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

REQUEST = DescribeConfigsRequest


def handle(
    node: Node, request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[_result(node, asked, request) for asked in request.resources]
    )


def _result(
    node: Node, asked: DescribeConfigsResource, request: DescribeConfigsRequest
) -> DescribeConfigsResult:
    described = _describe(node, asked)
    if isinstance(described, Refused):
        return DescribeConfigsResult(
            error_code=described.error,
            error_message=described.message,
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
            configs=[],
        )
    keys = asked.configuration_keys
    return DescribeConfigsResult(
        error_code=ErrorCode.NONE,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=[
            _option(option, request) for option in described if keys is None or option.name in keys
        ],
    )


def _describe(node: Node, asked: DescribeConfigsResource) -> list[DescribedOption] | Refused:
    name = asked.resource_name
    if asked.resource_type == ResourceType.TOPIC:
        topic = find_topic(node, name)
        if isinstance(topic, Refused):
            return topic
        return describe_topic(node.static_config, topic.config, node.dynamic_options)
    if asked.resource_type == ResourceType.BROKER:
        refused = check_broker_name(node, name)
        if refused is not None:
            return refused
        options = describe_broker(node.static_config, node.dynamic_options)
        if name:
            return options
        # Without a broker, only what was altered for all of them.
        return [
            option
            for option in options
            if option.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        ]
    return unknown_resource(asked.resource_type)


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
