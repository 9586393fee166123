"""The options that are given as keywords, for type checkers and editors.

Generated from the declarations by `python -m ottla.config.typed_options`: change those, not this module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias, TypedDict

if TYPE_CHECKING:
    # Python has defaults of type variables from 3.13 on; type checkers know them before.
    from typing_extensions import TypeVar

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
T_co = TypeVar("T_co", covariant=True)


class ReadsBytes(Protocol[T_co]):
    """A deserializer that says what it makes of bytes, and of None."""

    def deserialize(self, topic: str, headers: Any, data: Any, /) -> T_co:
        """The value of bytes; that of None is None."""


# What a function returns is not taken for the type of keys or values: those may also be None, which it never sees.
DeserializerOf: TypeAlias = str | ReadsBytes[T_co] | type[ReadsBytes[T_co]] | Callable[[bytes], Any]


SecurityProtocolWord: TypeAlias = Literal[
    "PLAINTEXT",
    "plaintext",
    "SSL",
    "ssl",
    "SASL_PLAINTEXT",
    "sasl_plaintext",
    "SASL_SSL",
    "sasl_ssl",
]

SslProtocolWord: TypeAlias = Literal[
    "TLSv1.2",
    "TLSv1.3",
]

SslEndpointIdentificationAlgorithmWord: TypeAlias = Literal[
    "https",
    "HTTPS",
    "",
]

ClientDnsLookupWord: TypeAlias = Literal[
    "use_all_dns_ips",
    "resolve_canonical_bootstrap_servers_only",
]

MetadataRecoveryStrategyWord: TypeAlias = Literal[
    "rebootstrap",
    "REBOOTSTRAP",
    "none",
    "NONE",
]

AcksWord: TypeAlias = Literal[
    "all",
    "-1",
    "0",
    "1",
    -1,
    0,
    1,
]

CompressionTypeWord: TypeAlias = Literal[
    "none",
    "gzip",
    "snappy",
    "lz4",
    "zstd",
]

GroupProtocolWord: TypeAlias = Literal[
    "classic",
    "CLASSIC",
    "consumer",
    "CONSUMER",
]

IsolationLevelWord: TypeAlias = Literal[
    "read_committed",
    "read_uncommitted",
]

BrokerCompressionTypeWord: TypeAlias = Literal[
    "uncompressed",
    "zstd",
    "lz4",
    "snappy",
    "gzip",
    "producer",
]

LogMessageTimestampTypeWord: TypeAlias = Literal[
    "CreateTime",
    "LogAppendTime",
]


class ClientOptions(TypedDict, total=False):
    """The options that all clients share."""

    security_protocol: SecurityProtocolWord | None
    """Whether connections are encrypted (SSL) and whether the client says who it is (SASL)."""

    sasl_mechanism: str | None
    """How the client says who it is: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER. The
    default is Kafka's and not available: a SASL protocol needs this option.
    """

    sasl_jaas_config: str | None
    """Name and password for PLAIN and SCRAM, as Kafka's clients take them: the login module with
    its options.
    """

    sasl_username: str | None
    """The name for PLAIN and SCRAM, in place of sasl.jaas.config."""

    sasl_password: str | None
    """The password for PLAIN and SCRAM, in place of sasl.jaas.config."""

    sasl_login_callback_handler_class: object
    """A callable without arguments that returns a token for OAUTHBEARER, or its dotted path. It is
    called whenever a connection authenticates, and may be a coroutine function.
    """
    sasl_oauthbearer_token_callback: object
    """Another name of sasl.login.callback.handler.class."""

    ssl_protocol: SslProtocolWord | None
    """The highest version of TLS that is used."""

    ssl_enabled_protocols: str | list[str] | tuple[str, ...] | None
    """The versions of TLS that are used."""

    ssl_cipher_suites: str | list[str] | tuple[str, ...] | None
    """The cipher suites of TLS 1.2 that are used, by their names in Java or OpenSSL; TLS 1.3 has to
    be off.
    """

    ssl_endpoint_identification_algorithm: SslEndpointIdentificationAlgorithmWord | None
    """https checks that the broker's certificate is for its host name; an empty text leaves that
    out.
    """

    ssl_truststore_type: str | None
    """The format of the trust store: PEM."""

    ssl_truststore_location: str | None
    """A PEM file with the certificates that are trusted; without it, and without
    ssl.truststore.certificates, those of the operating system are.
    """

    ssl_truststore_certificates: str | None
    """The certificates that are trusted, as PEM text."""

    ssl_keystore_type: str | None
    """The format of the key store: PEM."""

    ssl_keystore_location: str | None
    """A PEM file with the client's private key and its certificate chain."""

    ssl_keystore_key: str | None
    """The client's private key, as PEM text."""

    ssl_keystore_certificate_chain: str | None
    """The client's certificate chain, as PEM text."""

    ssl_key_password: str | None
    """The password of the client's private key, if it is encrypted."""

    bootstrap_servers: str | list[str] | tuple[str, ...] | None
    """Brokers to start from, as HOST:PORT; a few are enough, they name the others."""

    client_dns_lookup: ClientDnsLookupWord | None
    """What is done with a host name that has several addresses: try them one after the other, or
    replace each bootstrap server by the names that its addresses have.
    """

    client_id: str | None
    """The name under which brokers log the client; without one it gets a name with a number."""

    connections_max_idle_ms: int | None
    """How long a connection may be idle before it is closed; -1 keeps it."""

    enable_metrics_push: bool | None
    """Whether metrics are sent to the brokers (KIP-714), which is not available: false."""

    metadata_max_age_ms: int | None
    """How old the metadata of the cluster may become before it is asked for again."""

    metadata_recovery_rebootstrap_trigger_ms: int | None
    """How long no known broker may answer for metadata before the client starts again from
    bootstrap.servers (KIP-1102).
    """

    metadata_recovery_strategy: MetadataRecoveryStrategyWord | None
    """What happens when no known broker can be reached: rebootstrap starts again from
    bootstrap.servers (KIP-899), none goes on trying.
    """

    receive_buffer_bytes: int | None
    """The size of the receive buffer of sockets; -1 leaves it to the operating system."""

    reconnect_backoff_max_ms: int | None
    """The longest pause between attempts to connect to a broker; pauses double up to it."""

    reconnect_backoff_ms: int | None
    """The first pause between attempts to connect to a broker."""

    request_timeout_ms: int | None
    """How long the client waits for the answer to a request before it tries again or fails."""

    retry_backoff_max_ms: int | None
    """The longest pause before a request is repeated; pauses double up to it."""

    retry_backoff_ms: int | None
    """The first pause before a request is repeated."""

    send_buffer_bytes: int | None
    """The size of the send buffer of sockets; -1 leaves it to the operating system."""

    socket_connection_setup_timeout_max_ms: int | None
    """The longest time for a connection to be made; each failure in a row doubles it."""

    socket_connection_setup_timeout_ms: int | None
    """How long the first attempt to make a connection may take."""


