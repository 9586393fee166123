"""Produce: appends record batches; leader hints (KIP-951), topic ids from version 13 (KIP-516)."""

from __future__ import annotations

from ottla.wire.declare import constant, message, struct, wire
from ottla.wire.types import ZERO_UUID, Int16, Int32, Int64, Records, String, Uuid


@struct
class PartitionProduceData:
    index: Int32
    records: Records | None


@struct
class TopicProduceData:
    name: String = wire(until=12, default="")
    topic_id: Uuid = wire(since=13, default=ZERO_UUID)
    partition_data: list[PartitionProduceData]


# Before version 3 there were no record batches; brokers still advertise 0 for librdkafka (KIP-896).
@message(api=0, versions="3-13", flexible="9+")
class ProduceRequest:
    transactional_id: String | None = wire(default=None)
    acks: Int16
    timeout_ms: Int32
    topic_data: list[TopicProduceData]


@struct
class BatchIndexAndErrorMessage:
    batch_index: Int32
    batch_index_error_message: String | None = wire(default=None)


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = wire(default=-1)
    leader_epoch: Int32 = wire(default=-1)


@struct
class PartitionProduceResponse:
    index: Int32
    error_code: Int16
    base_offset: Int64
    log_append_time_ms: Int64 = wire(default=-1)
    log_start_offset: Int64 = wire(since=5, default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = wire(since=8, default_factory=list)
    error_message: String | None = wire(since=8, default=None)
    current_leader: LeaderIdAndEpoch = wire(
        since=10, tag=0, default_factory=constant(LeaderIdAndEpoch())
    )


@struct
class TopicProduceResponse:
    name: String = wire(until=12, default="")
    topic_id: Uuid = wire(since=13, default=ZERO_UUID)
    partition_responses: list[PartitionProduceResponse]


@struct
class NodeEndpoint:
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = wire(default=None)


@message(api=0, versions="3-13", flexible="9+")
class ProduceResponse:
    responses: list[TopicProduceResponse]
    throttle_time_ms: Int32 = wire(default=0)
    node_endpoints: list[NodeEndpoint] = wire(since=10, tag=0, default_factory=list)
