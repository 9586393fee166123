"""The modules of the names that `ottla` exports; __init__.pyi has the same names for type checkers."""

NAMES = {
    "ottla.broker.embedded": "Broker",
    "ottla.broker.security.embedded_security": "Security",
    "ottla.client.aio.group.rebalance_listener": "RebalanceListener",
    "ottla.client.arrow_records": "ArrowRecords",
    "ottla.client.blocking.admin": "Admin",
    "ottla.client.blocking.consumer": "Consumer",
    "ottla.client.blocking.producer": "Producer",
    "ottla.client.send.delivery": "RecordFuture SentRecords",
    "ottla.client.send.sent_rows": "SentRows WrittenRows",
    "ottla.client.metrics.health": "ConsumerHealth",
    "ottla.client.plugins.interceptors": "ConsumerInterceptor ProducerInterceptor",
    "ottla.client.model": """
        ConsumerGroupMetadata ConsumerRecord ConsumerRecords Headers HeadersToSend Node OffsetAndMetadata
        OffsetAndTimestamp PartitionInfo ProducerRecord RecordMetadata SubscriptionPattern""",
    "ottla.client.plugins.partitioners": "Partitioner",
    "ottla.client.plugins.serializers": "Deserializer Serializer",
    "ottla.client.state.metadata": "ClusterMetadata",
    "ottla.config.option_types": "AdminOptions BrokerOptions ConsumerOptions ProducerOptions",
    "ottla.errors": """
        AbortableError CommitFailedError ConfigError DeserializationError ErrorCode FatalError IllegalStateError
        KafkaError LogTruncationError NoOffsetError OffsetOutOfRangeError OttlaError PartialFailureError RetriableError
        SerializationError TimedOutError TlsError WakeupError""",
    "ottla.model": "TopicPartition",
    "ottla.records.record": "TimestampType",
    "ottla.schemas.registry.embedded": "SchemaRegistry",
}
MODULES = ("admin", "aio", "assignors", "schemas")

ADMIN_NAMES = """
    AbortTransactionSpec AclOperation AlterConfig AlterConfigOperation ClusterDescription ConfigEntry
    ConfigResource ConfigSource ConfigSynonym ConfigType CreatedTopic ElectionType EpochEnd FeatureMetadata
    GroupDescription GroupListing GroupState GroupType IsolationLevel ListedOffset LogDirDescription
    MemberDescription MemberToRemove NewPartitions NewTopic OffsetSpec PartitionReassignment ProducerIdAndEpoch
    ProducerState ReplicaInfo ResourceType TopicDescription TopicListing TopicPartitionInfo TransactionDescription
    TransactionListing TransactionState VersionRange"""
# Former names of `ottla`, and what to write instead.
MOVED = {name: f"ottla.admin.{name}" for name in ADMIN_NAMES.split()} | {
    "Cluster": "ottla.ClusterMetadata"
}
