"""SyncGroup: the leader hands in the assignments, every member gets its own (KIP-559)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Bytes, Int16, Int32, String


@struct
class SyncGroupRequestAssignment:
    member_id: String
    assignment: Bytes


@message(api=14, versions="0-5", flexible="4+")
class SyncGroupRequest:
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = wire(since=3, default=None)
    protocol_type: String | None = wire(since=5, default=None)
    protocol_name: String | None = wire(since=5, default=None)
    assignments: list[SyncGroupRequestAssignment]


@message(api=14, versions="0-5", flexible="4+")
class SyncGroupResponse:
    throttle_time_ms: Int32 = wire(since=1, default=0)
    error_code: Int16
    protocol_type: String | None = wire(since=5, default=None)
    protocol_name: String | None = wire(since=5, default=None)
    assignment: Bytes
