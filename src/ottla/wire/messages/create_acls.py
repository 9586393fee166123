"""CreateAcls: adds access control lists (KIP-140)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Int8, Int16, Int32, String


@struct
class AclCreation:
    resource_type: Int8
    resource_name: String
    resource_pattern_type: Int8 = wire(default=3)
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@message(api=30, versions="1-3", flexible="2+")
class CreateAclsRequest:
    creations: list[AclCreation]


@struct
class AclCreationResult:
    error_code: Int16
    error_message: String | None


@message(api=30, versions="1-3", flexible="2+")
class CreateAclsResponse:
    throttle_time_ms: Int32 = wire(default=0)
    results: list[AclCreationResult]
