"""What `ottla` exports, for type checkers; at run time names are imported on first use."""

from ottla import aio as aio
from ottla import assignors as assignors
from ottla.broker.embedded import (
    Broker,
)
from ottla.client.admin_model import (
    AbortTransactionSpec,
    AclOperation,
    AlterConfig,
    AlterConfigOperation,
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
    CreatedTopic,
    ElectionType,
    EpochEnd,
    FeatureMetadata,
    GroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    IsolationLevel,
    ListedOffset,
    LogDirDescription,
    MemberDescription,
    MemberToRemove,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    PartitionReassignment,
    ProducerIdAndEpoch,
    ProducerState,
    ReplicaInfo,
    ResourceType,
    TopicDescription,
    TopicListing,
    TopicPartitionInfo,
    TransactionDescription,
    TransactionListing,
    TransactionState,
    VersionRange,
)
from ottla.client.aio.group.group import (
    RebalanceListener,
)
from ottla.client.arrow_records import (
    ArrowRecords,
)
from ottla.client.blocking.admin import (
    Admin,
)
from ottla.client.blocking.consumer import (
    Consumer,
)
from ottla.client.blocking.producer import (
    Producer,
)
from ottla.client.delivery import (
    RecordFuture,
    SentRecords,
)
from ottla.client.health import (
    ConsumerHealth,
)
from ottla.client.interceptors import (
    ConsumerInterceptor,
    ProducerInterceptor,
)
from ottla.client.model import (
    ConsumerGroupMetadata,
    ConsumerRecord,
    ConsumerRecords,
    Headers,
    Node,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionInfo,
    ProducerRecord,
    RecordMetadata,
)
from ottla.client.partitioners import (
    Partitioner,
)
from ottla.client.serializers import (
    Deserializer,
    Serializer,
)
from ottla.client.state.metadata import (
    Cluster,
)
from ottla.config.option_types import (
    AdminOptions,
    BrokerOptions,
    ConsumerOptions,
    ProducerOptions,
)
from ottla.errors import (
    AbortableError,
    CommitFailedError,
    ConfigError,
    DeserializationError,
    ErrorCode,
    FatalError,
    IllegalStateError,
    KafkaError,
    LogTruncationError,
    NoOffsetError,
    OffsetOutOfRangeError,
    OttlaError,
    PartialFailureError,
    RetriableError,
    SerializationError,
    TimedOutError,
    TlsError,
    WakeupError,
)
from ottla.model import (
    TopicPartition,
)

__version__: str

__all__ = [
    "AbortTransactionSpec",
    "AbortableError",
    "AclOperation",
    "Admin",
    "AdminOptions",
    "AlterConfig",
    "AlterConfigOperation",
    "ArrowRecords",
    "Broker",
    "BrokerOptions",
    "Cluster",
    "ClusterDescription",
    "CommitFailedError",
    "ConfigEntry",
    "ConfigError",
    "ConfigResource",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerHealth",
    "ConsumerInterceptor",
    "ConsumerOptions",
    "ConsumerRecord",
    "ConsumerRecords",
    "CreatedTopic",
    "DeserializationError",
    "Deserializer",
    "ElectionType",
    "EpochEnd",
    "ErrorCode",
    "FatalError",
    "FeatureMetadata",
    "GroupDescription",
    "GroupListing",
    "GroupState",
    "GroupType",
    "Headers",
    "IllegalStateError",
    "IsolationLevel",
    "KafkaError",
    "ListedOffset",
    "LogDirDescription",
    "LogTruncationError",
    "MemberDescription",
    "MemberToRemove",
    "NewPartitions",
    "NewTopic",
    "NoOffsetError",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetOutOfRangeError",
    "OffsetSpec",
    "OttlaError",
    "PartialFailureError",
    "PartitionInfo",
    "PartitionReassignment",
    "Partitioner",
    "Producer",
    "ProducerIdAndEpoch",
    "ProducerInterceptor",
    "ProducerOptions",
    "ProducerRecord",
    "ProducerState",
    "RebalanceListener",
    "RecordFuture",
    "RecordMetadata",
    "ReplicaInfo",
    "ResourceType",
    "RetriableError",
    "SentRecords",
    "SerializationError",
    "Serializer",
    "TimedOutError",
    "TlsError",
    "TopicDescription",
    "TopicListing",
    "TopicPartition",
    "TopicPartitionInfo",
    "TransactionDescription",
    "TransactionListing",
    "TransactionState",
    "VersionRange",
    "WakeupError",
]
