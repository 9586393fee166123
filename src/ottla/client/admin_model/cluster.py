"""The cluster, its log directories and features, as `Admin` returns them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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


@dataclass(frozen=True)
class FeatureMetadata:
    """The features of a cluster (KIP-584)."""

    finalized_features: Mapping[str, VersionRange]
    supported_features: Mapping[str, VersionRange]
    finalized_features_epoch: int | None
