"""The events of groups: the records of `__consumer_offsets` as values."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from ottla.core.group.consumer.events import ConsumerGroupEvent

NO_TIMESTAMP = -1
LAST_TIMESTAMP = (1 << 63) - 1
NO_LEADER_EPOCH = -1


class SavedMember(NamedTuple):
    """A member of a stable group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupSaved(NamedTuple):
    """A group became stable or empty, or a static member of it restarted under another id."""

    group_id: str
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[SavedMember, ...]


class GroupDeleted(NamedTuple):
    group_id: str


class OffsetCommitted(NamedTuple):
    """A committed offset; `expires_at_ms` is set only by very old clients, which send a retention time.

    Their records, and those that Kafka wrote before 4.1, have no topic id.
    """

    group_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    committed_at_ms: int
    expires_at_ms: int = NO_TIMESTAMP
    topic_id: UUID | None = None


class OffsetsCommitted(NamedTuple):
    """Committed offsets of a topic, as columns of the same length; each is a record, and an `OffsetCommitted` when
    the log is replayed.
    """

    group_id: str
    topic: str
    partitions: list[int]
    offsets: list[int]
    leader_epochs: list[int]
    metadata: list[str]
    committed_at_ms: int
    expires_at_ms: int = NO_TIMESTAMP
    topic_id: UUID | None = None

    def each(self) -> list[OffsetCommitted]:
        """The offsets one by one."""
        columns = zip(self.partitions, self.offsets, self.leader_epochs, self.metadata, strict=True)
        shared = self.committed_at_ms, self.expires_at_ms, self.topic_id
        return [OffsetCommitted(self.group_id, self.topic, *row, *shared) for row in columns]


class OffsetDeleted(NamedTuple):
    group_id: str
    topic: str
    partition: int


Event = (
    GroupSaved
    | GroupDeleted
    | OffsetCommitted
    | OffsetsCommitted
    | OffsetDeleted
    | ConsumerGroupEvent
)
