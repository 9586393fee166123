from __future__ import annotations

import pytest

from ottla.config.broker import BrokerConfig, DynamicOptions, topic_config, with_dynamic
from ottla.config.options import OptionType, options_of, value_text
from ottla.config.topic import TopicConfig
from ottla.errors import ConfigError

LONG_MAX = "9223372036854775807"
INT_MAX = "2147483647"

# Kafka 4.0's documented defaults, except node.id (which Kafka wants to be given), listeners (which is every interface
# there), the types of stores (JKS there), and our own.
SASL = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0"}
OF_PLAIN = "listener.name.sasl_plaintext.plain"
KAFKA_DEFAULTS = {
    "advertised.listeners": (OptionType.LIST, None),
    "allow.everyone.if.no.acl.found": (OptionType.BOOLEAN, "false"),
    "authorizer.class.name": (OptionType.STRING, ""),
    "auto.create.topics.enable": (OptionType.BOOLEAN, "true"),
    "broker.rack": (OptionType.STRING, None),
    "compression.gzip.level": (OptionType.INT, "-1"),
    "compression.lz4.level": (OptionType.INT, "9"),
    "compression.type": (OptionType.STRING, "producer"),
    "compression.zstd.level": (OptionType.INT, "3"),
    "connection.failed.authentication.delay.ms": (OptionType.INT, "100"),
    "connections.max.reauth.ms": (OptionType.LONG, "0"),
    "connections.max.idle.ms": (OptionType.LONG, "600000"),
    "default.replication.factor": (OptionType.INT, "1"),
    "delete.topic.enable": (OptionType.BOOLEAN, "true"),
    "fetch.max.bytes": (OptionType.INT, "57671680"),
    "group.consumer.assignment.interval.ms": (OptionType.INT, "1000"),
    "group.consumer.assignors": (OptionType.LIST, "uniform,range"),
    "group.consumer.heartbeat.interval.ms": (OptionType.INT, "5000"),
    "group.consumer.max.assignment.interval.ms": (OptionType.INT, "15000"),
    "group.consumer.max.heartbeat.interval.ms": (OptionType.INT, "15000"),
    "group.consumer.max.session.timeout.ms": (OptionType.INT, "60000"),
    "group.consumer.max.size": (OptionType.INT, INT_MAX),
    "group.consumer.migration.policy": (OptionType.STRING, "bidirectional"),
    "group.consumer.min.assignment.interval.ms": (OptionType.INT, "0"),
    "group.consumer.min.heartbeat.interval.ms": (OptionType.INT, "5000"),
    "group.consumer.min.session.timeout.ms": (OptionType.INT, "45000"),
    "group.consumer.regex.refresh.interval.ms": (OptionType.INT, "600000"),
    "group.consumer.session.timeout.ms": (OptionType.INT, "45000"),
    # Kafka has streams, too.
    "group.coordinator.rebalance.protocols": (OptionType.LIST, "classic,consumer"),
    "group.initial.rebalance.delay.ms": (OptionType.INT, "3000"),
    "group.max.session.timeout.ms": (OptionType.INT, "1800000"),
    "group.max.size": (OptionType.INT, INT_MAX),
    "group.min.session.timeout.ms": (OptionType.INT, "6000"),
    "log.cleaner.backoff.ms": (OptionType.LONG, "15000"),
    "log.cleaner.dedupe.buffer.size": (OptionType.LONG, "134217728"),
    "log.cleaner.delete.retention.ms": (OptionType.LONG, "86400000"),
    "log.cleaner.enable": (OptionType.BOOLEAN, "true"),
    "log.cleaner.io.max.bytes.per.second": (OptionType.DOUBLE, "1.7976931348623157E308"),
    "log.cleaner.max.compaction.lag.ms": (OptionType.LONG, LONG_MAX),
    "log.cleaner.min.cleanable.ratio": (OptionType.DOUBLE, "0.5"),
    "log.cleaner.min.compaction.lag.ms": (OptionType.LONG, "0"),
    "log.cleanup.policy": (OptionType.LIST, "delete"),
    "log.flush.interval.messages": (OptionType.LONG, LONG_MAX),
    "log.flush.interval.ms": (OptionType.LONG, None),
    "log.flush.offset.checkpoint.interval.ms": (OptionType.INT, "60000"),
    "log.flush.scheduler.interval.ms": (OptionType.LONG, LONG_MAX),
    "log.index.interval.bytes": (OptionType.INT, "4096"),
    "log.index.size.max.bytes": (OptionType.INT, "10485760"),
    "log.message.timestamp.after.max.ms": (OptionType.LONG, "3600000"),
    "log.message.timestamp.before.max.ms": (OptionType.LONG, LONG_MAX),
    "listener.security.protocol.map": (
        OptionType.STRING,
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
    ),
    "listeners": (OptionType.LIST, "PLAINTEXT://127.0.0.1:9092"),
    "log.message.timestamp.type": (OptionType.STRING, "CreateTime"),
    "log.retention.bytes": (OptionType.LONG, "-1"),
    "log.retention.check.interval.ms": (OptionType.LONG, "300000"),
    "log.retention.hours": (OptionType.INT, "168"),
    "log.retention.minutes": (OptionType.INT, None),
    "log.retention.ms": (OptionType.LONG, None),
    "log.roll.hours": (OptionType.INT, "168"),
    "log.roll.jitter.hours": (OptionType.INT, "0"),
    "log.roll.jitter.ms": (OptionType.LONG, None),
    "log.roll.ms": (OptionType.LONG, None),
    "log.segment.bytes": (OptionType.INT, "1073741824"),
    "log.segment.delete.delay.ms": (OptionType.LONG, "60000"),
    "max.connections": (OptionType.INT, INT_MAX),
    "controller.quota.window.num": (OptionType.INT, "11"),
    "controller.quota.window.size.seconds": (OptionType.INT, "1"),
    "quota.window.num": (OptionType.INT, "11"),
    "quota.window.size.seconds": (OptionType.INT, "1"),
    "max.connection.creation.rate": (OptionType.INT, INT_MAX),
    "max.connections.per.ip": (OptionType.INT, INT_MAX),
    "max.connections.per.ip.overrides": (OptionType.STRING, ""),
    "max.incremental.fetch.session.cache.slots": (OptionType.INT, "1000"),
    "message.max.bytes": (OptionType.INT, "1048588"),
    "min.insync.replicas": (OptionType.INT, "1"),
    "node.id": (OptionType.INT, "1"),
    "num.partitions": (OptionType.INT, "1"),
    "offset.metadata.max.bytes": (OptionType.INT, "4096"),
    "offsets.commit.timeout.ms": (OptionType.INT, "5000"),
    "offsets.load.buffer.size": (OptionType.INT, "5242880"),
    "offsets.retention.check.interval.ms": (OptionType.LONG, "600000"),
    "offsets.retention.minutes": (OptionType.INT, "10080"),
    "offsets.topic.compression.codec": (OptionType.INT, "0"),
    "offsets.topic.num.partitions": (OptionType.INT, "50"),
    "offsets.topic.replication.factor": (OptionType.SHORT, "3"),
    "offsets.topic.segment.bytes": (OptionType.INT, "104857600"),
    "ottla.ephemeral.max.bytes": (OptionType.LONG, "1073741824"),
    "ottla.peer.advertised.listener": (OptionType.STRING, ""),
    "ottla.peer.listener": (OptionType.STRING, ""),
    "producer.id.expiration.check.interval.ms": (OptionType.INT, "600000"),
    "producer.id.expiration.ms": (OptionType.INT, "86400000"),
    # Kafka's only default is GSSAPI.
    "sasl.enabled.mechanisms": (OptionType.LIST, "SCRAM-SHA-256,SCRAM-SHA-512"),
    "sasl.jaas.config": (OptionType.PASSWORD, None),
    "sasl.oauthbearer.clock.skew.seconds": (OptionType.INT, "30"),
    "sasl.oauthbearer.expected.audience": (OptionType.LIST, None),
    "sasl.oauthbearer.expected.issuer": (OptionType.STRING, None),
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": (OptionType.LONG, "3600000"),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": (OptionType.LONG, "10000"),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": (OptionType.LONG, "100"),
    "sasl.oauthbearer.jwks.endpoint.url": (OptionType.STRING, None),
    "sasl.oauthbearer.scope.claim.name": (OptionType.STRING, "scope"),
    "sasl.oauthbearer.sub.claim.name": (OptionType.STRING, "sub"),
    # Kafka's is 524288.
    "sasl.server.max.receive.size": (OptionType.INT, "65536"),
    "socket.request.max.bytes": (OptionType.INT, "104857600"),
    "ssl.cipher.suites": (OptionType.LIST, ""),
    "ssl.client.auth": (OptionType.STRING, "none"),
    "ssl.enabled.protocols": (OptionType.LIST, "TLSv1.2,TLSv1.3"),
    "ssl.key.password": (OptionType.PASSWORD, None),
    "ssl.keystore.certificate.chain": (OptionType.PASSWORD, None),
    "ssl.keystore.key": (OptionType.PASSWORD, None),
    "ssl.keystore.location": (OptionType.STRING, None),
    "ssl.keystore.password": (OptionType.PASSWORD, None),
    "ssl.keystore.type": (OptionType.STRING, "PEM"),
    "ssl.principal.mapping.rules": (OptionType.STRING, "DEFAULT"),
    "ssl.protocol": (OptionType.STRING, "TLSv1.3"),
    "ssl.truststore.certificates": (OptionType.PASSWORD, None),
    "ssl.truststore.location": (OptionType.STRING, None),
    "ssl.truststore.password": (OptionType.PASSWORD, None),
    "ssl.truststore.type": (OptionType.STRING, "PEM"),
    "super.users": (OptionType.STRING, ""),
    "telemetry.max.bytes": (OptionType.INT, "1048576"),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": (OptionType.INT, "10000"),
    "transaction.max.timeout.ms": (OptionType.INT, "900000"),
    "transaction.partition.verification.enable": (OptionType.BOOLEAN, "true"),
    "transaction.remove.expired.transaction.cleanup.interval.ms": (OptionType.INT, "3600000"),
    "transaction.state.log.load.buffer.size": (OptionType.INT, "5242880"),
    "transaction.state.log.min.isr": (OptionType.INT, "2"),
    "transaction.state.log.num.partitions": (OptionType.INT, "50"),
    "transaction.state.log.replication.factor": (OptionType.SHORT, "3"),
    "transaction.state.log.segment.bytes": (OptionType.INT, "104857600"),
    "transactional.id.expiration.ms": (OptionType.INT, "604800000"),
}


