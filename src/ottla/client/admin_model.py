"""What the admin client takes and gives: plain values, named as in Kafka's Admin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import NamedTuple
from uuid import UUID

from ottla.client.model import Node
from ottla.config.options import ConfigSource
from ottla.errors import KafkaError
from ottla.model import TopicPartition


class AclOperation(IntEnum):
    """What somebody may be allowed to do with a resource (KIP-430), as numbered by Kafka."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


# Topics and partitions


def check_config_value(name: str, value: object) -> None:
    """Refuse what is not as the protocol has it."""
    if value is not None and not isinstance(value, str):
        text = str(value).lower() if isinstance(value, bool) else str(value)
        raise TypeError(f"the value of the config {name} is text: write {text!r}")


@dataclass(frozen=True)
class NewTopic:
    """A topic to create; None leaves a number to the broker's defaults (Kafka 2.4 or later).

    `replicas_assignments` gives the replicas of each partition, instead of the two numbers.
    """

    name: str
    num_partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, str | None] = field(default_factory=dict)
    replicas_assignments: Mapping[int, Sequence[int]] | None = None

    def __post_init__(self) -> None:
        counts = (self.num_partitions, self.replication_factor)
        if self.replicas_assignments is not None and counts != (None, None):
            raise ValueError(
                f"topic {self.name!r} has replicas_assignments: leave out num_partitions and replication_factor"
            )
        for name, value in self.configs.items():
            check_config_value(name, value)


@dataclass(frozen=True)
class CreatedTopic:
    """A topic that was created, or would be; brokers before Kafka 2.4 say nothing about it."""

    name: str
    topic_id: UUID | None = None
    num_partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, ConfigEntry] | None = None


@dataclass(frozen=True)
class TopicListing:
    """A topic in the list of topics."""

    name: str
    topic_id: UUID | None
    is_internal: bool


@dataclass(frozen=True)
class TopicPartitionInfo:
    """A partition of a described topic; eligible leader replicas are KIP-966."""

    partition: int
    leader: Node | None
    replicas: tuple[Node, ...]
    in_sync_replicas: tuple[Node, ...]
    offline_replicas: tuple[Node, ...] = ()
    leader_epoch: int | None = None
    eligible_leader_replicas: tuple[Node, ...] | None = None
    last_known_eligible_leader_replicas: tuple[Node, ...] | None = None


@dataclass(frozen=True)
class TopicDescription:
    """A topic and its partitions, in their order."""

    name: str
    topic_id: UUID | None
    is_internal: bool
    partitions: tuple[TopicPartitionInfo, ...]
    authorized_operations: frozenset[AclOperation] | None = None


@dataclass(frozen=True)
class NewPartitions:
    """How many partitions a topic shall have, and the replicas of those that are new."""

    total_count: int
    new_assignments: Sequence[Sequence[int]] | None = None


class ElectionType(IntEnum):
    """Which replicas may be elected (KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True)
class PartitionReassignment:
    """A move of replicas that is under way (KIP-455)."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


# Configs


class ResourceType(IntEnum):
    """What has configs, as numbered by Kafka."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """A thing that has configs; a broker's name is its id, and "" is the default of all brokers."""

    type: ResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        """The configs of a topic."""
        return cls(ResourceType.TOPIC, name)

    @classmethod
    def broker(cls, node_id: int) -> ConfigResource:
        """The configs of one broker."""
        return cls(ResourceType.BROKER, str(node_id))

    @classmethod
    def all_brokers(cls) -> ConfigResource:
        """The dynamic defaults of all brokers."""
        return cls(ResourceType.BROKER, "")

    @classmethod
    def group(cls, group_id: str) -> ConfigResource:
        """The configs of a group (KIP-848)."""
        return cls(ResourceType.GROUP, group_id)

    def __str__(self) -> str:
        return f"{self.type.name.lower()} {self.name or '(default)'}"


class ConfigType(IntEnum):
    """The type of a config's value, as numbered by Kafka; brokers before 2.6 do not say it."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9

    @classmethod
    def _missing_(cls, value: object) -> ConfigType:
        """A newer Kafka may have more of them."""
        return cls.UNKNOWN


@dataclass(frozen=True)
class ConfigSynonym:
    """A config that gives, or would give, another its value; the strongest comes first."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True)
class ConfigEntry:
    """A config and its value; what is sensitive has none."""

    name: str
    value: str | None
    source: ConfigSource = ConfigSource.UNKNOWN
    is_sensitive: bool = False
    is_read_only: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()
    type: ConfigType = ConfigType.UNKNOWN
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """Whether nobody set it."""
        return self.source is ConfigSource.DEFAULT_CONFIG


