"""A classic group in __consumer_offsets; a null value deletes it."""

from __future__ import annotations

from ottla.wire.declare import stored, struct, wire
from ottla.wire.types import Bytes, Int32, Int64, String


# Its version continues the numbers of OffsetCommitKey: together they identify the kind of a key.
@stored(versions="2", flexible="none")
class GroupMetadataKey:
    group: String


@struct
class MemberMetadata:
    member_id: String
    group_instance_id: String | None = wire(since=3, default=None)
    client_id: String
    client_host: String
    # Where it is absent, the session timeout stands for it (KIP-62).
    rebalance_timeout: Int32 = wire(since=1, default=-1)
    session_timeout: Int32
    subscription: Bytes
    assignment: Bytes


@stored(versions="0-4", flexible="4+")
class GroupMetadataValue:
    protocol_type: String
    generation: Int32
    protocol: String | None
    leader: String | None
    current_state_timestamp: Int64 = wire(since=2, default=-1)
    members: list[MemberMetadata]
