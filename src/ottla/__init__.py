"""Ottla: exactly-once event streaming for Python and Spark.

import ottla

with ottla.Broker() as broker:
    with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("orders", value=b"one espresso")

The same clients for asyncio are in `ottla.aio`.
"""

# What type checkers read is in __init__.pyi.

from ottla.version import VERSION

__version__ = VERSION

# Where names live. They are imported on first use, so that `import ottla` and the command line start quickly.
_NAMES = {
    "ottla.broker.embedded": "Broker",
    "ottla.client.aio.group": "RebalanceListener",
    "ottla.client.admin_model": """
        AbortTransactionSpec AclOperation AlterConfig AlterConfigOperation ClusterDescription ConfigEntry
        ConfigResource ConfigSource ConfigSynonym ConfigType CreatedTopic ElectionType EpochEnd FeatureMetadata
        GroupDescription GroupListing GroupState GroupType IsolationLevel ListedOffset LogDirDescription
        MemberDescription MemberToRemove NewPartitions NewTopic OffsetSpec PartitionReassignment ProducerIdAndEpoch
        ProducerState ReplicaInfo ResourceType TopicDescription TopicListing TopicPartitionInfo TransactionDescription
        TransactionListing TransactionState VersionRange""",
    "ottla.client.blocking.admin": "Admin",
    "ottla.client.blocking.consumer": "Consumer",
    "ottla.client.blocking.producer": "Producer",
    "ottla.client.model": """
        ConsumerGroupMetadata ConsumerRecord ConsumerRecords Headers Node OffsetAndMetadata OffsetAndTimestamp
        PartitionInfo ProducerRecord RecordMetadata""",
    "ottla.client.state.metadata": "Cluster",
    "ottla.errors": """
        AbortableError CommitFailedError ConfigError DeserializationError ErrorCode FatalError IllegalStateError
        KafkaError NoOffsetError OttlaError PartialFailureError RetriableError SerializationError
        TimedOutError WakeupError""",
    "ottla.model": "TopicPartition",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
_MODULES = ("aio", "assignors")

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"ottla.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'ottla' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, *_MODULES, "__version__", "__doc__"]
