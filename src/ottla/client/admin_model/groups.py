"""Groups of all types, as `Admin` takes and returns them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.client.admin_model.acls import AclOperation
from ottla.client.admin_model.broker_words import BrokerWord
from ottla.client.model import Node
from ottla.model import TopicPartition


class GroupState(BrokerWord):
    """The state of a group."""

    UNKNOWN = "Unknown"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"


class GroupType(BrokerWord):
    """The protocol of a group (KIP-848, KIP-932, KIP-1071)."""

    UNKNOWN = "Unknown"
    CLASSIC = "Classic"
    CONSUMER = "Consumer"
    SHARE = "Share"
    STREAMS = "Streams"


@dataclass(frozen=True)
class GroupListing:
    """A listed group; older brokers do not send its state or type."""

    group_id: str
    protocol_type: str
    state: GroupState | None = None
    type: GroupType | None = None

    @property
    def is_simple_consumer_group(self) -> bool:
        """Whether it has only committed offsets, of consumers that assign partitions themselves."""
        return not self.protocol_type


@dataclass(frozen=True)
class MemberDescription:
    """A member of a group.

    `assignment` has the partitions that the member owns, `target_assignment` those that it shall own; they differ
    while the group reconciles. Groups of the classic protocol have no targets and epochs, share groups no targets. The
    partitions of a member of a streams group are those of the source topics of its active tasks.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...] = ()
    member_metadata: bytes = field(default=b"", repr=False)
    member_assignment: bytes = field(default=b"", repr=False)
    type: GroupType | None = None
    """The protocol of this member: some of a consumer group may use the classic one. Kafka before 4.0 does not say."""
    rack_id: str | None = None
    member_epoch: int | None = None
    target_assignment: tuple[TopicPartition, ...] | None = None
    subscribed_topics: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    """A pattern of topic names, in RE2's syntax, which the coordinator resolves."""


@dataclass(frozen=True)
class GroupDescription:
    """A group, its members and their assignments.

    Groups of the classic protocol have no epochs. If `target_assignment_epoch` is behind `group_epoch`, the coordinator
    has yet to assign the partitions anew.
    """

    group_id: str
    protocol_type: str
    state: GroupState
    members: tuple[MemberDescription, ...]
    partition_assignor: str
    coordinator: Node
    type: GroupType = GroupType.CLASSIC
    authorized_operations: frozenset[AclOperation] | None = None
    group_epoch: int | None = None
    target_assignment_epoch: int | None = None

    @property
    def is_simple_consumer_group(self) -> bool:
        """Whether it has only committed offsets, of consumers that assign partitions themselves."""
        return not self.protocol_type


class MemberToRemove(NamedTuple):
    """A member to remove from a group: by instance id, or by member id (Kafka 2.4 or later)."""

    group_instance_id: str | None = None
    member_id: str = ""
