"""AlterPartitionReassignments: which brokers have the replicas of partitions (KIP-455)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Bool, Int16, Int32, String


@struct
class ReassignablePartition:
    partition_index: Int32
    replicas: list[Int32] | None = wire(default=None)


@struct
class ReassignableTopic:
    name: String
    partitions: list[ReassignablePartition]


@message(api=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest:
    timeout_ms: Int32 = wire(default=60_000)
    allow_replication_factor_change: Bool = wire(since=1, default=True)
    topics: list[ReassignableTopic]


@struct
class ReassignablePartitionResponse:
    partition_index: Int32
    error_code: Int16
    error_message: String | None


@struct
class ReassignableTopicResponse:
    name: String
    partitions: list[ReassignablePartitionResponse]


@message(api=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: Int32 = wire(default=0)
    allow_replication_factor_change: Bool = wire(since=1, default=True)
    error_code: Int16
    error_message: String | None
    responses: list[ReassignableTopicResponse]