class ProducerOptions(ClientOptions, total=False):
    """The options of `ottla.Producer` and `ottla.aio.Producer`."""

    acks: AcksWord | None
    """Whose word makes a record sent: nobody's (0), the leader's (1), or that of all in-sync
    replicas (all).
    """

    batch_size: int | None
    """How many bytes of records for a partition are gathered in one batch; a larger record gets a
    batch of its own, and 0 gives every record one.
    """

    buffer_memory: int | None
    """How many bytes of records may wait to be sent; a send that finds no room waits up to
    max.block.ms.
    """

    compression_gzip_level: int | None
    """The level of gzip when compression.type is gzip."""

    compression_lz4_level: int | None
    """The level of lz4 when compression.type is lz4."""

    compression_type: CompressionTypeWord | None
    """How batches are compressed."""

    compression_zstd_level: int | None
    """The level of zstd when compression.type is zstd."""

    default_list_key_serde_inner: object
    """The serializer of the items of a key that is a list."""

    default_list_value_serde_inner: object
    """The serializer of the items of a value that is a list."""

    delivery_timeout_ms: int | None
    """How long a record may take from send until its outcome is known, with all that is tried; at
    least linger.ms and request.timeout.ms together.
    """

    enable_idempotence: bool | None
    """Whether retries can neither duplicate nor reorder records. It needs acks=all, retries and at
    most 5 requests in flight; if it was not given, it gives way to them.
    """

    interceptor_classes: object
    """What sees records before they are serialized, and when their outcome is known."""

    key_serializer: object
    """What makes bytes of a record's key."""

    key_serializer_encoding: str | None
    """The encoding of text that the serializer str of keys makes bytes of."""

    linger_ms: int | None
    """How long a batch that is not full waits for more records."""

    max_block_ms: int | None
    """How long send, partitions_for and the calls about transactions may block."""

    max_in_flight_requests_per_connection: int | None
    """How many requests may be on their way on a connection."""

    max_request_size: int | None
    """How many bytes a request, and so a record, may have before it is compressed."""

    metadata_max_idle_ms: int | None
    """After how long without a record the metadata of a topic is forgotten."""

    partitioner_adaptive_partitioning_enable: bool | None
    """Whether records without a key go more often to brokers that take them faster (KIP-794)."""

    partitioner_availability_timeout_ms: int | None
    """How long a broker may be unable to take batches before records without a key avoid its
    partitions; 0 is never.
    """

    partitioner_class: object
    """What chooses the partition of a record: by default a hash of the key or, without a key, one
    partition for about batch.size bytes and then another.
    """

    partitioner_ignore_keys: bool | None
    """Whether the default partitioner treats all records as if they had no key."""

    retries: int | None
    """How often a batch is sent again; delivery.timeout.ms is the better limit."""

    serializer_encoding: str | None
    """The encoding of text that the serializer str makes bytes of."""

    transaction_timeout_ms: int | None
    """How long a transaction may be open before the coordinator aborts it."""

    transaction_two_phase_commit_enable: bool | None
    """Whether transactions stay open until an outside decision (KIP-939), which is not available:
    false.
    """

    transactional_id: str | None
    """The name under which transactions are written; a producer of the same name that starts later
    shuts this one out.
    """

    value_serializer: object
    """What makes bytes of a record's value."""

    value_serializer_encoding: str | None
    """The encoding of text that the serializer str of values makes bytes of."""


