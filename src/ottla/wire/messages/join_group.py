"""JoinGroup: enters a classic group and waits until its next generation begins (KIP-62, KIP-345)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Bool, Bytes, Int16, Int32, String


@struct
class JoinGroupRequestProtocol:
    name: String
    metadata: Bytes


@message(api=11, versions="0-9", flexible="6+")
class JoinGroupRequest:
    group_id: String
    session_timeout_ms: Int32
    # Where it is absent, the session timeout stands for it (KIP-62).
    rebalance_timeout_ms: Int32 = wire(since=1, default=-1)
    member_id: String
    group_instance_id: String | None = wire(since=5, default=None)
    protocol_type: String
    protocols: list[JoinGroupRequestProtocol]
    reason: String | None = wire(since=8, default=None)


@struct
class JoinGroupResponseMember:
    member_id: String
    group_instance_id: String | None = wire(since=5, default=None)
    metadata: Bytes


@message(api=11, versions="0-9", flexible="6+")
class JoinGroupResponse:
    throttle_time_ms: Int32 = wire(since=2, default=0)
    error_code: Int16
    generation_id: Int32 = wire(default=-1)
    protocol_type: String | None = wire(since=7, default=None)
    protocol_name: String | None = wire(nullable_since=7)
    leader: String
    skip_assignment: Bool = wire(since=9, default=False)
    member_id: String
    members: list[JoinGroupResponseMember]
