"""The arguments and results of `ottla.Admin` and `ottla.aio.Admin`, such as `ottla.admin.NewTopic`."""

from ottla.client.admin_model.acls import AclOperation
from ottla.client.admin_model.cluster import (
    ClusterDescription,
    FeatureMetadata,
    FeatureUpdate,
    FeatureUpgrade,
    LogDirDescription,
    QuorumInfo,
    QuorumReplica,
    ReplicaInfo,
)
from ottla.client.admin_model.configs import (
    AlterConfig,
    AlterConfigOperation,
    ConfigEntry,
    ConfigResource,
    ConfigSynonym,
    ConfigType,
)
from ottla.client.admin_model.groups import (
    GroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    MemberDescription,
    MemberToRemove,
)
from ottla.client.admin_model.offsets import EpochEnd, IsolationLevel, ListedOffset, OffsetSpec
from ottla.client.admin_model.topics import (
    CreatedTopic,
    ElectionType,
    NewPartitions,
    NewTopic,
    PartitionReassignment,
    TopicDescription,
    TopicListing,
    TopicPartitionInfo,
)
from ottla.client.admin_model.transactions import (
    AbortTransactionSpec,
    ProducerIdAndEpoch,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from ottla.client.model import VersionRange
from ottla.config.options import ConfigSource, ResourceType

__all__ = [
    "AbortTransactionSpec",
    "AclOperation",
    "AlterConfig",
    "AlterConfigOperation",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "CreatedTopic",
    "ElectionType",
    "EpochEnd",
    "FeatureMetadata",
    "FeatureUpdate",
    "FeatureUpgrade",
    "GroupDescription",
    "GroupListing",
    "GroupState",
    "GroupType",
    "IsolationLevel",
    "ListedOffset",
    "LogDirDescription",
    "MemberDescription",
    "MemberToRemove",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "PartitionReassignment",
    "ProducerIdAndEpoch",
    "ProducerState",
    "QuorumInfo",
    "QuorumReplica",
    "ReplicaInfo",
    "ResourceType",
    "TopicDescription",
    "TopicListing",
    "TopicPartitionInfo",
    "TransactionDescription",
    "TransactionListing",
    "TransactionState",
    "VersionRange",
]