def test_defaults_and_types_are_kafkas() -> None:
    config = BrokerConfig()
    ours = {
        name: (known.type, value_text(config, name))
        for name, known in options_of(BrokerConfig).items()
    }
    assert ours == KAFKA_DEFAULTS


def test_a_topic_without_options_on_a_plain_broker_has_the_defaults() -> None:
    assert topic_config(BrokerConfig(), {}) == TopicConfig()


def test_every_topic_option_with_an_effect_can_be_set_for_the_whole_broker() -> None:
    for name, known in options_of(TopicConfig).items():
        if not known.has_effect:
            continue
        assert known.synonyms, name
        for synonym in known.synonyms:
            assert synonym in options_of(BrokerConfig), name


@pytest.mark.parametrize(
    ("given", "retention_ms"),
    [
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        (
            {
                "log.retention.hours": "2",
                "log.retention.minutes": "3",
                "log.retention.ms": "4",
            },
            4,
        ),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": "-1", "log.retention.hours": "2"}, -1),
    ],
)
def test_ms_goes_before_minutes_before_hours(given: dict[str, str], retention_ms: int) -> None:
    broker = BrokerConfig.read(given)
    assert topic_config(broker, {}).retention_ms == retention_ms
    assert topic_config(broker, {"retention.ms": "9"}).retention_ms == 9


