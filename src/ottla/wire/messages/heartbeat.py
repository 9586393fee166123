"""Heartbeat: a member of a classic group is alive, and learns whether the group rebalances."""

from __future__ import annotations

from ottla.wire.declare import message, wire
from ottla.wire.types import Int16, Int32, String


@message(api=12, versions="0-4", flexible="4+")
class HeartbeatRequest:
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = wire(since=3, default=None)


@message(api=12, versions="0-4", flexible="4+")
class HeartbeatResponse:
    throttle_time_ms: Int32 = wire(since=1, default=0)
    error_code: Int16
