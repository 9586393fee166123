"""DescribeGroups: the state and the members of classic groups; messages since v6 (KIP-1043)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import OPERATIONS_OMITTED, Bool, Bytes, Int16, Int32, String


@message(api=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    groups: list[String]
    include_authorized_operations: Bool = wire(since=3, default=False)


@struct
class DescribedGroupMember:
    member_id: String
    group_instance_id: String | None = wire(since=4, default=None)
    client_id: String
    client_host: String
    member_metadata: Bytes
    member_assignment: Bytes


@struct
class DescribedGroup:
    error_code: Int16
    error_message: String | None = wire(since=6, default=None)
    group_id: String
    group_state: String
    protocol_type: String
    protocol_data: String
    members: list[DescribedGroupMember]
    authorized_operations: Int32 = wire(since=3, default=OPERATIONS_OMITTED)


@message(api=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse:
    throttle_time_ms: Int32 = wire(since=1, default=0)
    groups: list[DescribedGroup]
