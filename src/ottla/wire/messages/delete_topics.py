"""DeleteTopics: deletes topics by name or, since version 6, by id (KIP-516)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import ZERO_UUID, Int16, Int32, String, Uuid


@struct
class DeleteTopicState:
    name: String | None = wire(default=None)
    topic_id: Uuid = wire(default=ZERO_UUID)


@message(api=20, versions="1-6", flexible="4+")
class DeleteTopicsRequest:
    topics: list[DeleteTopicState] = wire(since=6, default_factory=list)
    topic_names: list[String] = wire(until=5, default_factory=list)
    timeout_ms: Int32


@struct
class DeletableTopicResult:
    name: String | None = wire(nullable_since=6)
    topic_id: Uuid = wire(since=6, default=ZERO_UUID)
    error_code: Int16
    error_message: String | None = wire(since=5, default=None)


@message(api=20, versions="1-6", flexible="4+")
class DeleteTopicsResponse:
    throttle_time_ms: Int32 = wire(default=0)
    responses: list[DeletableTopicResult]
