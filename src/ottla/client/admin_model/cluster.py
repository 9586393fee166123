"""The cluster, its log directories and features, as `Admin` returns them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from ottla.client.admin_model.acls import AclOperation
from ottla.client.model import Node, VersionRange
from ottla.errors import KafkaError
from ottla.model import TopicPartition


@dataclass(frozen=True)
class ClusterDescription:
    """The brokers and the controller."""

    cluster_id: str | None
    controller: Node | None
    nodes: tuple[Node, ...]
    authorized_operations: frozenset[AclOperation] | None = None
    fenced_node_ids: frozenset[int] = frozenset()


@dataclass(frozen=True)
class ReplicaInfo:
    """A replica in a log directory."""

    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True)
class LogDirDescription:
    """A log directory of a broker; brokers before Kafka 3.3 do not send the size of its disk."""

    error: KafkaError | None
    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int | None = None
    usable_bytes: int | None = None


class FeatureUpgrade(IntEnum):
    """Which change of a feature's level is allowed (KIP-778), with Kafka's number."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """A new level of a feature; 0 switches the feature off, which is a downgrade."""

    max_version_level: int
    upgrade_type: FeatureUpgrade = FeatureUpgrade.UPGRADE


@dataclass(frozen=True)
class FeatureMetadata:
    """The features of a cluster (KIP-584)."""

    finalized_features: Mapping[str, VersionRange]
    supported_features: Mapping[str, VersionRange]
    finalized_features_epoch: int | None


@dataclass(frozen=True)
class QuorumReplica:
    """A controller, or a broker that reads the metadata log; None stands for what the broker does not know or send."""

    replica_id: int
    replica_directory_id: UUID | None
    log_end_offset: int
    last_fetch_timestamp_ms: int | None
    last_caught_up_timestamp_ms: int | None


@dataclass(frozen=True)
class QuorumInfo:
    """The controllers of a cluster (KIP-595): the voters of its metadata log, and those that only read it."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: Mapping[int, tuple[str, ...]]
    """The listeners of controllers by id, as `NAME://HOST:PORT`; only brokers from Kafka 3.9 on send them."""
