"""DescribeConfigs: configs of topics and brokers (KIP-133), their synonyms (KIP-226)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Bool, Int8, Int16, Int32, String


@struct
class DescribeConfigsResource:
    resource_type: Int8
    resource_name: String
    configuration_keys: list[String] | None


@message(api=32, versions="1-4", flexible="4+")
class DescribeConfigsRequest:
    resources: list[DescribeConfigsResource]
    include_synonyms: Bool = wire(default=False)
    include_documentation: Bool = wire(since=3, default=False)


@struct
class DescribeConfigsSynonym:
    name: String
    value: String | None
    source: Int8


@struct
class DescribeConfigsResourceResult:
    name: String
    value: String | None
    read_only: Bool
    config_source: Int8 = wire(default=-1)
    is_sensitive: Bool
    synonyms: list[DescribeConfigsSynonym]
    config_type: Int8 = wire(since=3, default=0)
    documentation: String | None = wire(since=3, default=None)


@struct
class DescribeConfigsResult:
    error_code: Int16
    error_message: String | None = wire(default=None)
    resource_type: Int8
    resource_name: String
    configs: list[DescribeConfigsResourceResult]


@message(api=32, versions="1-4", flexible="4+")
class DescribeConfigsResponse:
    throttle_time_ms: Int32 = wire(default=0)
    results: list[DescribeConfigsResult]
