"""ConsumerGroupHeartbeat: a member of the new protocol (KIP-848) joins, stays, reports what it owns, leaves.

Since v1 a member subscribes with a pattern, too, and makes its own member id (KIP-1082).
"""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Int16, Int32, String, Uuid


@struct
class TopicPartitions:
    topic_id: Uuid
    partitions: list[Int32]


@message(api=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest:
    group_id: String
    member_id: String
    # 0 joins, -1 leaves, -2 is a static member that will come back.
    member_epoch: Int32
    # The rest is null, or -1, where it has not changed since the last heartbeat.
    instance_id: String | None = wire(default=None)
    rack_id: String | None = wire(default=None)
    rebalance_timeout_ms: Int32 = wire(default=-1)
    subscribed_topic_names: list[String] | None = wire(default=None)
    subscribed_topic_regex: String | None = wire(since=1, default=None)
    server_assignor: String | None = wire(default=None)
    topic_partitions: list[TopicPartitions] | None = wire(default=None)


@struct
class Assignment:
    topic_partitions: list[TopicPartitions]


@message(api=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16
    error_message: String | None = wire(default=None)
    member_id: String | None = wire(default=None)
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    # Null where it has not changed.
    assignment: Assignment | None = wire(default=None)
