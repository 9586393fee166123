"""ElectLeaders: moves leadership to preferred replicas, or to any live one (KIP-460)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Int8, Int16, Int32, String


@struct
class TopicPartitions:
    topic: String
    partitions: list[Int32]


@message(api=43, versions="0-2", flexible="2+")
class ElectLeadersRequest:
    election_type: Int8 = wire(since=1, default=0)
    topic_partitions: list[TopicPartitions] | None
    timeout_ms: Int32 = wire(default=60_000)


@struct
class PartitionResult:
    partition_id: Int32
    error_code: Int16
    error_message: String | None = wire(default=None)


@struct
class ReplicaElectionResult:
    topic: String
    partition_result: list[PartitionResult]


@message(api=43, versions="0-2", flexible="2+")
class ElectLeadersResponse:
    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire(since=1, default=0)
    replica_election_results: list[ReplicaElectionResult]