class ConsumerOptions(ClientOptions, Generic[K, V], total=False):
    """The options of `ottla.Consumer` and `ottla.aio.Consumer`."""

    allow_auto_create_topics: bool | None
    """Whether the broker may create a topic that is subscribed to and does not exist."""

    auto_commit_interval_ms: int | None
    """How often offsets are committed with enable.auto.commit."""

    auto_offset_reset: str | None
    """Where reading starts without a committed offset, or when it is out of range: earliest,
    latest, by_duration:PnDTnHnMn.nS (that long ago), or none, which is an error.
    """

    check_crcs: bool | None
    """Whether the checksums of batches are verified."""

    client_rack: str | None
    """Where the consumer is, so that it can read from a replica nearby (KIP-392)."""

    default_api_timeout_ms: int | None
    """How long calls may take that have no timeout of their own."""

    default_list_key_serde_inner: object
    """The deserializer of the items of a key that is a list."""

    default_list_key_serde_type: object
    """What a key that is a list becomes: list, tuple or another callable over its items."""

    default_list_value_serde_inner: object
    """The deserializer of the items of a value that is a list."""

    default_list_value_serde_type: object
    """What a value that is a list becomes: list, tuple or another callable over its items."""

    deserializer_encoding: str | None
    """The encoding of text that the deserializer str reads."""

    enable_auto_commit: bool | None
    """Whether the offsets of what poll returned before are committed from time to time; without
    group.id it is off unless it was given.
    """

    exclude_internal_topics: bool | None
    """Whether a pattern skips internal topics."""

    fetch_max_bytes: int | None
    """How many bytes a broker may answer to one fetch; a first batch that is larger comes all the
    same.
    """

    fetch_max_wait_ms: int | None
    """How long a broker waits for fetch.min.bytes."""

    fetch_min_bytes: int | None
    """How many bytes a broker gathers before it answers a fetch."""

    group_id: str | None
    """The group whose members share the partitions; subscribe and commit need one."""

    group_instance_id: str | None
    """The name of a static member (KIP-345), which keeps its partitions over a restart."""

    group_protocol: GroupProtocolWord | None
    """How the group is managed: classic. The protocol of KIP-848, consumer, is not available."""

    heartbeat_interval_ms: int | None
    """How often the consumer tells the coordinator that it is alive; below session.timeout.ms, and
    usually a third of it.
    """

    interceptor_classes: object
    """What sees records before poll returns them, and offsets when they are committed."""

    isolation_level: IsolationLevelWord | None
    """Whether records of transactions that are open or aborted are seen."""

    key_deserializer: DeserializerOf[K] | None
    """What reads the bytes of a record's key."""

    key_deserializer_encoding: str | None
    """The encoding of text that the deserializer str of keys reads."""

    max_partition_fetch_bytes: int | None
    """How many bytes of a partition a broker may answer to one fetch; a first batch that is larger
    comes all the same.
    """

    max_poll_interval_ms: int | None
    """How long may pass between polls before the consumer leaves its group."""

    max_poll_records: int | None
    """How many records a poll returns at most."""

    partition_assignment_strategy: object
    """The assignors that this member can use, the preferred one first."""

    session_timeout_ms: int | None
    """How long the coordinator waits for a heartbeat before it gives the partitions to others."""

    stall_timeout_ms: int | None
    """How long a partition with records to read may bring none before the consumer logs that it
    stalls and health() says so; 0 turns the watch off. Kafka has no such option.
    """

    value_deserializer: DeserializerOf[V] | None
    """What reads the bytes of a record's value."""

    value_deserializer_encoding: str | None
    """The encoding of text that the deserializer str of values reads."""


