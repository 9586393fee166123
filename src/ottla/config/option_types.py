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
    """A deserializer with typed results."""

    def deserialize(self, topic: str, headers: Any, data: Any, /) -> T_co:
        """The object that `data` encodes; None for None."""


# The result of a plain function is not the type of keys or values: it is never called for None, which stays None.
DeserializerOf: TypeAlias = str | ReadsBytes[T_co] | type[ReadsBytes[T_co]] | Callable[[bytes], Any]


SslProtocolWord: TypeAlias = Literal[
    "TLSv1.2",
    "TLSv1.3",
]

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

SslClientAuthWord: TypeAlias = Literal[
    "none",
    "requested",
    "required",
]

BrokerCompressionTypeWord: TypeAlias = Literal[
    "uncompressed",
    "zstd",
    "lz4",
    "snappy",
    "gzip",
    "producer",
]

GroupConsumerMigrationPolicyWord: TypeAlias = Literal[
    "disabled",
    "DISABLED",
    "upgrade",
    "UPGRADE",
    "downgrade",
    "DOWNGRADE",
    "bidirectional",
    "BIDIRECTIONAL",
]

LogMessageTimestampTypeWord: TypeAlias = Literal[
    "CreateTime",
    "LogAppendTime",
]


class ClientOptions(TypedDict, total=False):
    """The options that all clients share."""

    ssl_protocol: SslProtocolWord | None
    """The highest version of TLS that is used."""

    ssl_enabled_protocols: str | list[str] | tuple[str, ...] | None
    """The versions of TLS that are used."""

    ssl_cipher_suites: str | list[str] | tuple[str, ...] | None
    """The cipher suites of TLS 1.2 that are used, by their names in Java or OpenSSL; TLS 1.3 has to
    be disabled.
    """

    ssl_truststore_type: str | None
    """The format of the trust store: PEM or PKCS12. A file that ends with .p12, .pfx or .pkcs12 is
    read as PKCS12.
    """

    ssl_truststore_location: str | None
    """A file with the trusted certificates. Clients trust those of the operating system if neither
    this nor ssl.truststore.certificates is set.
    """

    ssl_truststore_password: str | None
    """The password of a trust store in the format PKCS12."""

    ssl_truststore_certificates: str | None
    """The trusted certificates, as PEM text."""

    ssl_keystore_type: str | None
    """The format of the key store: PEM or PKCS12. A file that ends with .p12, .pfx or .pkcs12 is
    read as PKCS12.
    """

    ssl_keystore_location: str | None
    """A file with the private key and its certificate chain."""

    ssl_keystore_password: str | None
    """The password of a key store in the format PKCS12."""

    ssl_keystore_key: str | None
    """The private key, as PEM text."""

    ssl_keystore_certificate_chain: str | None
    """The certificate chain of the private key, as PEM text."""

    ssl_key_password: str | None
    """The password of the private key, if that is encrypted."""

    security_protocol: SecurityProtocolWord | None
    """Whether connections are encrypted (SSL) and whether the client authenticates (SASL)."""

    sasl_mechanism: str | None
    """How the client authenticates: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER. The default
    is Kafka's and not supported: with SASL this option has to be set.
    """

    sasl_jaas_config: str | None
    """The user name and password for PLAIN and SCRAM in the form of Kafka's clients: the login
    module with its options.
    """

    sasl_username: str | None
    """The user name for PLAIN and SCRAM, instead of sasl.jaas.config."""

    sasl_password: str | None
    """The password for PLAIN and SCRAM, instead of sasl.jaas.config."""

    sasl_login_callback_handler_class: object
    """A callable without arguments that returns a token for OAUTHBEARER, or its dotted path. It is
    called whenever a connection authenticates, and may be a coroutine function.
    """
    sasl_oauthbearer_token_callback: object
    """Another name of sasl.login.callback.handler.class."""

    ssl_endpoint_identification_algorithm: SslEndpointIdentificationAlgorithmWord | None
    """https checks that the broker's certificate is for its host name; an empty text disables the
    check.
    """

    bootstrap_servers: str | list[str] | tuple[str, ...] | None
    """Brokers for the first connection, as HOST:PORT; the client learns the others from them."""

    client_dns_lookup: ClientDnsLookupWord | None
    """How the client uses a host name that has several addresses: try them in turn, or replace each
    bootstrap server by the canonical host names of its addresses.
    """

    client_id: str | None
    """The name of the client in the logs of brokers; the default is a name with a number."""

    connections_max_idle_ms: int | None
    """How long a connection may be idle before the client closes it; -1 keeps it open."""

    enable_metrics_push: bool | None
    """Whether metrics are sent to the brokers (KIP-714); not available, only false is accepted."""

    metadata_max_age_ms: int | None
    """The age at which the client requests the metadata of the cluster again."""

    metadata_recovery_rebootstrap_trigger_ms: int | None
    """How long the client tries to get metadata from the brokers it knows before it starts again
    from bootstrap.servers (KIP-1102).
    """

    metadata_recovery_strategy: MetadataRecoveryStrategyWord | None
    """How the client goes on when it can reach no known broker: rebootstrap starts again from
    bootstrap.servers (KIP-899), none keeps trying the known brokers.
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
    """The longest time that an attempt to connect may take; the time doubles with each failure."""

    socket_connection_setup_timeout_ms: int | None
    """How long the first attempt to connect may take."""


class ProducerOptions(ClientOptions, total=False):
    """The options of `ottla.Producer` and `ottla.aio.Producer`."""

    acks: AcksWord | None
    """Which brokers must confirm a record: none (0), the leader (1), or all in-sync replicas (all).
    """

    batch_size: int | None
    """How many bytes of records for a partition are collected in one batch; a larger record gets a
    batch of its own, with 0 every record does.
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
    """How long a record may take from send until its outcome is known, with all retries; at least
    linger.ms and request.timeout.ms together.
    """

    enable_idempotence: bool | None
    """Whether retries can neither duplicate nor reorder records. It needs acks=all, retries and at
    most 5 requests in flight; unless it was given, it is off where these do not hold.
    """

    interceptor_classes: object
    """Code that is called with records before they are serialized, and with their outcomes."""

    key_serializer: object
    """The serializer of the keys of records."""

    key_serializer_encoding: str | None
    """The encoding that the serializer str of keys uses."""

    linger_ms: int | None
    """How long a batch that is not full waits for more records."""

    max_block_ms: int | None
    """How long send, partitions_for and the calls about transactions may block."""

    max_in_flight_requests_per_connection: int | None
    """How many requests without an answer a connection may have."""

    max_request_size: int | None
    """The largest request, and so the largest record, in bytes before compression."""

    metadata_max_idle_ms: int | None
    """How long the producer keeps the metadata of a topic to which it sends nothing."""

    partitioner_adaptive_partitioning_enable: bool | None
    """Whether records without a key go more often to brokers that take them faster (KIP-794)."""

    partitioner_availability_timeout_ms: int | None
    """How long a broker may be unable to take batches before records without a key avoid its
    partitions; 0 is never.
    """

    partitioner_class: object
    """Code that chooses the partition of a record; by default a hash of the key or, without a key,
    one partition for about batch.size bytes and then another.
    """

    partitioner_ignore_keys: bool | None
    """Whether the default partitioner treats all records as if they had no key."""

    retries: int | None
    """How often a batch is sent again; delivery.timeout.ms is usually the better limit."""

    serializer_encoding: str | None
    """The encoding that the serializer str uses."""

    transaction_timeout_ms: int | None
    """How long a transaction may be open before the coordinator aborts it."""

    transaction_two_phase_commit_enable: bool | None
    """Whether transactions stay open until an outside decision (KIP-939); not available, only false
    is accepted.
    """

    transactional_id: str | None
    """The id of the producer's transactions; a producer of the same id that starts later fences
    this one.
    """

    value_serializer: object
    """The serializer of the values of records."""

    value_serializer_encoding: str | None
    """The encoding that the serializer str of values uses."""


