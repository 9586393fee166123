"""DescribeTopicPartitions: partitions of topics, a page at a time (KIP-966)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import OPERATIONS_OMITTED, Bool, Int16, Int32, String, Uuid


@struct
class TopicRequest:
    name: String


@struct
class Cursor:
    topic_name: String
    partition_index: Int32


@message(api=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    topics: list[TopicRequest]
    response_partition_limit: Int32 = wire(default=2000)
    cursor: Cursor | None = wire(default=None)


@struct
class DescribeTopicPartitionsResponsePartition:
    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = wire(default=-1)
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    eligible_leader_replicas: list[Int32] | None = wire(default=None)
    last_known_elr: list[Int32] | None = wire(default=None)
    offline_replicas: list[Int32]


@struct
class DescribeTopicPartitionsResponseTopic:
    error_code: Int16
    name: String | None
    topic_id: Uuid
    is_internal: Bool = wire(default=False)
    partitions: list[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: Int32 = wire(default=OPERATIONS_OMITTED)


@message(api=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse:
    throttle_time_ms: Int32 = wire(default=0)
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None = wire(default=None)
