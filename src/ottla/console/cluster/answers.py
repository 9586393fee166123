"""What the cluster answered last, part by part, from which snapshots are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ottla.client.admin_model.cluster import ClusterDescription, LogDirDescription
from ottla.client.admin_model.groups import GroupListing
from ottla.client.admin_model.topics import TopicDescription
from ottla.client.admin_model.transactions import TransactionDescription, TransactionListing
from ottla.console.cluster.snapshot import Part, PartProblem, TopicSettings
from ottla.model import TopicPartition

Offsets = Mapping[TopicPartition, int]
# The broker that has the replica, and the partition.
Replica = tuple[int, TopicPartition]
LogDirs = Mapping[int, Mapping[str, LogDirDescription]]


@dataclass(frozen=True)
class PlacedPartitions:
    """How many partitions each broker leads, and how many it has a replica of."""

    leaders: Mapping[int, int] = field(default_factory=dict)
    replicas: Mapping[int, int] = field(default_factory=dict)


def placed_partitions(topics: Iterable[TopicDescription]) -> PlacedPartitions:
    """Counts the partitions of all topics."""
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    for topic in topics:
        for partition in topic.partitions:
            if partition.leader is not None:
                leaders[partition.leader.id] += 1
            for node in partition.replicas:
                replicas[node.id] += 1
    return PlacedPartitions(leaders, replicas)


def replica_sizes(log_dirs: LogDirs) -> dict[Replica, int]:
    """The bytes of each replica, without those that are being moved to another directory."""
    return {
        (broker, partition): replica.size_bytes
        for broker, found in log_dirs.items()
        for log_dir in found.values()
        for partition, replica in log_dir.replicas.items()
        if not replica.is_future
    }


@dataclass(frozen=True)
class ClusterAnswers:
    """The newest answers, each as old as its last question; `told_at_ms` says when that was."""

    cluster: ClusterDescription
    topics: Mapping[str, TopicDescription] = field(default_factory=dict)
    start_offsets: Offsets = field(default_factory=dict)
    end_offsets: Offsets = field(default_factory=dict)
    stable_offsets: Offsets = field(default_factory=dict)
    placed: PlacedPartitions = field(default_factory=PlacedPartitions)
    log_dirs: LogDirs = field(default_factory=dict)
    sizes: Mapping[Replica, int] = field(default_factory=dict)
    settings: Mapping[str, TopicSettings] = field(default_factory=dict)
    groups: Mapping[str, GroupListing] = field(default_factory=dict)
    committed: Mapping[str, Offsets] = field(default_factory=dict)
    transactions: Mapping[str, TransactionListing] = field(default_factory=dict)
    """The open ones."""
    described: Mapping[str, TransactionDescription] = field(default_factory=dict)
    transactional_id_count: int | None = None
    told_at_ms: Mapping[Part, int] = field(default_factory=dict)
    problems: tuple[PartProblem, ...] = ()


@dataclass(frozen=True)
class Rates:
    """How fast offsets move and logs grow, per second."""

    written: Mapping[str, float] = field(default_factory=dict)
    """Records by topic."""
    grown: Mapping[str, float] = field(default_factory=dict)
    """Bytes by topic."""
    consumed: Mapping[str, float] = field(default_factory=dict)
    """Records by group."""