class AdminOptions(ClientOptions, total=False):
    """The options of `ottla.Admin` and `ottla.aio.Admin`."""

    default_api_timeout_ms: int | None
    """How long calls may take that have no timeout of their own."""

    retries: int | None
    """How often a call is tried again; default.api.timeout.ms is the better limit."""


class BrokerOptions(TypedDict, total=False):
    """The options of `ottla.Broker`."""

    auto_create_topics_enable: bool
    """Whether a topic is created when a client first asks for it."""

    compression_gzip_level: int
    """The default of the topic option compression.gzip.level. The level of gzip when
    compression.type is gzip; -1 is gzip's own default.
    """

    compression_lz4_level: int
    """The default of the topic option compression.lz4.level. The level of lz4 when compression.type
    is lz4.
    """

    compression_type: BrokerCompressionTypeWord
    """The default of the topic option compression.type. How record batches are compressed in the
    log; producer keeps them as they came.
    """

    compression_zstd_level: int
    """The default of the topic option compression.zstd.level. The level of zstd when
    compression.type is zstd.
    """

    connections_max_idle_ms: int
    """How long a connection may be idle before it is closed; a negative value keeps it."""

    default_replication_factor: int
    """The replication factor of topics that are created without one."""

    delete_topic_enable: bool
    """Whether topics can be deleted."""

    fetch_max_bytes: int
    """The most that one fetch answers, apart from a first batch that is larger."""

    group_initial_rebalance_delay_ms: int
    """How long the first generation of a group waits for more members after each that joins."""

    group_max_session_timeout_ms: int
    """The longest session timeout that a member of a group may ask for."""

    group_max_size: int
    """The most members that a group can have."""

    group_min_session_timeout_ms: int
    """The shortest session timeout that a member of a group may ask for."""

    log_cleaner_backoff_ms: int
    """How long compaction pauses when no log is dirty enough."""

    log_cleaner_dedupe_buffer_size: int
    """How much memory compaction may use for the keys of a log; if they do not fit, a log is
    cleaned in several turns.
    """

    log_cleaner_delete_retention_ms: int
    """The default of the topic option delete.retention.ms. How long compaction keeps a tombstone,
    and so how long a reader that started at the beginning may take without missing a deletion.
    """

    log_cleaner_enable: bool
    """Whether topics with cleanup.policy=compact are compacted."""

    log_cleaner_io_max_bytes_per_second: float
    """The most bytes that compaction reads and writes in a second, on average."""

    log_cleaner_max_compaction_lag_ms: int
    """The default of the topic option max.compaction.lag.ms. How long a record may stay uncompacted
    in a compacted topic.
    """

    log_cleaner_min_cleanable_ratio: float
    """The default of the topic option min.cleanable.dirty.ratio. The share of the log that must be
    uncompacted before compaction starts.
    """

    log_cleaner_min_compaction_lag_ms: int
    """The default of the topic option min.compaction.lag.ms. How long a record stays uncompacted at
    least.
    """

    log_cleanup_policy: str | list[str] | tuple[str, ...]
    """The default of the topic option cleanup.policy. What happens to old segments: delete drops
    them by age and size, compact keeps the last value of each key; both can be given.
    """

    log_flush_interval_messages: int
    """The default of the topic option flush.messages. After how many records the log is synced to
    disk; with 1 an acknowledgement waits for the sync.
    """

    log_flush_interval_ms: int | None
    """The default of the topic option flush.ms. How long a record may stay in memory before the log
    is synced to disk.
    """

    log_flush_offset_checkpoint_interval_ms: int
    """How often the recovery points and log start offsets are written to disk."""

    log_flush_scheduler_interval_ms: int
    """How often the broker looks for logs that flush.ms wants on disk; the default of
    log.flush.interval.ms.
    """

    log_index_interval_bytes: int
    """The default of the topic option index.interval.bytes. About how many bytes of records there
    are per entry of the offset index.
    """

    log_index_size_max_bytes: int
    """The default of the topic option segment.index.bytes. The size of the offset index at which
    the next segment begins.
    """

    log_message_timestamp_after_max_ms: int
    """The default of the topic option message.timestamp.after.max.ms. How far a record's CreateTime
    may lie after the broker's clock.
    """

    log_message_timestamp_before_max_ms: int
    """The default of the topic option message.timestamp.before.max.ms. How far a record's
    CreateTime may lie before the broker's clock.
    """

    log_message_timestamp_type: LogMessageTimestampTypeWord
    """The default of the topic option message.timestamp.type. Whether a record keeps its producer's
    timestamp or gets the time of the append.
    """

    log_retention_bytes: int
    """The default of the topic option retention.bytes. How large a partition may grow before its
    oldest segments are deleted; -1 sets no limit.
    """

    log_retention_check_interval_ms: int
    """How often the broker looks for segments that are due for deletion."""

    log_retention_hours: int
    """How many hours records are kept; log.retention.ms and log.retention.minutes go first."""

    log_retention_minutes: int | None
    """How many minutes records are kept; log.retention.ms goes first."""

    log_retention_ms: int | None
    """The default of the topic option retention.ms. How long records are kept before their segment
    is deleted; -1 keeps them for ever.
    """

    log_roll_hours: int
    """The age in hours at which a segment is closed; log.roll.ms goes first."""

    log_roll_jitter_hours: int
    """The largest random time in hours by which log.roll.hours is shortened; log.roll.jitter.ms
    goes first.
    """

    log_roll_jitter_ms: int | None
    """The default of the topic option segment.jitter.ms. The largest random time by which
    segment.ms is shortened, so that partitions do not all begin segments at once.
    """

    log_roll_ms: int | None
    """The default of the topic option segment.ms. The age at which a segment is closed and the next
    one begins, even if it is not full.
    """

    log_segment_bytes: int
    """The default of the topic option segment.bytes. The size at which a segment file is full and
    the next one begins.
    """

    log_segment_delete_delay_ms: int
    """The default of the topic option file.delete.delay.ms. How long the file of a deleted segment
    stays on disk.
    """

    max_connections: int
    """The most connections that the broker keeps open."""

    max_connections_per_ip: int
    """The most connections that the broker keeps open from one address."""

    max_incremental_fetch_session_cache_slots: int
    """How many incremental fetch sessions (KIP-227) the broker keeps."""

    message_max_bytes: int
    """The default of the topic option max.message.bytes. The largest record batch that is accepted,
    as it is compressed.
    """

    min_insync_replicas: int
    """The default of the topic option min.insync.replicas. How many in-sync replicas a produce
    request with acks=all needs.
    """

    node_id: int
    """The id by which clients and the cluster know this broker."""
    broker_id: int
    """Another name of node.id."""

    num_partitions: int
    """How many partitions a topic gets that is created without a number."""

    offset_metadata_max_bytes: int
    """The longest metadata that a committed offset may have."""

    offsets_commit_timeout_ms: int
    """How long an offset commit may wait until its records are safe."""

    offsets_load_buffer_size: int
    """How many bytes of the offsets topic are read at a time when groups are loaded."""

    offsets_retention_check_interval_ms: int
    """How often the broker looks for committed offsets that have expired."""

    offsets_retention_minutes: int
    """How many minutes committed offsets are kept once nobody reads by them: since the group has
    been empty, or since the commit if the group is not subscribed.
    """

    offsets_topic_compression_codec: int
    """The codec of the batches in the offsets topic: 0 for none, 1 for gzip, 2 for snappy, 3 for
    lz4, 4 for zstd.
    """

    offsets_topic_num_partitions: int
    """How many partitions the offsets topic gets when it is created; a group belongs to one of
    them, so their number cannot change later.
    """

    offsets_topic_replication_factor: int
    """The replication factor of the offsets topic, as far as there are that many brokers."""

    offsets_topic_segment_bytes: int
    """The size at which a segment of the offsets topic is closed."""

    ottla_ephemeral_max_bytes: int
    """The most bytes of records that the memory engine holds."""

    producer_id_expiration_check_interval_ms: int
    """How often the broker looks for producer ids that have expired."""

    producer_id_expiration_ms: int
    """How long a partition remembers a producer id after its last write."""

    socket_request_max_bytes: int
    """The largest request that is accepted."""

    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    """How often the broker looks for transactions that have timed out, to abort them."""

    transaction_max_timeout_ms: int
    """The longest transaction timeout that a producer may ask for."""
    max_transaction_timeout_ms: int
    """Another name of transaction.max.timeout.ms."""

    transaction_partition_verification_enable: bool
    """Whether the first write of a transaction to a partition waits until the coordinator confirms
    that the partition belongs to it (KIP-890).
    """

    transaction_remove_expired_transaction_cleanup_interval_ms: int
    """How often the broker looks for transactional ids that have expired."""

    transaction_state_log_load_buffer_size: int
    """How many bytes of the transactions topic are read at a time when it is loaded."""

    transaction_state_log_min_isr: int
    """The min.insync.replicas of the transactions topic, as far as there are that many brokers."""

    transaction_state_log_num_partitions: int
    """How many partitions the transactions topic gets when it is created; a transactional id
    belongs to one of them, so their number cannot change later.
    """

    transaction_state_log_replication_factor: int
    """The replication factor of the transactions topic, as far as there are that many brokers."""

    transaction_state_log_segment_bytes: int
    """The size at which a segment of the transactions topic is closed."""

    transactional_id_expiration_ms: int
    """How long a transactional id is kept after its last transaction."""
    transactional_id_timeout_ms: int
    """Another name of transactional.id.expiration.ms."""
