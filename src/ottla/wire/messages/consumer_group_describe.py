"""ConsumerGroupDescribe: groups of the new protocol (KIP-848) and their members; member types since v1 (KIP-1099)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import OPERATIONS_OMITTED, Bool, Int8, Int16, Int32, String, Uuid


@message(api=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest:
    group_ids: list[String]
    include_authorized_operations: Bool = wire(default=False)


@struct
class TopicPartitions:
    topic_id: Uuid
    topic_name: String
    partitions: list[Int32]


@struct
class Assignment:
    topic_partitions: list[TopicPartitions]


@struct
class Member:
    member_id: String
    instance_id: String | None = wire(default=None)
    rack_id: String | None = wire(default=None)
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    subscribed_topic_regex: String | None = wire(default=None)
    assignment: Assignment
    target_assignment: Assignment
    # 0 is a member that still speaks the classic protocol, 1 one of the new, -1 unknown.
    member_type: Int8 = wire(since=1, default=-1)


@struct
class DescribedGroup:
    error_code: Int16
    error_message: String | None = wire(default=None)
    group_id: String
    group_state: String
    group_epoch: Int32
    assignment_epoch: Int32
    assignor_name: String
    members: list[Member]
    authorized_operations: Int32 = wire(default=OPERATIONS_OMITTED)


@message(api=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse:
    throttle_time_ms: Int32 = wire(default=0)
    groups: list[DescribedGroup]
