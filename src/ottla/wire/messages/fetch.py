"""Fetch: record batches of partitions, with fetch sessions (KIP-227) and topic ids (KIP-516)."""

from __future__ import annotations

from ottla.wire.declare import constant, message, struct, wire
from ottla.wire.types import ZERO_UUID, Int8, Int16, Int32, Int64, Records, String, Uuid


@struct
class ReplicaState:
    replica_id: Int32 = wire(default=-1)
    replica_epoch: Int64 = wire(default=-1)


@struct
class FetchPartition:
    partition: Int32
    current_leader_epoch: Int32 = wire(since=9, default=-1)
    fetch_offset: Int64
    last_fetched_epoch: Int32 = wire(since=12, default=-1)
    log_start_offset: Int64 = wire(since=5, default=-1)
    partition_max_bytes: Int32
    replica_directory_id: Uuid = wire(since=17, tag=0, default=ZERO_UUID)
    high_watermark: Int64 = wire(since=18, tag=1, default=0x7FFFFFFFFFFFFFFF)


@struct
class FetchTopic:
    topic: String = wire(until=12, default="")
    topic_id: Uuid = wire(since=13, default=ZERO_UUID)
    partitions: list[FetchPartition]


@struct
class ForgottenTopic:
    topic: String = wire(until=12, default="")
    topic_id: Uuid = wire(since=13, default=ZERO_UUID)
    partitions: list[Int32]


@message(api=1, versions="4-18", flexible="12+")
class FetchRequest:
    cluster_id: String | None = wire(since=12, tag=0, default=None)
    replica_id: Int32 = wire(until=14, default=-1)
    replica_state: ReplicaState = wire(since=15, tag=1, default_factory=constant(ReplicaState()))
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = wire(default=0x7FFFFFFF)
    isolation_level: Int8 = wire(default=0)
    session_id: Int32 = wire(since=7, default=0)
    session_epoch: Int32 = wire(since=7, default=-1)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic] = wire(since=7, default_factory=list)
    rack_id: String = wire(since=11, default="")


@struct
class EpochEndOffset:
    epoch: Int32 = wire(default=-1)
    end_offset: Int64 = wire(default=-1)


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = wire(default=-1)
    leader_epoch: Int32 = wire(default=-1)


@struct
class SnapshotId:
    end_offset: Int64 = wire(default=-1)
    epoch: Int32 = wire(default=-1)


@struct
class AbortedTransaction:
    producer_id: Int64
    first_offset: Int64


@struct
class PartitionData:
    partition_index: Int32
    error_code: Int16
    high_watermark: Int64
    last_stable_offset: Int64 = wire(default=-1)
    log_start_offset: Int64 = wire(since=5, default=-1)
    diverging_epoch: EpochEndOffset = wire(
        since=12, tag=0, default_factory=constant(EpochEndOffset())
    )
    current_leader: LeaderIdAndEpoch = wire(
        since=12, tag=1, default_factory=constant(LeaderIdAndEpoch())
    )
    snapshot_id: SnapshotId = wire(since=12, tag=2, default_factory=constant(SnapshotId()))
    aborted_transactions: list[AbortedTransaction] | None
    preferred_read_replica: Int32 = wire(since=11, default=-1)
    records: Records | None


@struct
class FetchableTopicResponse:
    topic: String = wire(until=12, default="")
    topic_id: Uuid = wire(since=13, default=ZERO_UUID)
    partitions: list[PartitionData]


@struct
class NodeEndpoint:
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = wire(default=None)


@message(api=1, versions="4-18", flexible="12+")
class FetchResponse:
    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire(since=7, default=0)
    session_id: Int32 = wire(since=7, default=0)
    responses: list[FetchableTopicResponse]
    node_endpoints: list[NodeEndpoint] = wire(since=16, tag=0, default_factory=list)