class AlterConfigOperation(IntEnum):
    """What to do with a config (KIP-339); the last two are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True)
class AlterConfig:
    """A change of one config; deleting gives back the default."""

    name: str
    value: str | None = None
    operation: AlterConfigOperation = AlterConfigOperation.SET

    def __post_init__(self) -> None:
        check_config_value(self.name, self.value)


# Groups


class GroupState(StrEnum):
    """The state of a group, as brokers write it."""

    UNKNOWN = "Unknown"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"


class GroupType(StrEnum):
    """Which protocol a group follows (KIP-848), as brokers write it."""

    UNKNOWN = "Unknown"
    CLASSIC = "Classic"
    CONSUMER = "Consumer"
    SHARE = "Share"
    STREAMS = "Streams"


@dataclass(frozen=True)
class GroupListing:
    """A group in the list of groups; older brokers do not say its state or type."""

    group_id: str
    protocol_type: str
    state: GroupState | None = None
    type: GroupType | None = None

    @property
    def is_simple_consumer_group(self) -> bool:
        """Whether it only keeps offsets, of consumers that assign partitions themselves."""
        return not self.protocol_type


@dataclass(frozen=True)
class MemberDescription:
    """A member of a group; `assignment` is what the consumer protocol says, if the group uses it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...] = ()
    member_metadata: bytes = field(default=b"", repr=False)
    member_assignment: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class GroupDescription:
    """A group, its members and what each was assigned."""

    group_id: str
    protocol_type: str
    state: GroupState
    members: tuple[MemberDescription, ...]
    partition_assignor: str
    coordinator: Node
    type: GroupType = GroupType.CLASSIC
    authorized_operations: frozenset[AclOperation] | None = None

    @property
    def is_simple_consumer_group(self) -> bool:
        """Whether it only keeps offsets, of consumers that assign partitions themselves."""
        return not self.protocol_type


class MemberToRemove(NamedTuple):
    """A member to remove from a group: by instance id, or by member id (Kafka 2.4 or later)."""

    group_instance_id: str | None = None
    member_id: str = ""


# Offsets


class OffsetSpec(IntEnum):
    """Which offset is asked for; a number from 0 on means: the first record at or after that time in ms."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


class IsolationLevel(IntEnum):
    """Up to where "latest" goes: to the high watermark, or to the last stable offset."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@dataclass(frozen=True)
class ListedOffset:
    """An offset that was asked for; -1 if there is no such record."""

    offset: int
    timestamp_ms: int
    leader_epoch: int | None = None

    @property
    def timestamp(self) -> int:
        """The same as `timestamp_ms`, which is preferred: its name has the unit."""
        return self.timestamp_ms


@dataclass(frozen=True)
class EpochEnd:
    """Where the records of a leader epoch end (exclusive); -1 where the leader does not know the epoch."""

    leader_epoch: int
    end_offset: int


# Transactions and producers


class TransactionState(StrEnum):
    """The state of a transactional id, as brokers write it."""

    UNKNOWN = "Unknown"
    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


@dataclass(frozen=True)
class TransactionListing:
    """A transactional id in the list of them."""

    transactional_id: str
    producer_id: int
    state: TransactionState
    coordinator_id: int | None = None


@dataclass(frozen=True)
class TransactionDescription:
    """What the coordinator knows of a transactional id."""

    coordinator_id: int
    state: TransactionState
    producer_id: int
    producer_epoch: int
    transaction_timeout_ms: int
    transaction_start_time_ms: int | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True)
class AbortTransactionSpec:
    """Which transaction to abort on a partition: what `describe_producers` says of its producer."""

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


class ProducerIdAndEpoch(NamedTuple):
    """A producer's identity; older epochs are fenced."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True)
class ProducerState:
    """A producer that a partition remembers; None where it has no transaction open, or never had one."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int | None
    current_transaction_start_offset: int | None

    @property
    def last_timestamp(self) -> int:
        """The same as `last_timestamp_ms`, which is preferred: its name has the unit."""
        return self.last_timestamp_ms


# The cluster


@dataclass(frozen=True)
class ClusterDescription:
    """The brokers, and which of them is the controller."""

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
    """A log directory of a broker; brokers before Kafka 3.3 do not say how large its disk is."""

    error: KafkaError | None
    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int | None = None
    usable_bytes: int | None = None


class VersionRange(NamedTuple):
    """Versions from the first to the last, both included."""

    min_version: int
    max_version: int


@dataclass(frozen=True)
class FeatureMetadata:
    """The features of a cluster (KIP-584)."""

    finalized_features: Mapping[str, VersionRange]
    supported_features: Mapping[str, VersionRange]
    finalized_features_epoch: int | None
