"""OffsetForLeaderEpoch: where a leader epoch ends, to detect truncation (KIP-101, KIP-320)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Int16, Int32, Int64, String


@struct
class OffsetForLeaderPartition:
    partition: Int32
    current_leader_epoch: Int32 = wire(default=-1)
    leader_epoch: Int32


@struct
class OffsetForLeaderTopic:
    topic: String
    partitions: list[OffsetForLeaderPartition]


@message(api=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    replica_id: Int32 = wire(since=3, default=-2)
    topics: list[OffsetForLeaderTopic]


@struct
class EpochEndOffset:
    error_code: Int16
    partition: Int32
    leader_epoch: Int32 = wire(default=-1)
    end_offset: Int64 = wire(default=-1)


@struct
class OffsetForLeaderTopicResult:
    topic: String
    partitions: list[EpochEndOffset]


@message(api=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    throttle_time_ms: Int32 = wire(default=0)
    topics: list[OffsetForLeaderTopicResult]
