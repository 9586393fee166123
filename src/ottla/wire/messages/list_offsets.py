"""ListOffsets: the offset at a timestamp (KIP-79); negative ones name positions (KIP-734)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Int8, Int16, Int32, Int64, String


@struct
class ListOffsetsPartition:
    partition_index: Int32
    current_leader_epoch: Int32 = wire(since=4, default=-1)
    timestamp: Int64


@struct
class ListOffsetsTopic:
    name: String
    partitions: list[ListOffsetsPartition]


@message(api=2, versions="1-11", flexible="6+")
class ListOffsetsRequest:
    replica_id: Int32
    isolation_level: Int8 = wire(since=2, default=0)
    topics: list[ListOffsetsTopic]
    timeout_ms: Int32 = wire(since=10, default=0)


@struct
class ListOffsetsPartitionResponse:
    partition_index: Int32
    error_code: Int16
    timestamp: Int64 = wire(default=-1)
    offset: Int64 = wire(default=-1)
    leader_epoch: Int32 = wire(since=4, default=-1)


@struct
class ListOffsetsTopicResponse:
    name: String
    partitions: list[ListOffsetsPartitionResponse]


@message(api=2, versions="1-11", flexible="6+")
class ListOffsetsResponse:
    throttle_time_ms: Int32 = wire(since=2, default=0)
    topics: list[ListOffsetsTopicResponse]
