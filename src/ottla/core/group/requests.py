"""Requests to the group coordinator and what it decides; handlers translate them from and to messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple
from uuid import UUID

from ottla.core.assignors.server_side.model import Partitions
from ottla.core.group.events import NO_TIMESTAMP
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode

NO_GENERATION = -1
NO_MEMBER_ID = ""
# Epochs of members of the new protocol that are requests (KIP-848).
JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2


class GroupConfig(NamedTuple):
    """The broker's options for groups."""

    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = (1 << 31) - 1
    initial_rebalance_delay_ms: int = 3000
    metadata_max_bytes: int = 4096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    retention_check_interval_ms: int = 600_000


class MigrationPolicy(Enum):
    """Which groups change their protocol while they have members (`group.consumer.migration.policy`)."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def upgrades(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def downgrades(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


class ConsumerGroupConfig(NamedTuple):
    """The options of a group of the new protocol: the broker's, some of them changed for the group (KIP-848)."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    # The least time between two target assignments (KIP-1263).
    assignment_interval_ms: int = 1_000
    max_size: int = (1 << 31) - 1
    # The first is the one of groups whose members name none.
    assignors: tuple[str, ...] = ("uniform", "range")
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    regex_refresh_interval_ms: int = 600_000


class JoinRequest(NamedTuple):
    """`new_member_id` is the id for a client that has none yet.

    `knows_handshake`: since v4 a dynamic member first gets an id and then joins with it (KIP-394).
    `knows_skipping`: since v9 the response can tell a leader to skip the assignment (KIP-814).
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
    reason: str | None = None
    """In the client's own words (KIP-800)."""


class JoinedMember(NamedTuple):
    """A member, as the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class Joined(NamedTuple):
    """A member is in a generation; only the leader gets the members."""

    member_id: str
    generation: int
    protocol_type: str | None
    protocol: str | None
    leader: str
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class JoinRefused(NamedTuple):
    """The client has to join again, or cannot join; `member_id` is the id to join with."""

    error: ErrorCode
    member_id: str


class SyncRequest(NamedTuple):
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol: str | None
    assignments: Mapping[str, bytes]


class Synced(NamedTuple):
    """A member has its assignment."""

    protocol_type: str | None
    protocol: str | None
    assignment: bytes


class HeartbeatRequest(NamedTuple):
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None


class Leaver(NamedTuple):
    """A member that is to leave a group; an administrator gives only the instance id."""

    member_id: str
    instance_id: str | None
    reason: str | None = None
    """In the client's own words (KIP-800)."""


LeaveResults = tuple[tuple[Leaver, Refused | None], ...]


class ConsumerHeartbeatRequest(NamedTuple):
    """ConsumerGroupHeartbeat: what is None, or a negative timeout, has not changed since the last one.

    The member id is never empty: for a client that has none, the handler makes one. `caller` is whoever the broker says
    it is; the topics that match a pattern are found for the caller whose heartbeat asked for them.
    """

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] | None = None
    pattern: str | None = None
    assignor: str | None = None
    owned: Partitions | None = None
    client_id: str = ""
    client_host: str = ""
    caller: object = None


class ConsumerHeartbeat(NamedTuple):
    """The answer to a heartbeat; `assignment` is None if the member has it already."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Partitions | None = None


class CommitSender(NamedTuple):
    """The sender of a commit; a consumer that assigns its partitions itself has no generation and no member id.

    For a member of the new protocol the generation is its member epoch. `knows_epochs`: the version of the request
    is one in which members of the new protocol commit.
    """

    group_id: str
    generation: int = NO_GENERATION
    member_id: str = NO_MEMBER_ID
    instance_id: str | None = None
    knows_epochs: bool = True


class NewOffsets(NamedTuple):
    """Offsets of a topic to be committed, as columns of the same length: one request may have thousands."""

    topic: str
    partitions: list[int]
    offsets: list[int]
    leader_epochs: list[int]
    metadata: list[str]
    # Only of very old clients; else NO_TIMESTAMP.
    retention_ms: int = NO_TIMESTAMP
    # Of the topic when the request arrived; None if the caller does not know the topics.
    topic_id: UUID | None = None

    def only(self, places: Iterable[int]) -> NewOffsets:
        """Those at some places of the columns."""
        kept = list(places)
        return self._replace(
            partitions=[self.partitions[place] for place in kept],
            offsets=[self.offsets[place] for place in kept],
            leader_epochs=[self.leader_epochs[place] for place in kept],
            metadata=[self.metadata[place] for place in kept],
        )


class FetchedOffset(NamedTuple):
    """A committed offset; -1 if there is none."""

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


class DescribedConsumerMember(NamedTuple):
    """A member of a group of the new protocol; `speaks_classic` until it changes its own protocol, too."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    pattern: str | None
    assignment: Partitions
    target: Partitions
    speaks_classic: bool


class DescribedConsumerGroup(NamedTuple):
    state: str
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[DescribedConsumerMember, ...]


class ResolvePatterns(NamedTuple):
    """An effect: the topics that match the patterns of a group have to be found (`GroupMachine.patterns_resolved`).

    `caller` is that of the heartbeat: topics that it may not describe are left out.
    """

    group_id: str
    patterns: frozenset[str]
    caller: object = None


class ResolvedPatterns(NamedTuple):
    """The names of the topics that match each pattern; `version` is that of the topics when the search began."""

    topics: Mapping[str, frozenset[str]]
    version: int
