"""ShareGroupHeartbeat: membership of share groups (KIP-932)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Int16, Int32, String, Uuid


@message(api=76, versions="1", flexible="0+")
class ShareGroupHeartbeatRequest:
    group_id: String
    member_id: String
    member_epoch: Int32
    rack_id: String | None = wire(default=None)
    subscribed_topic_names: list[String] | None = wire(default=None)


@struct
class TopicPartitions:
    topic_id: Uuid
    partitions: list[Int32]


@struct
class Assignment:
    topic_partitions: list[TopicPartitions]


@message(api=76, versions="1", flexible="0+")
class ShareGroupHeartbeatResponse:
    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16
    error_message: String | None = wire(default=None)
    member_id: String | None = wire(default=None)
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = wire(default=None)
