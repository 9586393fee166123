"""ListConfigResources: the resources that have configs (KIP-1142); v0 lists client metrics only (KIP-714)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Int8, Int16, Int32, String


@message(api=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest:
    resource_types: list[Int8] = wire(since=1, default_factory=list)


@struct
class ConfigResource:
    resource_name: String
    resource_type: Int8 = wire(since=1, default=16)


@message(api=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse:
    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16
    config_resources: list[ConfigResource]
