"""What `ottla` exports, for type checkers; at run time names are imported on first use."""

from ottla import admin as admin
from ottla import aio as aio
from ottla import assignors as assignors
from ottla import schemas as schemas
from ottla.broker.embedded import (
    Broker,
)
from ottla.broker.security.embedded_security import (
    Security,
)
from ottla.client.aio.group.rebalance_listener import (
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
from ottla.client.metrics.health import (
    ConsumerHealth,
)
from ottla.client.model import (
    ConsumerGroupMetadata,
    ConsumerRecord,
    ConsumerRecords,
    Headers,
    HeadersToSend,
    Node,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionInfo,
    ProducerRecord,
    RecordMetadata,
    SubscriptionPattern,
)
from ottla.client.plugins.interceptors import (
    ConsumerInterceptor,
    ProducerInterceptor,
)
from ottla.client.plugins.partitioners import (
    Partitioner,
)
from ottla.client.plugins.serializers import (
    Deserializer,
    Serializer,
)
from ottla.client.send.delivery import (
    RecordFuture,
    SentRecords,
)
from ottla.client.send.sent_rows import (
    SentRows,
    WrittenRows,
)
from ottla.client.state.metadata import (
    ClusterMetadata,
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
from ottla.records.record import (
    TimestampType,
)
from ottla.schemas.registry.embedded import (
    SchemaRegistry,
)

__version__: str

__all__ = [
    "AbortableError",
    "Admin",
    "AdminOptions",
    "ArrowRecords",
    "Broker",
    "BrokerOptions",
    "ClusterMetadata",
    "CommitFailedError",
    "ConfigError",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerHealth",
    "ConsumerInterceptor",
    "ConsumerOptions",
    "ConsumerRecord",
    "ConsumerRecords",
    "DeserializationError",
    "Deserializer",
    "ErrorCode",
    "FatalError",
    "Headers",
    "HeadersToSend",
    "IllegalStateError",
    "KafkaError",
    "LogTruncationError",
    "NoOffsetError",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetOutOfRangeError",
    "OttlaError",
    "PartialFailureError",
    "PartitionInfo",
    "Partitioner",
    "Producer",
    "ProducerInterceptor",
    "ProducerOptions",
    "ProducerRecord",
    "RebalanceListener",
    "RecordFuture",
    "RecordMetadata",
    "RetriableError",
    "SchemaRegistry",
    "Security",
    "SentRecords",
    "SentRows",
    "SerializationError",
    "Serializer",
    "SubscriptionPattern",
    "TimedOutError",
    "TimestampType",
    "TlsError",
    "TopicPartition",
    "WakeupError",
    "WrittenRows",
]
