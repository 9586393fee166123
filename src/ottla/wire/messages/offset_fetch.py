"""OffsetFetch: a group's positions; many groups since v8 (KIP-709), topics by id since v10."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import ZERO_UUID, Bool, Int16, Int32, Int64, String, Uuid


@struct
class OffsetFetchRequestTopic:
    name: String
    partition_indexes: list[Int32]


@struct
class OffsetFetchRequestTopics:
    name: String = wire(until=9, default="")
    topic_id: Uuid = wire(since=10, default=ZERO_UUID)
    partition_indexes: list[Int32]


@struct
class OffsetFetchRequestGroup:
    group_id: String
    member_id: String | None = wire(since=9, default=None)
    member_epoch: Int32 = wire(since=9, default=-1)
    topics: list[OffsetFetchRequestTopics] | None


@message(api=9, versions="1-10", flexible="6+")
class OffsetFetchRequest:
    group_id: String = wire(until=7, default="")
    topics: list[OffsetFetchRequestTopic] | None = wire(
        until=7, nullable_since=2, default_factory=list
    )
    groups: list[OffsetFetchRequestGroup] = wire(since=8, default_factory=list)
    require_stable: Bool = wire(since=7, default=False)


@struct
class OffsetFetchResponsePartition:
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = wire(since=5, default=-1)
    metadata: String | None
    error_code: Int16


@struct
class OffsetFetchResponseTopic:
    name: String
    partitions: list[OffsetFetchResponsePartition]


@struct
class OffsetFetchResponsePartitions:
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = wire(default=-1)
    metadata: String | None
    error_code: Int16


@struct
class OffsetFetchResponseTopics:
    name: String = wire(until=9, default="")
    topic_id: Uuid = wire(since=10, default=ZERO_UUID)
    partitions: list[OffsetFetchResponsePartitions]


@struct
class OffsetFetchResponseGroup:
    group_id: String
    topics: list[OffsetFetchResponseTopics]
    error_code: Int16 = wire(default=0)


@message(api=9, versions="1-10", flexible="6+")
class OffsetFetchResponse:
    throttle_time_ms: Int32 = wire(since=3, default=0)
    topics: list[OffsetFetchResponseTopic] = wire(until=7, default_factory=list)
    error_code: Int16 = wire(since=2, until=7, default=0)
    groups: list[OffsetFetchResponseGroup] = wire(since=8, default_factory=list)
