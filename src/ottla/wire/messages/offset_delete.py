"""OffsetDelete: forgets a group's positions in topics that it does not subscribe to (KIP-496)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Int16, Int32, String


@struct
class OffsetDeleteRequestPartition:
    partition_index: Int32


@struct
class OffsetDeleteRequestTopic:
    name: String
    partitions: list[OffsetDeleteRequestPartition]


@message(api=47, versions="0", flexible="none")
class OffsetDeleteRequest:
    group_id: String
    topics: list[OffsetDeleteRequestTopic]


@struct
class OffsetDeleteResponsePartition:
    partition_index: Int32
    error_code: Int16


@struct
class OffsetDeleteResponseTopic:
    name: String
    partitions: list[OffsetDeleteResponsePartition]


@message(api=47, versions="0", flexible="none")
class OffsetDeleteResponse:
    error_code: Int16
    throttle_time_ms: Int32 = wire(default=0)
    topics: list[OffsetDeleteResponseTopic]
