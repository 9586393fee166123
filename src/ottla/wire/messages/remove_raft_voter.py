"""RemoveRaftVoter: one voter of the metadata log less (KIP-853)."""

from __future__ import annotations

from ottla.wire.declare import message, wire
from ottla.wire.types import Int16, Int32, String, Uuid


@message(api=81, versions="0", flexible="0+")
class RemoveRaftVoterRequest:
    cluster_id: String | None
    voter_id: Int32
    voter_directory_id: Uuid


@message(api=81, versions="0", flexible="0+")
class RemoveRaftVoterResponse:
    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16
    error_message: String | None