class ConsumerOptions(ClientOptions, Generic[K, V], total=False):
    """The options of `ottla.Consumer` and `ottla.aio.Consumer`."""

    allow_auto_create_topics: bool | None
    """Whether the broker may create a topic that the consumer subscribes to and that does not
    exist.
    """

    auto_commit_interval_ms: int | None
    """How often enable.auto.commit commits offsets."""

    auto_offset_reset: str | None
    """Where the consumer starts without a committed offset, or if it is out of range: earliest,
    latest, by_duration:PnDTnHnMn.nS (that long ago), or none, which is an error.
    """

    check_crcs: bool | None
    """Whether the checksums of batches are verified."""

    client_rack: str | None
    """Where the consumer is, so that it can read from a replica nearby (KIP-392)."""

    default_api_timeout_ms: int | None
    """The timeout of calls that are given none."""

    default_list_key_serde_inner: object
    """The deserializer of the items of a key that is a list."""

    default_list_key_serde_type: object
    """The type of a key that is a list: list, tuple or another callable over its items."""

    default_list_value_serde_inner: object
    """The deserializer of the items of a value that is a list."""

    default_list_value_serde_type: object
    """The type of a value that is a list: list, tuple or another callable over its items."""

    deserializer_encoding: str | None
    """The encoding that the deserializer str uses."""

    enable_auto_commit: bool | None
    """Whether poll commits the offsets of the records that it returned before, every
    auto.commit.interval.ms; without group.id the default is false.
    """

    exclude_internal_topics: bool | None
    """Whether a subscription by pattern skips internal topics."""

    fetch_max_bytes: int | None
    """The most bytes in the response to one fetch; a first batch that is larger is returned all the
    same.
    """

    fetch_max_wait_ms: int | None
    """How long a broker waits for fetch.min.bytes."""

    fetch_min_bytes: int | None
    """How many bytes a broker collects before it answers a fetch."""

    group_id: str | None
    """The group whose members share the partitions; subscribe and commit need one."""

    group_instance_id: str | None
    """The name of a static member (KIP-345), which keeps its partitions over a restart."""

    group_protocol: GroupProtocolWord | None
    """How the group is managed: classic, where members assign the partitions, or consumer
    (KIP-848), where the broker does.
    """

    group_remote_assignor: str | None
    """The assignor of the broker, with group.protocol=consumer; without it, the broker's first one.
    """

    heartbeat_interval_ms: int | None
    """How often the consumer tells the coordinator that it is alive; below session.timeout.ms, and
    usually a third of it.
    """

    interceptor_classes: object
    """Code that is called with records before poll returns them, and with committed offsets."""

    isolation_level: IsolationLevelWord | None
    """Whether poll returns records of open and aborted transactions."""

    key_deserializer: DeserializerOf[K] | None
    """The deserializer of the keys of records."""

    key_deserializer_encoding: str | None
    """The encoding that the deserializer str of keys uses."""

    max_partition_fetch_bytes: int | None
    """The most bytes of one partition in the response to one fetch; a first batch that is larger is
    returned all the same.
    """

    max_poll_interval_ms: int | None
    """How long may pass between polls before the consumer leaves its group."""

    max_poll_records: int | None
    """How many records a poll returns at most."""

    partition_assignment_strategy: object
    """The assignors that this member can use, the preferred one first."""

    session_timeout_ms: int | None
    """How long the coordinator waits for a heartbeat before it removes the member from the group.
    """

    stall_timeout_ms: int | None
    """How long a partition that has records may return none before the consumer logs that it stalls
    and health() reports it; 0 disables the check. Kafka has no such option.
    """

    value_deserializer: DeserializerOf[V] | None
    """The deserializer of the values of records."""

    value_deserializer_encoding: str | None
    """The encoding that the deserializer str of values uses."""