def test_other_synonyms_have_their_order_too() -> None:
    broker = BrokerConfig.read({"log.roll.hours": 1, "log.flush.scheduler.interval.ms": 7})
    assert (topic_config(broker, {}).segment_ms, topic_config(broker, {}).flush_ms) == (3600000, 7)
    broker = BrokerConfig.read({"log.roll.ms": 2, "log.roll.hours": 1, "log.flush.interval.ms": 8})
    assert (topic_config(broker, {}).segment_ms, topic_config(broker, {}).flush_ms) == (2, 8)


def test_a_topic_takes_what_the_broker_was_given() -> None:
    broker = BrokerConfig.read(
        {"message.max.bytes": "5000", "compression.type": "zstd", "log.cleanup.policy": "compact"}
    )
    config = topic_config(broker, {"compression.type": "lz4"})
    assert config.max_message_bytes == 5000
    assert config.compression_type == "lz4"
    assert config.cleanup_policy == ("compact",)


def test_a_topic_option_can_conflict_with_the_brokers() -> None:
    broker = BrokerConfig.read({"log.cleaner.max.compaction.lag.ms": "10"})
    with pytest.raises(ConfigError, match=r"min.compaction.lag.ms \(11\)"):
        topic_config(broker, {"min.compaction.lag.ms": "11"})


