"""AlterConfigs: replaces the whole configuration of resources (KIP-133); clients prefer KIP-339."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Bool, Int8, Int16, Int32, String


@struct
class AlterableConfig:
    name: String
    value: String | None


@struct
class AlterConfigsResource:
    resource_type: Int8
    resource_name: String
    configs: list[AlterableConfig]


@message(api=33, versions="0-2", flexible="2+")
class AlterConfigsRequest:
    resources: list[AlterConfigsResource]
    validate_only: Bool


@struct
class AlterConfigsResourceResponse:
    error_code: Int16
    error_message: String | None = wire(default=None)
    resource_type: Int8
    resource_name: String


@message(api=33, versions="0-2", flexible="2+")
class AlterConfigsResponse:
    throttle_time_ms: Int32 = wire(default=0)
    responses: list[AlterConfigsResourceResponse]
