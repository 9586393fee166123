"""DeleteGroups: removes groups without members, and their offsets (KIP-229); v3 can say why not (KIP-1331)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Int16, Int32, String


@message(api=42, versions="0-3", flexible="2+")
class DeleteGroupsRequest:
    groups_names: list[String]


@struct
class DeletableGroupResult:
    group_id: String
    error_code: Int16
    error_message: String | None = wire(since=3, default=None)


@message(api=42, versions="0-3", flexible="2+")
class DeleteGroupsResponse:
    throttle_time_ms: Int32 = wire(default=0)
    results: list[DeletableGroupResult]
