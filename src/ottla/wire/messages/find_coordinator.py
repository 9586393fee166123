"""FindCoordinator: the broker of a group or transaction; many keys since v4 (KIP-699)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Int8, Int16, Int32, String


@message(api=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    key: String = wire(until=3, default="")
    key_type: Int8 = wire(since=1, default=0)
    coordinator_keys: list[String] = wire(since=4, default_factory=list)


@struct
class Coordinator:
    key: String
    node_id: Int32
    host: String
    port: Int32
    error_code: Int16
    error_message: String | None = wire(default=None)


@message(api=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    throttle_time_ms: Int32 = wire(since=1, default=0)
    error_code: Int16 = wire(until=3, default=0)
    error_message: String | None = wire(since=1, until=3, default=None)
    node_id: Int32 = wire(until=3, default=0)
    host: String = wire(until=3, default="")
    port: Int32 = wire(until=3, default=0)
    coordinators: list[Coordinator] = wire(since=4, default_factory=list)