def test_broker_options_are_no_topic_options() -> None:
    with pytest.raises(ConfigError, match=r"did you mean retention.ms\?"):
        topic_config(BrokerConfig(), {"log.retention.ms": "1"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"log.retention.ms": "0"}, "log.retention.ms=0 would keep nothing"),
        ({"log.retention.minutes": "0"}, "log.retention.minutes=0 would keep nothing"),
        ({"log.roll.ms": "0"}, "at least 1"),
        ({"max.connections.per.ip": "0"}, "at least 1"),
        ({"fetch.max.bytes": "1023"}, "at least 1024"),
        ({"broker.id": "1", "node.id": "2"}, "give only one"),
        ({"node.id": "-1"}, "at least 0"),
        ({"log.cleaner.min.compaction.lag.ms": LONG_MAX, "log.cleaner.max.compaction.lag.ms": "1"},
         "lower it or raise the other"),
        ({"group.max.size": "0"}, "at least 1"),
        ({"group.initial.rebalance.delay.ms": "-1"}, "at least 0"),
        ({"group.min.session.timeout.ms": "1800001"},
         r"group.min.session.timeout.ms \(1800001\) is above group.max.session.timeout.ms "
         r"\(1800000\): lower it or raise the other"),
        ({"group.max.session.timeout.ms": "5999"}, "lower it or raise the other"),
        ({"offset.metadata.max.bytes": "-1"}, "at least 0"),
        ({"offsets.commit.timeout.ms": "0"}, "at least 1"),
        ({"offsets.load.buffer.size": "0"}, "at least 1"),
        ({"offsets.retention.check.interval.ms": "0"}, "at least 1"),
        ({"offsets.retention.minutes": "0"}, "at least 1"),
        ({"offsets.topic.compression.codec": "5"}, "from 0 to 4"),
        ({"offsets.topic.compression.codec": "zstd"}, "a whole number"),
        ({"offsets.topic.num.partitions": "0"}, "at least 1"),
        ({"offsets.topic.replication.factor": "0"}, "at least 1"),
        ({"offsets.topic.replication.factor": "32768"}, "at most 16 bits"),
        ({"offsets.topic.segment.bytes": "13"}, "at least 14"),
        ({"group.max.sizes": "1"}, r"did you mean group.max.size\?"),
        ({"offsets.retention.minute": "1"}, r"did you mean offsets.retention.minutes\?"),
        ({"group.consumer.session.timeout.ms": "44999"},
         r"group.consumer.min.session.timeout.ms \(45000\) is above "
         r"group.consumer.session.timeout.ms \(44999\)"),
        ({"group.consumer.session.timeout.ms": "60001"}, "lower it or raise the other"),
        ({"group.consumer.min.session.timeout.ms": "60001"}, "lower it or raise the other"),
        ({"group.consumer.heartbeat.interval.ms": "4999"}, "lower it or raise the other"),
        ({"group.consumer.heartbeat.interval.ms": "15001"}, "lower it or raise the other"),
        ({"group.consumer.min.heartbeat.interval.ms": "15001"}, "lower it or raise the other"),
        ({"group.consumer.max.heartbeat.interval.ms": "45000",
          "group.consumer.heartbeat.interval.ms": "45000"}, "is not below"),
        ({"group.consumer.min.assignment.interval.ms": "1001"}, "lower it or raise the other"),
        ({"group.consumer.assignment.interval.ms": "15001"}, "lower it or raise the other"),
        ({"group.consumer.max.size": "0"}, "at least 1"),
        ({"group.consumer.assignors": "org.example.Assignor"}, "a list of uniform, range"),
        ({"group.consumer.assignors": ""}, "at least one assignor"),
        ({"group.consumer.migration.policy": "both"}, "one of disabled, upgrade"),
        ({"group.consumer.regex.refresh.interval.ms": "9999"}, "at least 10000"),
        ({"group.coordinator.threads": "4"}, "one event loop replaces the threads"),
        ({"group.coordinator.rebalance.protocols": "consumer"}, "must have classic"),
        ({"group.coordinator.rebalance.protocols": "classic,share"}, "a list of classic, consumer"),
        ({"group.share.max.groups": "1"}, "there are no share groups"),
        ({"share.coordinator.threads": "1"}, "there are no share groups"),
        ({"group.streams.max.size": "1"}, "there are no streams groups"),
        ({"offsets.commit.required.acks": "-1"}, "like records with acks=all"),
        ({"transaction.abort.timed.out.transaction.cleanup.interval.ms": "0"}, "at least 1"),
        ({"transaction.max.timeout.ms": "0"}, "at least 1"),
        ({"transaction.max.timeout.ms": "2147483648"}, "at most 32 bits"),
        ({"transaction.max.timeout.ms": "1", "max.transaction.timeout.ms": "2"}, "give only one"),
        ({"transaction.partition.verification.enable": "yes"}, "true or false"),
        ({"transaction.remove.expired.transaction.cleanup.interval.ms": "0"}, "at least 1"),
        ({"transaction.state.log.load.buffer.size": "0"}, "at least 1"),
        ({"transaction.state.log.min.isr": "0"}, "at least 1"),
        ({"transaction.state.log.num.partitions": "0"}, "at least 1"),
        ({"transaction.state.log.replication.factor": "0"}, "at least 1"),
        ({"transaction.state.log.replication.factor": "32768"}, "at most 16 bits"),
        ({"transaction.state.log.segment.bytes": "13"}, "at least 14"),
        ({"transactional.id.expiration.ms": "0"}, "at least 1"),
        ({"transactional.id.expiration": "1"}, r"did you mean transactional.id.expiration.ms\?"),
        ({"transaction.timeout.ms": "1"}, "it is an option of clients"),
        ({"transaction.two.phase.commit.enable": "true"}, r"without two-phase commit \(KIP-939\)"),
        ({"add.partitions.to.txn.retry.backoff.ms": "20"}, "producers retry"),
        ({"add.partitions.to.txn.retry.backoff.max.ms": "9"}, "producers retry"),
        ({"log.dirs": "/var/kafka"}, "use --data DIR"),
        ({"listeners": ""}, "listeners is empty"),
        ({"listeners": "localhost:9092"}, "NAME://HOST:PORT"),
        ({"listener.name.plaintext.max.conections": "1"}, r"did you mean max.connections\?"),
        ({"listener.name.PLAINTEXT.max.connections": "1"}, "in lower case"),
        ({"listener.name.plaintext.ssl.client.auth": "required"}, "has no effect"),
        ({"listener.name.ssl.max.connections": "1"}, "listeners has no SSL"),
        ({"ssl.client.auth": "required"}, "ssl.client.auth has no effect"),
        ({"ssl.provider": "x"}, "classes of a JVM"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "sasl.enabled.mechanisms has no effect"),
        ({"connections.max.reauth.ms": "1"}, "connections.max.reauth.ms has no effect"),
        ({"sasl.mechanism.inter.broker.protocol": "PLAIN"}, "do not log in to each other"),
        ({**SASL, "sasl.enabled.mechanisms": "GSSAPI"}, "a list of PLAIN"),
        ({**SASL, "sasl.enabled.mechanisms": ""}, "is empty"),
        ({**SASL, "sasl.enabled.mechanisms": "OAUTHBEARER"}, "jwks.endpoint.url"),
        ({**SASL, "sasl.jaas.config": "x required;"}, "both in lower case"),
        ({**SASL, f"{OF_PLAIN}.sasl.jaas.config": "x required;"}, "no PLAIN"),
        (
            {**SASL, "sasl.enabled.mechanisms": "PLAIN", f"{OF_PLAIN}.sasl.jaas.config": "x required;"},
            "has to name .*PlainLoginModule",
        ),
        (
            {**SASL, "sasl.enabled.mechanisms": "PLAIN", f"{OF_PLAIN}.sasl.jaas.config": "x required"},
            'semicolon.*required user_alice="secret";',
        ),
        ({**SASL, f"{OF_PLAIN}.sasl.enabled.mechanisms": "PLAIN"}, "sasl.enabled.mechanisms"),
        ({"max.connections.per.ip": "0"}, "max.connections.per.ip.overrides"),
        ({"max.connections.per.ip.overrides": "localhost:1"}, "ADDRESS:NUMBER"),
        ({"max.connections.per.ip.overrides": "10.0.0.1"}, "ADDRESS:NUMBER"),
        ({"listeners": "SASL-SSL://:1"}, "SASL-SSL is none of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"zookeeper.connect": "x"}, "is a broker option of Kafka that Ottla does not have"),
        ({"log.segment.byte": "x"}, r"did you mean log.segment.bytes\?"),
    ],
)  # fmt: skip
def test_bad_options_are_refused_with_advice(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BrokerConfig.read(given)


def test_the_shortest_session_timeout_may_be_the_longest() -> None:
    config = BrokerConfig.read(
        {"group.min.session.timeout.ms": "7000", "group.max.session.timeout.ms": "7000"}
    )
    assert config.group_min_session_timeout_ms == config.group_max_session_timeout_ms


def test_broker_id_is_the_older_name_of_node_id() -> None:
    assert BrokerConfig.read({"broker.id": "7"}).node_id == 7


def test_the_first_names_of_kip_98_are_accepted() -> None:
    config = BrokerConfig.read(
        {"max.transaction.timeout.ms": "7", "transactional.id.timeout.ms": "8"}
    )
    assert config.transaction_max_timeout_ms == 7
    assert config.transactional_id_expiration_ms == 8


def test_nothing_that_is_served_is_listed_as_kafkas_only() -> None:
    for config_class in (TopicConfig, BrokerConfig):
        for absent in config_class.unsupported:
            assert not any(
                name == absent or (absent.endswith(".") and name.startswith(absent))
                for name in options_of(config_class)
            ), absent


def test_a_topic_option_without_effect_takes_nothing_from_the_broker() -> None:
    for name, known in options_of(TopicConfig).items():
        if not known.has_effect:
            assert not set(known.synonyms) & set(options_of(BrokerConfig)), name


def test_what_was_altered_goes_before_what_was_given() -> None:
    static = BrokerConfig.read({"log.segment.bytes": "100", "node.id": "5"})
    dynamic = DynamicOptions(
        of_cluster={"log.segment.bytes": "200", "message.max.bytes": "300"},
        of_node={"log.segment.bytes": "400"},
    )
    effective = with_dynamic(static, dynamic)
    assert (effective.log_segment_bytes, effective.message_max_bytes) == (400, 300)
    assert effective.node_id == 5


def test_a_read_only_option_cannot_be_altered() -> None:
    with pytest.raises(ConfigError, match=r"node.id cannot be altered: set it when the broker"):
        with_dynamic(BrokerConfig(), DynamicOptions({}, {"node.id": "2"}))


def test_a_listener_has_the_options_of_the_broker_except_its_own() -> None:
    config = BrokerConfig.read(
        {
            "listeners": "INTERNAL://:1,EXTERNAL://:2",
            "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:SSL",
            "max.connections": "10",
            "ssl.keystore.location": "broker.pem",
            "listener.name.external.max.connections": "3",
            "listener.name.external.ssl.keystore.location": "external.pem",
        }
    )
    internal, external = config.of_listener("INTERNAL"), config.of_listener("EXTERNAL")
    assert (internal.max_connections, external.max_connections) == (10, 3)
    assert internal.ssl_keystore_location == "broker.pem"
    assert external.ssl_keystore_location == "external.pem"
    assert BrokerConfig.read(config.texts()) == config
    dynamic = DynamicOptions({}, {"listener.name.external.max.connections": "4"})
    assert with_dynamic(config, dynamic).of_listener("EXTERNAL").max_connections == 4
