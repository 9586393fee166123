"""The options of a broker, and the effective options of its topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from ottla.config.authorization import (
    CLASS_OPTION,
    OF_AUTHORIZER,
    STANDARD_AUTHORIZER,
    check_authorizer,
    super_user_principals,
)
from ottla.config.listeners import (
    DEFAULT_LISTEN,
    DEFAULT_PROTOCOLS,
    PREFIX,
    ListenerConfig,
    ListenerSettings,
    connections_per_address,
    listeners_of,
    option_of_listener,
)
from ottla.config.options import (
    INT_MAX,
    ConfigOption,
    Importance,
    OptionType,
    Value,
    find_option,
    option,
    options_of,
    read_options,
    value_of,
)
from ottla.config.sasl import is_about_sasl
from ottla.config.topic import TopicConfig
from ottla.config.unsupported_broker_options import UNSUPPORTED_BROKER_OPTIONS
from ottla.errors import ConfigError

EMBEDDED_HEARTBEAT_INTERVAL_MS = 500
DOUBLE_MAX = 1.7976931348623157e308
# Options of which the first must not be larger than the second.
_ORDERED = (
    ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("group.consumer.min.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"),
    ("group.consumer.min.assignment.interval.ms", "group.consumer.assignment.interval.ms"),
    ("group.consumer.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"),
)
_UNIT_MS = {"minutes": 60_000, "hours": 3_600_000}


def _default_of(topic_option: str, **changes: Any) -> Any:
    """Declare a broker option that is the default of a topic option."""
    base = options_of(TopicConfig)[topic_option]
    details: dict[str, Any] = {
        "type": base.type,
        "default": base.default,
        "doc": f"The default of the topic option {topic_option}. {base.doc}",
        "at_least": base.at_least,
        "at_most": base.at_most,
        "also": base.also,
        "choices": base.choices,
        "dynamic": True,
    }
    return option(**(details | changes))


@dataclass(frozen=True)
class BrokerConfig(ListenerConfig):
    """The options of one broker, and of its listeners."""

    kind: ClassVar[str] = "broker option"
    unsupported: ClassVar[Mapping[str, str]] = UNSUPPORTED_BROKER_OPTIONS

    advertised_listeners: tuple[str, ...] | None = option(
        OptionType.LIST,
        None,
        doc="The addresses that clients get, NAME://HOST:PORT with names of listeners; without one, "
        "the clients of a listener get the host that they have connected to.",
        importance=Importance.HIGH,
    )
    allow_everyone_if_no_acl_found: bool = option(
        OptionType.BOOLEAN,
        False,
        doc="Whether everybody may do everything with a resource that has no ACLs; "
        "otherwise only super users may. It needs an authorizer.",
    )
    authorizer_class_name: str = option(
        OptionType.STRING,
        "",
        doc="The authorizer, which decides by ACLs what clients may do: "
        f"{STANDARD_AUTHORIZER}. Without one everybody may do everything.",
        importance=Importance.LOW,
    )
    auto_create_topics_enable: bool = option(
        OptionType.BOOLEAN,
        True,
        doc="Whether a missing topic is created when a client asks for its metadata.",
        importance=Importance.HIGH,
    )
    broker_rack: str | None = option(
        OptionType.STRING,
        None,
        doc="The rack, or availability zone, of this broker, which clients are told. Only brokers that share a "
        "storage are in racks.",
    )
    compression_gzip_level: int = _default_of("compression.gzip.level")
    compression_lz4_level: int = _default_of("compression.lz4.level")
    compression_type: str = _default_of("compression.type", importance=Importance.HIGH)
    compression_zstd_level: int = _default_of("compression.zstd.level")
    connections_max_idle_ms: int = option(
        OptionType.LONG,
        600_000,
        doc="How long a connection may be idle before the broker closes it; a negative value keeps it open.",
    )
    connection_failed_authentication_delay_ms: int = option(
        OptionType.INT,
        100,
        at_least=0,
        doc="How long the answer to a failed login waits. The answers for one address are at least this "
        "far apart, however many connections it uses.",
        importance=Importance.LOW,
    )
    controller_quota_window_num: int = option(
        OptionType.INT,
        11,
        at_least=1,
        doc="The number of windows of quotas on changes of topics: a client may use the quota of all of them at once.",
        importance=Importance.LOW,
    )
    controller_quota_window_size_seconds: int = option(
        OptionType.INT,
        1,
        at_least=1,
        doc="The length of each window of quotas on changes of topics.",
        importance=Importance.LOW,
    )
    default_replication_factor: int = option(
        OptionType.INT,
        1,
        at_least=1,
        doc="The replication factor of topics that are created without one.",
    )
    delete_topic_enable: bool = option(
        OptionType.BOOLEAN,
        True,
        doc="Whether topics can be deleted.",
        importance=Importance.HIGH,
    )
    fetch_max_bytes: int = option(
        OptionType.INT,
        55 * 1024 * 1024,
        at_least=1024,
        doc="The most bytes in the response to one fetch; a first batch that is larger is returned all the same.",
    )
    group_consumer_assignment_interval_ms: int = option(
        OptionType.INT,
        1000,
        at_least=0,
        doc="The least time between two target assignments of a group of the consumer protocol; "
        "members that join within it are assigned together.",
        dynamic=True,
    )
    group_consumer_assignors: tuple[str, ...] = option(
        OptionType.LIST,
        ("uniform", "range"),
        choices=("uniform", "range"),
        doc="The assignors that groups of the consumer protocol can use; "
        "the first is the one of groups whose members name none.",
    )
    group_consumer_heartbeat_interval_ms: int = option(
        OptionType.INT,
        5000,
        at_least=1,
        doc="How often the members of a group of the consumer protocol send heartbeats.",
    )
    group_consumer_max_assignment_interval_ms: int = option(
        OptionType.INT,
        15_000,
        at_least=0,
        doc="The longest interval between assignments that a group may have.",
    )
    group_consumer_max_heartbeat_interval_ms: int = option(
        OptionType.INT,
        15_000,
        at_least=1,
        doc="The longest heartbeat interval that a group of the consumer protocol may have.",
    )
    group_consumer_max_session_timeout_ms: int = option(
        OptionType.INT,
        60_000,
        at_least=1,
        doc="The longest session timeout that a group of the consumer protocol may have.",
    )
    group_consumer_max_size: int = option(
        OptionType.INT,
        INT_MAX,
        at_least=1,
        doc="The most members that a group of the consumer protocol can have.",
    )
    group_consumer_migration_policy: str = option(
        OptionType.STRING,
        "bidirectional",
        choices=("disabled", "upgrade", "downgrade", "bidirectional"),
        ignore_case=True,
        doc="Which groups may change their protocol while they have members: "
        "upgrade is from the classic protocol to the consumer protocol, downgrade the other direction.",
    )
    group_consumer_min_assignment_interval_ms: int = option(
        OptionType.INT,
        0,
        at_least=0,
        doc="The shortest interval between assignments that a group may have.",
    )
    group_consumer_min_heartbeat_interval_ms: int = option(
        OptionType.INT,
        5000,
        at_least=1,
        doc="The shortest heartbeat interval that a group of the consumer protocol may have.",
    )
    group_consumer_min_session_timeout_ms: int = option(
        OptionType.INT,
        45_000,
        at_least=1,
        doc="The shortest session timeout that a group of the consumer protocol may have.",
    )
    group_consumer_regex_refresh_interval_ms: int = option(
        OptionType.INT,
        600_000,
        at_least=10_000,
        doc="How often the topics that match the pattern of a subscription are looked up again; "
        "a change of the topics makes the coordinator look them up at once.",
    )
    group_consumer_session_timeout_ms: int = option(
        OptionType.INT,
        45_000,
        at_least=1,
        doc="How long a member of a group of the consumer protocol may be silent before it is removed.",
    )
    group_coordinator_rebalance_protocols: tuple[str, ...] = option(
        OptionType.LIST,
        ("classic", "consumer"),
        choices=("classic", "consumer"),
        doc="The protocols that groups can use; the classic one cannot be switched off.",
    )
    group_initial_rebalance_delay_ms: int = option(
        OptionType.INT,
        3000,
        # Kafka accepts negative values here and for session timeouts, where they have no meaning.
        at_least=0,
        doc="How long the coordinator of a new group waits for more members after each one that joins.",
    )
    group_max_session_timeout_ms: int = option(
        OptionType.INT,
        1_800_000,
        at_least=0,
        doc="The longest session timeout that a member of a group may ask for.",
    )
    group_max_size: int = option(
        OptionType.INT,
        INT_MAX,
        at_least=1,
        doc="The most members that a group can have.",
    )
    group_min_session_timeout_ms: int = option(
        OptionType.INT,
        6000,
        at_least=0,
        doc="The shortest session timeout that a member of a group may ask for.",
    )
    listener_security_protocol_map: str = option(
        OptionType.STRING,
        DEFAULT_PROTOCOLS,
        doc="The protocol of each listener, NAME:PROTOCOL: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL. "
        "A listener whose name is a protocol needs none.",
    )
    listeners: tuple[str, ...] = option(
        OptionType.LIST,
        (DEFAULT_LISTEN,),
        doc="Where the broker listens, NAME://HOST:PORT; an empty host is every interface.",
        importance=Importance.HIGH,
    )
    log_cleaner_backoff_ms: int = option(
        OptionType.LONG,
        15_000,
        at_least=0,
        doc="How long compaction pauses when no log is dirty enough.",
        dynamic=True,
    )
    log_cleaner_dedupe_buffer_size: int = option(
        OptionType.LONG,
        128 * 1024 * 1024,
        at_least=1,
        doc="How much memory compaction may use for the keys of a log; "
        "if they do not fit, a log is compacted in several passes.",
        dynamic=True,
    )
    log_cleaner_delete_retention_ms: int = _default_of("delete.retention.ms")
    log_cleaner_enable: bool = option(
        OptionType.BOOLEAN,
        True,
        doc="Whether topics with cleanup.policy=compact are compacted.",
    )
    log_cleaner_io_max_bytes_per_second: float = option(
        OptionType.DOUBLE,
        DOUBLE_MAX,
        # Kafka accepts any number; below 1 compaction would never end.
        at_least=1,
        doc="The most bytes that compaction reads and writes in a second, on average.",
        dynamic=True,
    )
    log_cleaner_max_compaction_lag_ms: int = _default_of("max.compaction.lag.ms")
    log_cleaner_min_cleanable_ratio: float = _default_of("min.cleanable.dirty.ratio")
    log_cleaner_min_compaction_lag_ms: int = _default_of("min.compaction.lag.ms")
    log_cleanup_policy: tuple[str, ...] = _default_of("cleanup.policy")
    log_flush_interval_messages: int = _default_of("flush.messages", importance=Importance.HIGH)
    log_flush_interval_ms: int | None = _default_of(
        "flush.ms", default=None, importance=Importance.HIGH
    )
    log_flush_offset_checkpoint_interval_ms: int = option(
        OptionType.INT,
        60_000,
        at_least=0,
        doc="How often the recovery points and log start offsets are written to disk.",
        importance=Importance.HIGH,
    )
    log_flush_scheduler_interval_ms: int = option(
        OptionType.LONG,
        (1 << 63) - 1,
        at_least=1,
        doc="How often the broker checks which logs are due for a flush by flush.ms; "
        "the default of log.flush.interval.ms.",
        importance=Importance.HIGH,
    )
    log_index_interval_bytes: int = _default_of("index.interval.bytes")
    log_index_size_max_bytes: int = _default_of("segment.index.bytes")
    log_message_timestamp_after_max_ms: int = _default_of("message.timestamp.after.max.ms")
    log_message_timestamp_before_max_ms: int = _default_of("message.timestamp.before.max.ms")
    log_message_timestamp_type: str = _default_of("message.timestamp.type")
    log_retention_bytes: int = _default_of("retention.bytes", importance=Importance.HIGH)
    log_retention_check_interval_ms: int = option(
        OptionType.LONG,
        300_000,
        at_least=1,
        doc="How often the broker checks for segments to delete.",
    )
    log_retention_hours: int = _default_of(
        "retention.ms",
        type=OptionType.INT,
        default=168,
        doc="How many hours records are kept; log.retention.ms and log.retention.minutes take precedence.",
        dynamic=False,
        importance=Importance.HIGH,
    )
    log_retention_minutes: int | None = _default_of(
        "retention.ms",
        type=OptionType.INT,
        default=None,
        doc="How many minutes records are kept; log.retention.ms takes precedence.",
        dynamic=False,
        importance=Importance.HIGH,
    )
    log_retention_ms: int | None = _default_of(
        "retention.ms", default=None, importance=Importance.HIGH
    )
    log_roll_hours: int = _default_of(
        "segment.ms",
        type=OptionType.INT,
        default=168,
        doc="The age in hours at which a segment is closed; log.roll.ms takes precedence.",
        dynamic=False,
        importance=Importance.HIGH,
    )
    log_roll_jitter_hours: int = _default_of(
        "segment.jitter.ms",
        type=OptionType.INT,
        doc="The largest random time in hours by which log.roll.hours is shortened; "
        "log.roll.jitter.ms takes precedence.",
        dynamic=False,
        importance=Importance.HIGH,
    )
    log_roll_jitter_ms: int | None = _default_of(
        "segment.jitter.ms", default=None, importance=Importance.HIGH
    )
    log_roll_ms: int | None = _default_of("segment.ms", default=None, importance=Importance.HIGH)
    log_segment_bytes: int = _default_of("segment.bytes", importance=Importance.HIGH)
    log_segment_delete_delay_ms: int = _default_of(
        "file.delete.delay.ms", importance=Importance.HIGH
    )
    max_connections_per_ip: int = option(
        OptionType.INT,
        INT_MAX,
        at_least=0,
        doc="The most connections that the broker keeps open from one address; 0 needs exceptions "
        "in max.connections.per.ip.overrides.",
        dynamic=True,
    )
    max_connections_per_ip_overrides: str = option(
        OptionType.STRING,
        "",
        doc="Addresses with another max.connections.per.ip: 10.0.0.1:100,10.0.0.2:5.",
        dynamic=True,
    )
    max_incremental_fetch_session_cache_slots: int = option(
        OptionType.INT,
        1000,
        at_least=0,
        doc="How many incremental fetch sessions (KIP-227) the broker keeps.",
    )
    message_max_bytes: int = _default_of("max.message.bytes", importance=Importance.HIGH)
    min_insync_replicas: int = _default_of("min.insync.replicas", importance=Importance.HIGH)
    node_id: int = option(
        OptionType.INT,
        1,
        at_least=0,
        doc="The id by which clients and the cluster know this broker.",
        importance=Importance.HIGH,
        aliases=("broker.id",),
    )
    num_partitions: int = option(
        OptionType.INT,
        1,
        at_least=1,
        doc="The number of partitions of topics that are created without one.",
    )
    offset_metadata_max_bytes: int = option(
        OptionType.INT,
        4096,
        at_least=0,
        doc="The most bytes of metadata that a committed offset may have.",
        importance=Importance.HIGH,
    )
    offsets_commit_timeout_ms: int = option(
        OptionType.INT,
        5000,
        at_least=1,
        doc="How long an offset commit may wait until it is durable.",
        importance=Importance.HIGH,
    )
    offsets_load_buffer_size: int = option(
        OptionType.INT,
        5 * 1024 * 1024,
        at_least=1,
        doc="How many bytes of the offsets topic are read at a time when groups are loaded.",
        importance=Importance.HIGH,
    )
    offsets_retention_check_interval_ms: int = option(
        OptionType.LONG,
        600_000,
        at_least=1,
        doc="How often the broker checks for committed offsets that have expired.",
        importance=Importance.HIGH,
    )
    offsets_retention_minutes: int = option(
        OptionType.INT,
        7 * 24 * 60,
        at_least=1,
        doc="How many minutes a committed offset is kept after its group became empty, "
        "or after the commit if the group is not subscribed to the topic.",
        importance=Importance.HIGH,
    )
    offsets_topic_compression_codec: int = option(
        OptionType.INT,
        0,
        at_least=0,
        at_most=4,
        doc="The codec of the batches in the offsets topic: "
        "0 for none, 1 for gzip, 2 for snappy, 3 for lz4, 4 for zstd.",
        importance=Importance.HIGH,
    )
    offsets_topic_num_partitions: int = option(
        OptionType.INT,
        50,
        at_least=1,
        doc="How many partitions the offsets topic gets when it is created; "
        "a group belongs to one of them, so their number cannot change later.",
        importance=Importance.HIGH,
    )
    offsets_topic_replication_factor: int = option(
        OptionType.SHORT,
        3,
        at_least=1,
        doc="The replication factor of the offsets topic; lower if there are fewer brokers.",
        importance=Importance.HIGH,
    )
    offsets_topic_segment_bytes: int = option(
        OptionType.INT,
        100 * 1024 * 1024,
        # Kafka accepts 1 here, which is below the minimum of segment.bytes.
        at_least=options_of(TopicConfig)["segment.bytes"].at_least,
        doc="The size at which a segment of the offsets topic is closed.",
        importance=Importance.HIGH,
    )
    ottla_ephemeral_max_bytes: int = option(
        OptionType.LONG,
        1 << 30,
        at_least=1,
        doc="The most bytes of records that the memory engine holds.",
    )
    ottla_peer_advertised_listener: str = option(
        OptionType.STRING,
        "",
        doc="HOST:PORT where other brokers of the same storage reach this one; by default its own port for them, at "
        "the host that clients get.",
    )
    ottla_peer_listener: str = option(
        OptionType.STRING,
        "",
        doc="HOST:PORT where this broker listens for other brokers of the same storage; by default any port at the "
        "host of the first listener. Links are encrypted, and both ends prove which broker they are.",
    )
    producer_id_expiration_check_interval_ms: int = option(
        OptionType.INT,
        600_000,
        at_least=1,
        doc="How often the broker checks for producer ids that have expired.",
        importance=Importance.LOW,
    )
    producer_id_expiration_ms: int = option(
        OptionType.INT,
        86_400_000,
        at_least=1,
        doc="How long a partition remembers a producer id after its last write.",
        importance=Importance.LOW,
        dynamic=True,
    )
    quota_window_num: int = option(
        OptionType.INT,
        11,
        at_least=1,
        doc="The number of windows over which the rates of clients with quotas are measured.",
        importance=Importance.LOW,
    )
    quota_window_size_seconds: int = option(
        OptionType.INT,
        1,
        at_least=1,
        doc="The length of each window over which the rates of clients with quotas are measured.",
        importance=Importance.LOW,
    )
    socket_request_max_bytes: int = option(
        OptionType.INT,
        100 * 1024 * 1024,
        at_least=1,
        doc="The largest request that is accepted.",
        importance=Importance.HIGH,
    )
    super_users: str = option(
        OptionType.STRING,
        "",
        doc="The principals that may do everything, whatever ACLs say, separated by semicolons: "
        "User:admin;User:CN=ops,O=Example. It needs an authorizer.",
    )
    telemetry_max_bytes: int = option(
        OptionType.INT,
        1 << 20,
        at_least=1,
        doc="The most bytes of metrics that a client may push at once, compressed or not.",
        importance=Importance.LOW,
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = option(
        OptionType.INT,
        10_000,
        at_least=1,
        doc="How often the broker checks for transactions that have timed out, and aborts them.",
        importance=Importance.LOW,
    )
    transaction_max_timeout_ms: int = option(
        OptionType.INT,
        900_000,
        at_least=1,
        doc="The longest transaction timeout that a producer may ask for.",
        importance=Importance.HIGH,
        aliases=("max.transaction.timeout.ms",),  # its name in KIP-98
    )
    transaction_partition_verification_enable: bool = option(
        OptionType.BOOLEAN,
        True,
        doc="Whether the first write of a transaction to a partition waits until the coordinator "
        "confirms that the partition belongs to it (KIP-890).",
        importance=Importance.LOW,
        dynamic=True,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = option(
        OptionType.INT,
        3_600_000,
        at_least=1,
        doc="How often the broker checks for transactional ids that have expired.",
        importance=Importance.LOW,
    )
    transaction_state_log_load_buffer_size: int = option(
        OptionType.INT,
        5 * 1024 * 1024,
        at_least=1,
        doc="How many bytes of the transactions topic are read at a time when it is loaded.",
        importance=Importance.HIGH,
    )
    transaction_state_log_min_isr: int = option(
        OptionType.INT,
        2,
        at_least=1,
        doc="The min.insync.replicas of the transactions topic; lower if there are fewer brokers.",
        importance=Importance.HIGH,
    )
    transaction_state_log_num_partitions: int = option(
        OptionType.INT,
        50,
        at_least=1,
        doc="How many partitions the transactions topic gets when it is created; "
        "a transactional id belongs to one of them, so their number cannot change later.",
        importance=Importance.HIGH,
    )
    transaction_state_log_replication_factor: int = option(
        OptionType.SHORT,
        3,
        at_least=1,
        doc="The replication factor of the transactions topic; lower if there are fewer brokers.",
        importance=Importance.HIGH,
    )
    transaction_state_log_segment_bytes: int = option(
        OptionType.INT,
        100 * 1024 * 1024,
        # Kafka accepts 1 here, which is below the minimum of segment.bytes.
        at_least=options_of(TopicConfig)["segment.bytes"].at_least,
        doc="The size at which a segment of the transactions topic is closed.",
        importance=Importance.HIGH,
    )
    transactional_id_expiration_ms: int = option(
        OptionType.INT,
        604_800_000,
        at_least=1,
        doc="How long a transactional id is kept after its last transaction.",
        importance=Importance.HIGH,
        aliases=("transactional.id.timeout.ms",),  # its name in KIP-98
    )

    def validate(self) -> None:
        """Check the rules between options."""
        self._check_authorization()
        for smaller, larger in _ORDERED:
            low, high = value_of(self, smaller), value_of(self, larger)
            if low > high:
                raise ConfigError(
                    f"{smaller} ({low}) is above {larger} ({high}): lower it or raise the other"
                )
        heartbeat_ms = self.group_consumer_heartbeat_interval_ms
        session_ms = self.group_consumer_session_timeout_ms
        if heartbeat_ms >= session_ms:
            raise ConfigError(
                f"group.consumer.heartbeat.interval.ms ({heartbeat_ms}) is not below "
                f"group.consumer.session.timeout.ms ({session_ms}): lower it or raise the other"
            )
        if "classic" not in self.group_coordinator_rebalance_protocols:
            raise ConfigError(
                "group.coordinator.rebalance.protocols must have classic, which cannot be switched off"
            )
        if not self.group_consumer_assignors:
            raise ConfigError("group.consumer.assignors must name at least one assignor")
        self._check_listeners()
        name, value = inherited(self, "retention.ms")
        if value == 0:
            raise ConfigError(f"{name}=0 would keep nothing: give at least 1, or -1 for ever")

    # Listeners.

    @classmethod
    def scoped_option(cls, name: str) -> ConfigOption | None:
        return option_of_listener(name)

    @property
    def all_listeners(self) -> tuple[ListenerSettings, ...]:
        """The listeners, in the order in which they are given."""
        return listeners_of(
            self.listeners, self.advertised_listeners, self.listener_security_protocol_map
        )

    def of_listener(self, name: str) -> ListenerConfig:
        """The options of a listener: its own, else those of the broker."""
        values: dict[str, Any] = {
            option_name: value_of(self, option_name) for option_name in options_of(ListenerConfig)
        }
        prefix = f"{PREFIX}{name.lower()}."
        for full_name, value in self.scoped.items():
            if full_name.startswith(prefix):
                values[full_name.removeprefix(prefix)] = value
        return ListenerConfig.read(values)

    def _check_listeners(self) -> None:
        listeners = self.all_listeners
        for listener in listeners:
            self.of_listener(listener.name).check_for(listener)
        for name in sorted(self.scoped):
            owner = name.removeprefix(PREFIX).partition(".")[0]
            found = [each for each in listeners if each.name.lower() == owner]
            if not found:
                raise ConfigError(f"{name}: listeners has no {owner.upper()}")
            self._check_has_effect(name, name.removeprefix(f"{PREFIX}{owner}."), found)
        for name in sorted(self.given):
            self._check_has_effect(name, name, listeners)
        overrides = connections_per_address(self.max_connections_per_ip_overrides)
        if not self.max_connections_per_ip and not overrides:
            raise ConfigError(
                "max.connections.per.ip=0 would refuse every client: give at least 1, "
                "or exceptions in max.connections.per.ip.overrides"
            )

    def _check_has_effect(
        self, name: str, option_name: str, listeners: Sequence[ListenerSettings]
    ) -> None:
        """Refuses an option of TLS or SASL where no listener speaks it."""
        if option_name.startswith("ssl.") and not any(each.uses_tls for each in listeners):
            raise ConfigError(
                f"{name} has no effect: {listeners[0].name} has the protocol "
                f"{listeners[0].protocol}. Use SSL or SASL_SSL, or remove the option"
            )
        if is_about_sasl(option_name) and not any(each.uses_sasl for each in listeners):
            raise ConfigError(
                f"{name} has no effect: {listeners[0].name} has the protocol "
                f"{listeners[0].protocol}. Use SASL_PLAINTEXT or SASL_SSL, or remove the option"
            )

    def _check_authorization(self) -> None:
        check_authorizer(self.authorizer_class_name)
        super_user_principals(self.super_users)
        without_effect = [name for name in OF_AUTHORIZER if value_of(self, name)]
        if without_effect and not self.authorizer_class_name:
            raise ConfigError(
                f"{without_effect[0]} has no effect without an authorizer: "
                f"add {CLASS_OPTION}={STANDARD_AUTHORIZER}, or remove it"
            )


class Inherited(NamedTuple):
    """The broker option that sets the default of a topic option, and its value."""

    name: str
    value: Value


def inherited(broker: BrokerConfig, topic_option: str) -> Inherited:
    """The value of a topic option that the topic does not set itself."""
    known = options_of(TopicConfig)[topic_option]
    # The synonyms of an option without effect are not supported either: it has its default.
    for name in known.synonyms if known.has_effect else ():
        value = value_of(broker, name)
        if value is not None:
            return Inherited(name, _in_topic_units(name, value))
    assert known.default is not None, f"{topic_option} has no default"
    return Inherited(topic_option, known.default)


def _in_topic_units(name: str, value: Value) -> Value:
    unit_ms = _UNIT_MS.get(name.rpartition(".")[2])
    if unit_ms is None or not isinstance(value, int):
        return value
    # -1 means no limit in every unit.
    return value * unit_ms if value >= 0 else -1


def topic_config(broker: BrokerConfig, overrides: Mapping[str, object]) -> TopicConfig:
    """The effective options of a topic: its own, else those of the broker."""
    own = read_options(TopicConfig, overrides)
    fields: dict[str, Any] = {
        known.field_name: own[name] if name in own else inherited(broker, name).value
        for name, known in options_of(TopicConfig).items()
    }
    return TopicConfig(**fields)


class DynamicOptions(NamedTuple):
    """Broker options that were altered at run time: for all brokers, and for this one."""

    of_cluster: Mapping[str, str]
    of_node: Mapping[str, str]


NOTHING_DYNAMIC = DynamicOptions({}, {})


def with_dynamic(static: BrokerConfig, dynamic: DynamicOptions) -> BrokerConfig:
    """The effective options of a broker: those altered at run time, else those it was started with."""
    altered = {**dynamic.of_cluster, **dynamic.of_node}
    for name in altered:
        if not find_option(BrokerConfig, name).dynamic:
            raise ConfigError(f"{name} cannot be altered: set it when the broker starts")
    return BrokerConfig.read({**static.texts(), **altered})


def with_embedded_defaults(given: Mapping[str, object]) -> dict[str, object]:
    """The options of a broker for one program or its tests: groups change without the waits that spare large groups.

    Kafka's 3 s before the first rebalance, and heartbeats every 5 s, by which members of the consumer protocol learn
    of a rebalance, would just make every small group slower.
    """
    options: dict[str, object] = {"group.initial.rebalance.delay.ms": 0, **given}
    if not any(name.endswith("assignment.interval.ms") for name in given):
        options["group.consumer.assignment.interval.ms"] = 0
    if not any(name.startswith("group.consumer.") and "heartbeat" in name for name in given):
        options["group.consumer.heartbeat.interval.ms"] = EMBEDDED_HEARTBEAT_INTERVAL_MS
        options["group.consumer.min.heartbeat.interval.ms"] = EMBEDDED_HEARTBEAT_INTERVAL_MS
    return options
