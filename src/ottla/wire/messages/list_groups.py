"""ListGroups: the groups that a broker coordinates, by state (KIP-518) and type (KIP-848)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Int16, Int32, String


@message(api=16, versions="0-5", flexible="3+")
class ListGroupsRequest:
    states_filter: list[String] = wire(since=4, default_factory=list)
    types_filter: list[String] = wire(since=5, default_factory=list)


@struct
class ListedGroup:
    group_id: String
    protocol_type: String
    group_state: String = wire(since=4, default="")
    group_type: String = wire(since=5, default="")


@message(api=16, versions="0-5", flexible="3+")
class ListGroupsResponse:
    throttle_time_ms: Int32 = wire(since=1, default=0)
    error_code: Int16
    groups: list[ListedGroup]
