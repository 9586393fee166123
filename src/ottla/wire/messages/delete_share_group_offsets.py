"""DeleteShareGroupOffsets: forgets where a share group went on reading (KIP-932)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Int16, Int32, String, Uuid


@struct
class DeleteShareGroupOffsetsRequestTopic:
    topic_name: String


@message(api=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsRequest:
    group_id: String
    topics: list[DeleteShareGroupOffsetsRequestTopic]


@struct
class DeleteShareGroupOffsetsResponseTopic:
    topic_name: String
    topic_id: Uuid
    error_code: Int16
    error_message: String | None = wire(default=None)


@message(api=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsResponse:
    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16
    error_message: String | None = wire(default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic]
