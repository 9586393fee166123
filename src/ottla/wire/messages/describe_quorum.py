"""DescribeQuorum: the voters of the metadata log and how far they are (KIP-595, KIP-836)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import ZERO_UUID, Int16, Int32, Int64, String, Uint16, Uuid


@struct
class PartitionData:
    partition_index: Int32


@struct
class TopicData:
    topic_name: String
    partitions: list[PartitionData]


@message(api=55, versions="0-2", flexible="0+")
class DescribeQuorumRequest:
    topics: list[TopicData]


@struct
class ReplicaState:
    replica_id: Int32
    replica_directory_id: Uuid = wire(since=2, default=ZERO_UUID)
    log_end_offset: Int64
    last_fetch_timestamp: Int64 = wire(since=1, default=-1)
    last_caught_up_timestamp: Int64 = wire(since=1, default=-1)


@struct
class PartitionDataResult:
    partition_index: Int32
    error_code: Int16
    error_message: String | None = wire(since=2, default="")
    leader_id: Int32
    leader_epoch: Int32
    high_watermark: Int64
    current_voters: list[ReplicaState]
    observers: list[ReplicaState]


@struct
class TopicDataResult:
    topic_name: String
    partitions: list[PartitionDataResult]


@struct
class Listener:
    name: String
    host: String
    port: Uint16


@struct
class Node:
    node_id: Int32
    listeners: list[Listener]


@message(api=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse:
    error_code: Int16
    error_message: String | None = wire(since=2, default="")
    topics: list[TopicDataResult]
    nodes: list[Node] = wire(since=2, default_factory=list)