class AdminOptions(ClientOptions, total=False):
    """The options of `ottla.Admin` and `ottla.aio.Admin`."""

    default_api_timeout_ms: int | None
    """The timeout of calls that are given none."""

    retries: int | None
    """How often a call is tried again; default.api.timeout.ms is usually the better limit."""


class AppOptions(ProducerOptions, total=False):
    """The options of `ottla.app.App`: those of producers, consumers and admin clients."""

    allow_auto_create_topics: bool | None
    """Whether the broker may create a topic that the consumer subscribes to and that does not
    exist.
    """

    auto_commit_interval_ms: int | None
    """How often enable.auto.commit commits offsets."""

    auto_offset_reset: str | None
    """Where the consumer starts without a committed offset, or if it is out of range: earliest,
    latest, by_duration:PnDTnHnMn.nS (that long ago), or none, which is an error.
    """

    check_crcs: bool | None
    """Whether the checksums of batches are verified."""

    client_rack: str | None
    """Where the consumer is, so that it can read from a replica nearby (KIP-392)."""

    default_api_timeout_ms: int | None
    """The timeout of calls that are given none."""

    default_list_key_serde_type: object
    """The type of a key that is a list: list, tuple or another callable over its items."""

    default_list_value_serde_type: object
    """The type of a value that is a list: list, tuple or another callable over its items."""

    deserializer_encoding: str | None
    """The encoding that the deserializer str uses."""

    enable_auto_commit: bool | None
    """Whether poll commits the offsets of the records that it returned before, every
    auto.commit.interval.ms; without group.id the default is false.
    """

    exclude_internal_topics: bool | None
    """Whether a subscription by pattern skips internal topics."""

    fetch_max_bytes: int | None
    """The most bytes in the response to one fetch; a first batch that is larger is returned all the
    same.
    """

    fetch_max_wait_ms: int | None
    """How long a broker waits for fetch.min.bytes."""

    fetch_min_bytes: int | None
    """How many bytes a broker collects before it answers a fetch."""

    group_id: str | None
    """The group whose members share the partitions; subscribe and commit need one."""

    group_instance_id: str | None
    """The name of a static member (KIP-345), which keeps its partitions over a restart."""

    group_protocol: GroupProtocolWord | None
    """How the group is managed: classic, where members assign the partitions, or consumer
    (KIP-848), where the broker does.
    """

    group_remote_assignor: str | None
    """The assignor of the broker, with group.protocol=consumer; without it, the broker's first one.
    """

    heartbeat_interval_ms: int | None
    """How often the consumer tells the coordinator that it is alive; below session.timeout.ms, and
    usually a third of it.
    """

    isolation_level: IsolationLevelWord | None
    """Whether poll returns records of open and aborted transactions."""

    key_deserializer: DeserializerOf[Any] | None
    """The deserializer of the keys of records."""

    key_deserializer_encoding: str | None
    """The encoding that the deserializer str of keys uses."""

    max_partition_fetch_bytes: int | None
    """The most bytes of one partition in the response to one fetch; a first batch that is larger is
    returned all the same.
    """

    max_poll_interval_ms: int | None
    """How long may pass between polls before the consumer leaves its group."""

    max_poll_records: int | None
    """How many records a poll returns at most."""

    partition_assignment_strategy: object
    """The assignors that this member can use, the preferred one first."""

    session_timeout_ms: int | None
    """How long the coordinator waits for a heartbeat before it removes the member from the group.
    """

    stall_timeout_ms: int | None
    """How long a partition that has records may return none before the consumer logs that it stalls
    and health() reports it; 0 disables the check. Kafka has no such option.
    """

    value_deserializer: DeserializerOf[Any] | None
    """The deserializer of the values of records."""

    value_deserializer_encoding: str | None
    """The encoding that the deserializer str of values uses."""


