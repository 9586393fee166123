"""Consumer groups, as `Admin` takes and returns them."""

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
    """The protocol of a group (KIP-848)."""

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
    """A member of a group; `assignment` is empty unless the group uses the consumer protocol type."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...] = ()
    member_metadata: bytes = field(default=b"", repr=False)
    member_assignment: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class GroupDescription:
    """A group, its members and their assignments."""

    group_id: str
    protocol_type: str
    state: GroupState
    members: tuple[MemberDescription, ...]
    partition_assignor: str
    coordinator: Node
    type: GroupType = GroupType.CLASSIC
    authorized_operations: frozenset[AclOperation] | None = None

    @property
    def is_simple_consumer_group(self) -> bool:
        """Whether it has only committed offsets, of consumers that assign partitions themselves."""
        return not self.protocol_type


class MemberToRemove(NamedTuple):
    """A member to remove from a group: by instance id, or by member id (Kafka 2.4 or later)."""

    group_instance_id: str | None = None
    member_id: str = ""
