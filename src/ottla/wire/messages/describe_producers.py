"""DescribeProducers: the producers that partitions remember, and their transactions (KIP-664)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Int16, Int32, Int64, String


@struct
class TopicRequest:
    name: String
    partition_indexes: list[Int32]


@message(api=61, versions="0", flexible="0+")
class DescribeProducersRequest:
    topics: list[TopicRequest]


@struct
class ProducerState:
    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = wire(default=-1)
    last_timestamp: Int64 = wire(default=-1)
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = wire(default=-1)


@struct
class PartitionResponse:
    partition_index: Int32
    error_code: Int16
    error_message: String | None = wire(default=None)
    active_producers: list[ProducerState]


@struct
class TopicResponse:
    name: String
    partitions: list[PartitionResponse]


@message(api=61, versions="0", flexible="0+")
class DescribeProducersResponse:
    throttle_time_ms: Int32 = wire(default=0)
    topics: list[TopicResponse]
