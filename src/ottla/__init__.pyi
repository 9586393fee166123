"""What `ottla` exports, for type checkers; at run time names are imported on first use."""

from ottla import aio as aio
from ottla import assignors as assignors
from ottla.broker.embedded import (
    Broker as Broker,
)
from ottla.client.admin_model import (
    AbortTransactionSpec as AbortTransactionSpec,
)
from ottla.client.admin_model import (
    AclOperation as AclOperation,
)
from ottla.client.admin_model import (
    AlterConfig as AlterConfig,
)
from ottla.client.admin_model import (
    AlterConfigOperation as AlterConfigOperation,
)
from ottla.client.admin_model import (
    ConfigEntry as ConfigEntry,
)
from ottla.client.admin_model import (
    ConfigResource as ConfigResource,
)
from ottla.client.admin_model import (
    ConfigSource as ConfigSource,
)
from ottla.client.admin_model import (
    ConfigSynonym as ConfigSynonym,
)
from ottla.client.admin_model import (
    ConfigType as ConfigType,
)
from ottla.client.admin_model import (
    CreatedTopic as CreatedTopic,
)
from ottla.client.admin_model import (
    ElectionType as ElectionType,
)
from ottla.client.admin_model import (
    EpochEnd as EpochEnd,
)
from ottla.client.admin_model import (
    GroupDescription as GroupDescription,
)
from ottla.client.admin_model import (
    GroupListing as GroupListing,
)
from ottla.client.admin_model import (
    GroupState as GroupState,
)
from ottla.client.admin_model import (
    GroupType as GroupType,
)
from ottla.client.admin_model import (
    IsolationLevel as IsolationLevel,
)
from ottla.client.admin_model import (
    ListedOffset as ListedOffset,
)
from ottla.client.admin_model import (
    MemberDescription as MemberDescription,
)
from ottla.client.admin_model import (
    MemberToRemove as MemberToRemove,
)
from ottla.client.admin_model import (
    NewPartitions as NewPartitions,
)
from ottla.client.admin_model import (
    NewTopic as NewTopic,
)
from ottla.client.admin_model import (
    OffsetSpec as OffsetSpec,
)
from ottla.client.admin_model import (
    PartitionReassignment as PartitionReassignment,
)
from ottla.client.admin_model import (
    ProducerIdAndEpoch as ProducerIdAndEpoch,
)
from ottla.client.admin_model import (
    ResourceType as ResourceType,
)
from ottla.client.admin_model import (
    TopicDescription as TopicDescription,
)
from ottla.client.admin_model import (
    TopicListing as TopicListing,
)
from ottla.client.admin_model import (
    TopicPartitionInfo as TopicPartitionInfo,
)
from ottla.client.admin_model import (
    TransactionDescription as TransactionDescription,
)
from ottla.client.admin_model import (
    TransactionListing as TransactionListing,
)
from ottla.client.admin_model import (
    TransactionState as TransactionState,
)
from ottla.client.blocking.admin import (
    Admin as Admin,
)
from ottla.client.blocking.consumer import (
    Consumer as Consumer,
)
from ottla.client.blocking.producer import (
    Producer as Producer,
)
from ottla.client.model import (
    ConsumerGroupMetadata as ConsumerGroupMetadata,
)
from ottla.client.model import (
    ConsumerRecord as ConsumerRecord,
)
from ottla.client.model import (
    ConsumerRecords as ConsumerRecords,
)
from ottla.client.model import (
    Headers as Headers,
)
from ottla.client.model import (
    Node as Node,
)
from ottla.client.model import (
    OffsetAndMetadata as OffsetAndMetadata,
)
from ottla.client.model import (
    OffsetAndTimestamp as OffsetAndTimestamp,
)
from ottla.client.model import (
    PartitionInfo as PartitionInfo,
)
from ottla.client.model import (
    ProducerRecord as ProducerRecord,
)
from ottla.client.model import (
    RecordMetadata as RecordMetadata,
)
from ottla.client.state.metadata import (
    Cluster as Cluster,
)
from ottla.errors import (
    AbortableError as AbortableError,
)
from ottla.errors import (
    CommitFailedError as CommitFailedError,
)
from ottla.errors import (
    ConfigError as ConfigError,
)
from ottla.errors import (
    DeserializationError as DeserializationError,
)
from ottla.errors import (
    ErrorCode as ErrorCode,
)
from ottla.errors import (
    FatalError as FatalError,
)
from ottla.errors import (
    IllegalStateError as IllegalStateError,
)
from ottla.errors import (
    KafkaError as KafkaError,
)
from ottla.errors import (
    NoOffsetError as NoOffsetError,
)
from ottla.errors import (
    OttlaError as OttlaError,
)
from ottla.errors import (
    RetriableError as RetriableError,
)
from ottla.errors import (
    SerializationError as SerializationError,
)
from ottla.errors import (
    TimedOutError as TimedOutError,
)
from ottla.errors import (
    WakeupError as WakeupError,
)
from ottla.model import (
    TopicPartition as TopicPartition,
)

__version__: str

__all__ = [
    "AbortTransactionSpec",
    "AbortableError",
    "AclOperation",
    "Admin",
    "AlterConfig",
    "AlterConfigOperation",
    "Broker",
    "Cluster",
    "CommitFailedError",
    "ConfigEntry",
    "ConfigError",
    "ConfigResource",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "ConsumerRecords",
    "CreatedTopic",
    "DeserializationError",
    "ElectionType",
    "EpochEnd",
    "ErrorCode",
    "FatalError",
    "GroupDescription",
    "GroupListing",
    "GroupState",
    "GroupType",
    "Headers",
    "IllegalStateError",
    "IsolationLevel",
    "KafkaError",
    "ListedOffset",
    "MemberDescription",
    "MemberToRemove",
    "NewPartitions",
    "NewTopic",
    "NoOffsetError",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetSpec",
    "OttlaError",
    "PartitionInfo",
    "PartitionReassignment",
    "Producer",
    "ProducerIdAndEpoch",
    "ProducerRecord",
    "RecordMetadata",
    "ResourceType",
    "RetriableError",
    "SerializationError",
    "TimedOutError",
    "TopicDescription",
    "TopicListing",
    "TopicPartition",
    "TopicPartitionInfo",
    "TransactionDescription",
    "TransactionListing",
    "TransactionState",
    "WakeupError",
]
