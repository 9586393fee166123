"""What the poller found at one time: immutable, shared by all browsers, with indexes by topic and group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from ottla.client.admin_model.groups import GroupState, GroupType
from ottla.client.admin_model.transactions import TransactionState
from ottla.model import TopicPartition


class Part(StrEnum):
    """What the cluster is asked for; each part has its own period and its own problem."""

    BROKERS = "brokers"
    TOPICS = "topics"
    END_OFFSETS = "end offsets"
    STABLE_OFFSETS = "last stable offsets"
    START_OFFSETS = "start offsets"
    LOG_DIRS = "log directories"
    TOPIC_CONFIGS = "configs of topics"
    GROUPS = "groups"
    COMMITTED_OFFSETS = "committed offsets"
    OPEN_TRANSACTIONS = "open transactions"
    TRANSACTIONAL_IDS = "transactional ids"


class LogDirSnapshot(NamedTuple):
    """A log directory of a broker; `error` says why the broker does not use it."""

    path: str
    error: str | None
    total_bytes: int | None
    usable_bytes: int | None
    replicas_bytes: int


class BrokerSnapshot(NamedTuple):
    """A broker; `log_dirs` is None if the cluster does not tell them."""

    id: int
    host: str
    port: int
    rack: str | None
    is_controller: bool
    leader_count: int
    replica_count: int
    log_dirs: tuple[LogDirSnapshot, ...] | None


class PartitionSnapshot(NamedTuple):
    """A partition; offsets and size are None if they are not known. `end_offset` is the high watermark."""

    topic: str
    partition: int
    leader_id: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    start_offset: int | None
    end_offset: int | None
    last_stable_offset: int | None
    size_bytes: int | None
    """Of the leader's replica."""

    @property
    def is_under_replicated(self) -> bool:
        """Whether a replica is not in sync."""
        return len(self.in_sync_replicas) < len(self.replicas)

    @property
    def record_count(self) -> int | None:
        """The offsets between start and end: no fewer than there are records; markers count, and compacted records."""
        if self.end_offset is None or self.start_offset is None:
            return None
        return max(0, self.end_offset - self.start_offset)

    @property
    def unstable_count(self) -> int:
        """How far the last stable offset is behind the end: what open transactions hold back.

        0 for a partition without a leader: nobody tells, and nobody reads there anyway.
        """
        if self.leader_id is None or self.end_offset is None or self.last_stable_offset is None:
            return 0
        return max(0, self.end_offset - self.last_stable_offset)


def is_below_min_in_sync(partition: PartitionSnapshot, min_in_sync_replicas: int) -> bool:
    """Whether the leader refuses writes with acks=all. A partition without a leader refuses all writes.

    Kafka asks for no more replicas than the partition has (since 3.7, KIP-966).
    """
    least = min(min_in_sync_replicas, len(partition.replicas))
    return partition.leader_id is not None and len(partition.in_sync_replicas) < least


class TopicSettings(NamedTuple):
    """The configs of a topic that lists show; None where the cluster does not tell."""

    cleanup_policy: str | None
    retention_ms: int | None
    retention_bytes: int | None
    min_in_sync_replicas: int | None


@dataclass(frozen=True, slots=True)
class TopicSnapshot:
    """A topic; sums are None if a part of them is not known."""

    name: str
    topic_id: UUID | None
    is_internal: bool
    partitions: tuple[PartitionSnapshot, ...]
    """In the order of their numbers."""
    replication_factor: int
    record_count: int | None
    size_bytes: int | None
    """Of the leaders' replicas."""
    unstable_count: int
    """The records that readers of committed records do not see yet, in all partitions."""
    offline_count: int
    """How many partitions have no leader."""
    under_replicated_count: int
    below_min_in_sync_count: int
    """How many partitions have a leader that refuses writes with acks=all."""
    settings: TopicSettings | None = None
    records_per_second: float | None = None
    """Written, between this poll and an earlier one."""
    bytes_per_second: float | None = None
    """Growth of the leaders' logs; None if it is not known."""


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """A group. Lags count offsets, markers included: the ends minus what was committed, by topic."""

    group_id: str
    protocol_type: str
    state: GroupState | None
    type: GroupType | None
    committed: Mapping[TopicPartition, int] | None
    """None if the cluster does not tell."""
    lags: Mapping[str, int]
    records_per_second: float | None = None
    """Consumed: how fast the committed offsets move."""
    unknown_topics: frozenset[str] = frozenset()
    """The topics with a committed offset for a partition whose end is not known: lags are at least what is told."""

    @property
    def lag(self) -> int | None:
        """In all topics; None if nothing of it is known."""
        if self.committed is None or (self.unknown_topics and not self.lags):
            return None
        return sum(self.lags.values())


@dataclass(frozen=True, slots=True)
class TransactionSnapshot:
    """A transaction that is open or about to end; the last four are None if the coordinator did not describe it."""

    transactional_id: str
    producer_id: int
    state: TransactionState
    coordinator_id: int | None
    producer_epoch: int | None = None
    timeout_ms: int | None = None
    started_at_ms: int | None = None
    partitions: tuple[TopicPartition, ...] | None = None


@dataclass(frozen=True, slots=True)
class ClusterTotals:
    """Sums over the cluster; None where a part is not known."""

    topic_count: int = 0
    partition_count: int = 0
    record_count: int | None = None
    size_bytes: int | None = None
    """Of all replicas on all brokers."""
    records_per_second: float | None = None
    bytes_per_second: float | None = None
    consumed_per_second: float | None = None
    lag: int | None = None
    offline_count: int = 0
    under_replicated_count: int = 0
    below_min_in_sync_count: int = 0
    unstable_count: int = 0
    transactional_id_count: int | None = None
    """All that the coordinators remember, whether a transaction is open or not."""


@dataclass(frozen=True, slots=True)
class PartProblem:
    """A part that the cluster refuses, lacks or fails to tell; what was known before stays in the snapshot."""

    part: Part
    message: str
    since_ms: int


@dataclass(frozen=True)
class ClusterSnapshot:
    """The cluster as it was at a time; each poll makes a new one, with the next version."""

    version: int
    at_ms: int
    cluster_id: str | None
    controller_id: int | None
    brokers: Mapping[int, BrokerSnapshot]
    topics: Mapping[str, TopicSnapshot]
    """In the order of their names, internal ones included."""
    groups: Mapping[str, GroupSnapshot]
    transactions: Mapping[str, TransactionSnapshot]
    """The open ones, and those about to end, by transactional id."""
    totals: ClusterTotals
    groups_of_topic: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The groups that have committed offsets in a topic, the one with the largest lag there first."""
    transactions_of_topic: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The open transactions with a partition of a topic, the oldest first."""
    told_at_ms: Mapping[Part, int] = field(default_factory=dict)
    """When the cluster last told each part; a part that is not here is not known."""
    part_problems: tuple[PartProblem, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence for each part that the cluster does not tell."""
        return tuple(f"{each.part}: {each.message}" for each in self.part_problems)

    def partition(self, topic: str, partition: int) -> PartitionSnapshot | None:
        """A partition; None if there is none."""
        found = self.topics.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            return None
        return found.partitions[partition]
