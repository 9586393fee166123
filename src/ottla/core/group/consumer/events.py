"""The events of groups of the new protocol: their records in `__consumer_offsets` as values.

The whole group is durable. What a member said of itself, what it is to have (its target) and what it has (its current
assignment) are three records each, so that a heartbeat writes only what has changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from ottla.core.assignors.server_side.model import Partitions

# What a member has: the epoch in which each partition was assigned to it, by topic and partition.
AssignedPartitions = Mapping[UUID, Mapping[int, int]]
NO_PARTITIONS: AssignedPartitions = {}
NO_PATTERN = ""
FIRST_EPOCH = 1


class MemberState(IntEnum):
    """How far a member has come on its way to its target; the values are those of Kafka's records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1  # it has to give up partitions first
    UNRELEASED_PARTITIONS = 2  # it waits for partitions that other members still have
    UNKNOWN = 127  # written by a newer version


class ClassicProtocols(NamedTuple):
    """What a member that speaks the classic protocol said of itself in its JoinGroup."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class MemberSubscription(NamedTuple):
    """What a member said of itself; `classic` if it speaks the classic protocol."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    pattern: str = NO_PATTERN
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicProtocols | None = None


class CurrentAssignment(NamedTuple):
    """What a member has: `assigned` it may use, `revoking` it has to give up; until then nobody else gets either."""

    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: AssignedPartitions = NO_PARTITIONS
    revoking: AssignedPartitions = NO_PARTITIONS


class GroupEpochSaved(NamedTuple):
    """The group is in another epoch: members or their subscriptions have changed, or the topics have."""

    group_id: str
    epoch: int
    metadata_hash: int


class GroupEpochDeleted(NamedTuple):
    group_id: str


class PartitionMetadataFound(NamedTuple):
    """The partitions of the group's topics, as Kafka before 4.1 saved them."""

    group_id: str


class PartitionMetadataDeleted(NamedTuple):
    group_id: str


class MemberSaved(NamedTuple):
    group_id: str
    member_id: str
    subscription: MemberSubscription


class MemberDeleted(NamedTuple):
    group_id: str
    member_id: str


class TargetEpochSaved(NamedTuple):
    """The targets of all members are those of this epoch."""

    group_id: str
    epoch: int
    computed_at_ms: int


class TargetEpochDeleted(NamedTuple):
    group_id: str


class TargetSaved(NamedTuple):
    group_id: str
    member_id: str
    partitions: Partitions


class TargetDeleted(NamedTuple):
    group_id: str
    member_id: str


class CurrentSaved(NamedTuple):
    group_id: str
    member_id: str
    current: CurrentAssignment


class CurrentDeleted(NamedTuple):
    group_id: str
    member_id: str


class PatternResolved(NamedTuple):
    """The topics that match a pattern to which members subscribe."""

    group_id: str
    pattern: str
    topics: frozenset[str]
    version: int
    resolved_at_ms: int


class PatternForgotten(NamedTuple):
    group_id: str
    pattern: str


ConsumerGroupEvent = (
    GroupEpochSaved
    | GroupEpochDeleted
    | PartitionMetadataFound
    | PartitionMetadataDeleted
    | MemberSaved
    | MemberDeleted
    | TargetEpochSaved
    | TargetEpochDeleted
    | TargetSaved
    | TargetDeleted
    | CurrentSaved
    | CurrentDeleted
    | PatternResolved
    | PatternForgotten
)
