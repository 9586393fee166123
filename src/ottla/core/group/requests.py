"""What groups are asked, and what they answer; handlers translate these from and to messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from ottla.core.group.events import NO_TIMESTAMP
from ottla.errors import ErrorCode

NO_GENERATION = -1
NO_MEMBER_ID = ""


class GroupConfig(NamedTuple):
    """The options of a broker that groups obey."""

    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = (1 << 31) - 1
    initial_rebalance_delay_ms: int = 3000
    metadata_max_bytes: int = 4096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    retention_check_interval_ms: int = 600_000


class JoinRequest(NamedTuple):
    """`new_member_id` is the id that the member gets if it brings none.

    `knows_handshake`: since v4 a dynamic member is first given an id and joins with it (KIP-394).
    `knows_skipping`: since v9 a leader can be told to leave the assignment as it is (KIP-814).
    """

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Mapping[str, bytes]
    new_member_id: str
    knows_handshake: bool
    knows_skipping: bool


class JoinedMember(NamedTuple):
    """A member as its leader is told of it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    error: ErrorCode
    member_id: str
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class SyncRequest(NamedTuple):
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol: str | None
    assignments: Mapping[str, bytes]


class SyncResult(NamedTuple):
    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class HeartbeatRequest(NamedTuple):
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None


class Leaver(NamedTuple):
    """Somebody who is to leave a group; an administrator knows only the instance id."""

    member_id: str
    instance_id: str | None


LeaveResults = tuple[tuple[Leaver, ErrorCode], ...]


class CommitSender(NamedTuple):
    """Who commits offsets; a consumer that manages its partitions itself is nobody in particular."""

    group_id: str
    generation: int = NO_GENERATION
    member_id: str = NO_MEMBER_ID
    instance_id: str | None = None


class NewOffset(NamedTuple):
    """An offset to be committed."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    # Clients so old that they name a retention time themselves; else NO_TIMESTAMP.
    retention_ms: int = NO_TIMESTAMP
    # Of the topic that was there when the request came; None if the caller does not know of topics.
    topic_id: UUID | None = None


class FetchedOffset(NamedTuple):
    error: ErrorCode
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    group_type: str


class DescribedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    state: str
    protocol_type: str
    protocol: str
    members: tuple[DescribedMember, ...]
