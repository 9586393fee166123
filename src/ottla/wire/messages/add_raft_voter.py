"""AddRaftVoter: a new voter of the metadata log (KIP-853)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Bool, Int16, Int32, String, Uint16, Uuid


@struct
class Listener:
    name: String
    host: String
    port: Uint16


@message(api=80, versions="0-1", flexible="0+")
class AddRaftVoterRequest:
    cluster_id: String | None
    timeout_ms: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: list[Listener]
    ack_when_committed: Bool = wire(since=1, default=True)


@message(api=80, versions="0-1", flexible="0+")
class AddRaftVoterResponse:
    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16
    error_message: String | None
