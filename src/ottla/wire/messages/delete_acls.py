"""DeleteAcls: removes the access control lists that match filters (KIP-140)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Int8, Int16, Int32, String


@struct
class DeleteAclsFilter:
    resource_type_filter: Int8
    resource_name_filter: String | None
    pattern_type_filter: Int8 = wire(default=3)
    principal_filter: String | None
    host_filter: String | None
    operation: Int8
    permission_type: Int8


@message(api=31, versions="1-3", flexible="2+")
class DeleteAclsRequest:
    filters: list[DeleteAclsFilter]


@struct
class DeleteAclsMatchingAcl:
    error_code: Int16
    error_message: String | None
    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = wire(default=3)
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@struct
class DeleteAclsFilterResult:
    error_code: Int16
    error_message: String | None
    matching_acls: list[DeleteAclsMatchingAcl]


@message(api=31, versions="1-3", flexible="2+")
class DeleteAclsResponse:
    throttle_time_ms: Int32 = wire(default=0)
    filter_results: list[DeleteAclsFilterResult]
