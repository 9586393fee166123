"""LeaveGroup: a member goes, or an administrator removes several (KIP-345); reasons are KIP-800."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Int16, Int32, String


@struct
class MemberIdentity:
    member_id: String
    group_instance_id: String | None = wire(default=None)
    reason: String | None = wire(since=5, default=None)


@message(api=13, versions="0-5", flexible="4+")
class LeaveGroupRequest:
    group_id: String
    member_id: String = wire(until=2, default="")
    members: list[MemberIdentity] = wire(since=3, default_factory=list)


@struct
class MemberResponse:
    member_id: String
    group_instance_id: String | None
    error_code: Int16


@message(api=13, versions="0-5", flexible="4+")
class LeaveGroupResponse:
    throttle_time_ms: Int32 = wire(since=1, default=0)
    error_code: Int16
    members: list[MemberResponse] = wire(since=3, default_factory=list)