class BrokerOptions(TypedDict, total=False):
    """The options of `ottla.Broker`."""

    connections_max_reauth_ms: int
    """How long a client may use a connection before it has to authenticate again (KIP-368); 0 is
    for ever, or until its token ends.
    """

    sasl_jaas_config: str | None
    """The login module of a mechanism, with the prefix listener.name.<name>.<mechanism>. only. For
    PLAIN it can list users beside those with SCRAM credentials: user_alice="secret".
    """

    sasl_oauthbearer_clock_skew_seconds: int
    """By how many seconds the clock of the tokens' issuer may differ."""

    sasl_oauthbearer_expected_audience: str | list[str] | tuple[str, ...] | None
    """For whom a token may be: one of these has to be in its claim aud. Without any, a token must
    not have that claim.
    """

    sasl_oauthbearer_expected_issuer: str | None
    """Who has to have issued a token: its claim iss."""

    sasl_oauthbearer_jwks_endpoint_refresh_ms: int
    """How often the keys are fetched. A token with an unknown key makes the broker fetch them
    earlier.
    """

    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int
    """The longest time until the keys are fetched again after a failure."""

    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int
    """The time until the keys are fetched again after a first failure; it doubles."""

    sasl_oauthbearer_jwks_endpoint_url: str | None
    """Where the keys are by which tokens are checked, a JWKS (RFC 7517): https:, http: or file:."""

    sasl_oauthbearer_scope_claim_name: str
    """The claim with the scopes of a token."""

    sasl_oauthbearer_sub_claim_name: str
    """The claim with the user's name."""

    sasl_server_max_receive_size: int
    """The most bytes that a client may send at once before it has authenticated itself."""

    sasl_enabled_mechanisms: str | list[str] | tuple[str, ...]
    """The mechanisms by which clients can authenticate themselves."""

    ssl_protocol: SslProtocolWord
    """The highest version of TLS that is used."""

    ssl_enabled_protocols: str | list[str] | tuple[str, ...]
    """The versions of TLS that are used."""

    ssl_cipher_suites: str | list[str] | tuple[str, ...]
    """The cipher suites of TLS 1.2 that are used, by their names in Java or OpenSSL; TLS 1.3 has to
    be disabled.
    """

    ssl_truststore_type: str
    """The format of the trust store: PEM or PKCS12. A file that ends with .p12, .pfx or .pkcs12 is
    read as PKCS12.
    """

    ssl_truststore_location: str | None
    """A file with the trusted certificates. Clients trust those of the operating system if neither
    this nor ssl.truststore.certificates is set.
    """

    ssl_truststore_password: str | None
    """The password of a trust store in the format PKCS12."""

    ssl_truststore_certificates: str | None
    """The trusted certificates, as PEM text."""

    ssl_keystore_type: str
    """The format of the key store: PEM or PKCS12. A file that ends with .p12, .pfx or .pkcs12 is
    read as PKCS12.
    """

    ssl_keystore_location: str | None
    """A file with the private key and its certificate chain."""

    ssl_keystore_password: str | None
    """The password of a key store in the format PKCS12."""

    ssl_keystore_key: str | None
    """The private key, as PEM text."""

    ssl_keystore_certificate_chain: str | None
    """The certificate chain of the private key, as PEM text."""

    ssl_key_password: str | None
    """The password of the private key, if that is encrypted."""

    max_connection_creation_rate: int
    """The most connections that the broker accepts in a second; others wait until it accepts them.
    """

    max_connections: int
    """The most connections that the broker keeps open."""

    ssl_client_auth: SslClientAuthWord
    """Whether clients have to authenticate themselves by a certificate (required), may do so
    (requested), or are not asked for one (none).
    """

    ssl_principal_mapping_rules: str
    """The rules that make a principal of the distinguished name of a client's certificate, the
    first that fits: RULE:pattern/replacement/, with L or U at the end for lower or upper case, or
    DEFAULT for the whole name.
    """

    advertised_listeners: str | list[str] | tuple[str, ...] | None
    """The addresses that clients get, NAME://HOST:PORT with names of listeners; without one, the
    clients of a listener get the host that they have connected to.
    """

    allow_everyone_if_no_acl_found: bool
    """Whether everybody may do everything with a resource that has no ACLs; otherwise only super
    users may. It needs an authorizer.
    """

    authorizer_class_name: str
    """The authorizer, which decides by ACLs what clients may do:
    org.apache.kafka.metadata.authorizer.StandardAuthorizer. Without one everybody may do
    everything.
    """

    auto_create_topics_enable: bool
    """Whether a missing topic is created when a client asks for its metadata."""

    broker_rack: str | None
    """The rack, or availability zone, of this broker, which clients are told. Only brokers that
    share a storage are in racks.
    """

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
    log; producer keeps the codec of the producer.
    """

    compression_zstd_level: int
    """The default of the topic option compression.zstd.level. The level of zstd when
    compression.type is zstd.
    """

    connections_max_idle_ms: int
    """How long a connection may be idle before the broker closes it; a negative value keeps it
    open.
    """

    connection_failed_authentication_delay_ms: int
    """How long the answer to a failed login waits. The answers for one address are at least this
    far apart, however many connections it uses.
    """

    controller_quota_window_num: int
    """The number of windows of quotas on changes of topics: a client may use the quota of all of
    them at once.
    """

    controller_quota_window_size_seconds: int
    """The length of each window of quotas on changes of topics."""

    default_replication_factor: int
    """The replication factor of topics that are created without one."""

    delete_topic_enable: bool
    """Whether topics can be deleted."""

    fetch_max_bytes: int
    """The most bytes in the response to one fetch; a first batch that is larger is returned all the
    same.
    """

    group_consumer_assignment_interval_ms: int
    """The least time between two target assignments of a group of the consumer protocol; members
    that join within it are assigned together.
    """

    group_consumer_assignors: str | list[str] | tuple[str, ...]
    """The assignors that groups of the consumer protocol can use; the first is the one of groups
    whose members name none.
    """

    group_consumer_heartbeat_interval_ms: int
    """How often the members of a group of the consumer protocol send heartbeats."""

    group_consumer_max_assignment_interval_ms: int
    """The longest interval between assignments that a group may have."""

    group_consumer_max_heartbeat_interval_ms: int
    """The longest heartbeat interval that a group of the consumer protocol may have."""

    group_consumer_max_session_timeout_ms: int
    """The longest session timeout that a group of the consumer protocol may have."""

    group_consumer_max_size: int
    """The most members that a group of the consumer protocol can have."""

    group_consumer_migration_policy: GroupConsumerMigrationPolicyWord
    """Which groups may change their protocol while they have members: upgrade is from the classic
    protocol to the consumer protocol, downgrade the other direction.
    """

    group_consumer_min_assignment_interval_ms: int
    """The shortest interval between assignments that a group may have."""

    group_consumer_min_heartbeat_interval_ms: int
    """The shortest heartbeat interval that a group of the consumer protocol may have."""

    group_consumer_min_session_timeout_ms: int
    """The shortest session timeout that a group of the consumer protocol may have."""

    group_consumer_regex_refresh_interval_ms: int
    """How often the topics that match the pattern of a subscription are looked up again; a change
    of the topics makes the coordinator look them up at once.
    """

    group_consumer_session_timeout_ms: int
    """How long a member of a group of the consumer protocol may be silent before it is removed."""

    group_coordinator_rebalance_protocols: str | list[str] | tuple[str, ...]
    """The protocols that groups can use; the classic one cannot be switched off."""

    group_initial_rebalance_delay_ms: int
    """How long the coordinator of a new group waits for more members after each one that joins."""

    group_max_session_timeout_ms: int
    """The longest session timeout that a member of a group may ask for."""

    group_max_size: int
    """The most members that a group can have."""

    group_min_session_timeout_ms: int
    """The shortest session timeout that a member of a group may ask for."""

    listener_security_protocol_map: str
    """The protocol of each listener, NAME:PROTOCOL: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL. A
    listener whose name is a protocol needs none.
    """

    listeners: str | list[str] | tuple[str, ...]
    """Where the broker listens, NAME://HOST:PORT; an empty host is every interface."""

    log_cleaner_backoff_ms: int
    """How long compaction pauses when no log is dirty enough."""

    log_cleaner_dedupe_buffer_size: int
    """How much memory compaction may use for the keys of a log; if they do not fit, a log is
    compacted in several passes.
    """

    log_cleaner_delete_retention_ms: int
    """The default of the topic option delete.retention.ms. How long compaction keeps a tombstone: a
    consumer that reads from the beginning within this time sees every deletion.
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
    """How often the broker checks which logs are due for a flush by flush.ms; the default of
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
    """How often the broker checks for segments to delete."""

    log_retention_hours: int
    """How many hours records are kept; log.retention.ms and log.retention.minutes take precedence.
    """

    log_retention_minutes: int | None
    """How many minutes records are kept; log.retention.ms takes precedence."""

    log_retention_ms: int | None
    """The default of the topic option retention.ms. How long records are kept before their segment
    is deleted; -1 keeps them for ever.
    """

    log_roll_hours: int
    """The age in hours at which a segment is closed; log.roll.ms takes precedence."""

    log_roll_jitter_hours: int
    """The largest random time in hours by which log.roll.hours is shortened; log.roll.jitter.ms
    takes precedence.
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

    max_connections_per_ip: int
    """The most connections that the broker keeps open from one address; 0 needs exceptions in
    max.connections.per.ip.overrides.
    """

    max_connections_per_ip_overrides: str
    """Addresses with another max.connections.per.ip: 10.0.0.1:100,10.0.0.2:5."""

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
    """The number of partitions of topics that are created without one."""

    offset_metadata_max_bytes: int
    """The most bytes of metadata that a committed offset may have."""

    offsets_commit_timeout_ms: int
    """How long an offset commit may wait until it is durable."""

    offsets_load_buffer_size: int
    """How many bytes of the offsets topic are read at a time when groups are loaded."""

    offsets_retention_check_interval_ms: int
    """How often the broker checks for committed offsets that have expired."""

    offsets_retention_minutes: int
    """How many minutes a committed offset is kept after its group became empty, or after the commit
    if the group is not subscribed to the topic.
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
    """The replication factor of the offsets topic; lower if there are fewer brokers."""

    offsets_topic_segment_bytes: int
    """The size at which a segment of the offsets topic is closed."""

    ottla_ephemeral_max_bytes: int
    """The most bytes of records that the memory engine holds."""

    ottla_peer_advertised_listener: str
    """HOST:PORT where other brokers of the same storage reach this one; by default its own port for
    them, at the host that clients get.
    """

    ottla_peer_listener: str
    """HOST:PORT where this broker listens for other brokers of the same storage; by default any
    port at the host of the first listener. Links are encrypted, and both ends prove which broker
    they are.
    """

    producer_id_expiration_check_interval_ms: int
    """How often the broker checks for producer ids that have expired."""

    producer_id_expiration_ms: int
    """How long a partition remembers a producer id after its last write."""

    quota_window_num: int
    """The number of windows over which the rates of clients with quotas are measured."""

    quota_window_size_seconds: int
    """The length of each window over which the rates of clients with quotas are measured."""

    socket_request_max_bytes: int
    """The largest request that is accepted."""

    super_users: str
    """The principals that may do everything, whatever ACLs say, separated by semicolons:
    User:admin;User:CN=ops,O=Example. It needs an authorizer.
    """

    telemetry_max_bytes: int
    """The most bytes of metrics that a client may push at once, compressed or not."""

    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    """How often the broker checks for transactions that have timed out, and aborts them."""

    transaction_max_timeout_ms: int
    """The longest transaction timeout that a producer may ask for."""
    max_transaction_timeout_ms: int
    """Another name of transaction.max.timeout.ms."""

    transaction_partition_verification_enable: bool
    """Whether the first write of a transaction to a partition waits until the coordinator confirms
    that the partition belongs to it (KIP-890).
    """

    transaction_remove_expired_transaction_cleanup_interval_ms: int
    """How often the broker checks for transactional ids that have expired."""

    transaction_state_log_load_buffer_size: int
    """How many bytes of the transactions topic are read at a time when it is loaded."""

    transaction_state_log_min_isr: int
    """The min.insync.replicas of the transactions topic; lower if there are fewer brokers."""

    transaction_state_log_num_partitions: int
    """How many partitions the transactions topic gets when it is created; a transactional id
    belongs to one of them, so their number cannot change later.
    """

    transaction_state_log_replication_factor: int
    """The replication factor of the transactions topic; lower if there are fewer brokers."""

    transaction_state_log_segment_bytes: int
    """The size at which a segment of the transactions topic is closed."""

    transactional_id_expiration_ms: int
    """How long a transactional id is kept after its last transaction."""
    transactional_id_timeout_ms: int
    """Another name of transactional.id.expiration.ms."""
