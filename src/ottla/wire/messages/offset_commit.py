"""OffsetCommit: stores a group's offsets; topics go by id since v10 (KIP-848)."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import ZERO_UUID, Int16, Int32, Int64, String, Uuid


@struct
class OffsetCommitRequestPartition:
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = wire(since=6, default=-1)
    committed_metadata: String | None


@struct
class OffsetCommitRequestTopic:
    name: String = wire(until=9, default="")
    topic_id: Uuid = wire(since=10, default=ZERO_UUID)
    partitions: Sequence[OffsetCommitRequestPartition]


@message(api=8, versions="2-10", flexible="8+")
class OffsetCommitRequest:
    group_id: String
    generation_id_or_member_epoch: Int32 = wire(default=-1)
    member_id: String
    group_instance_id: String | None = wire(since=7, default=None)
    retention_time_ms: Int64 = wire(until=4, default=-1)
    topics: list[OffsetCommitRequestTopic]


@struct
class OffsetCommitResponsePartition:
    partition_index: Int32
    error_code: Int16


@struct
class OffsetCommitResponseTopic:
    name: String = wire(until=9, default="")
    topic_id: Uuid = wire(since=10, default=ZERO_UUID)
    partitions: Sequence[OffsetCommitResponsePartition]


@message(api=8, versions="2-10", flexible="8+")
class OffsetCommitResponse:
    throttle_time_ms: Int32 = wire(since=3, default=0)
    topics: list[OffsetCommitResponseTopic]
