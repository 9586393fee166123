"""What the cluster answered last, part by part, from which snapshots are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.client.admin_model.cluster import ClusterDescription, LogDirDescription
from ottla.client.admin_model.groups import GroupListing
from ottla.client.admin_model.topics import TopicDescription
from ottla.client.admin_model.transactions import TransactionDescription, TransactionListing
from ottla.console.cluster.snapshot import Part, PartProblem, TopicSettings
from ottla.model import TopicPartition

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True)
class ClusterAnswers:
    """The newest answers, each as old as its last question; `told_at_ms` says when that was."""

    cluster: ClusterDescription
    topics: Mapping[str, TopicDescription] = field(default_factory=dict)
    start_offsets: Offsets = field(default_factory=dict)
    end_offsets: Offsets = field(default_factory=dict)
    stable_offsets: Offsets = field(default_factory=dict)
    log_dirs: Mapping[int, Mapping[str, LogDirDescription]] = field(default_factory=dict)
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
