"""Client options of Kafka that Ottla does not have, with what to do instead."""

from __future__ import annotations

from collections.abc import Mapping

_JVM = "remove it, it chooses among classes of a JVM"
_METRICS = "remove it, and call metrics() of the client"
_TOKENS = (
    "give a callable that returns tokens as sasl.login.callback.handler.class, "
    "and do there what the option did"
)
_KERBEROS = "remove it, GSSAPI is not offered: use SCRAM-SHA-512, PLAIN or OAUTHBEARER"

UNSUPPORTED_SHARED_OPTIONS: Mapping[str, str] = {
    "auto.include.jmx.reporter": _METRICS,
    "bootstrap.resolve.timeout.ms": (
        "remove it, host names are resolved whenever the client connects, until the call times out"
    ),
    "config.providers": "remove it, and read credentials in the program, before it makes the client",
    "metadata.cluster.check.enable": (
        "remove it, connections do not tell the broker which cluster and node they want"
    ),
    "metric.reporters": _METRICS,
    "metrics.": _METRICS,
    "sasl.client.callback.handler.class": (
        "give the credentials as sasl.jaas.config or as sasl.username and sasl.password"
    ),
    "sasl.kerberos.": _KERBEROS,
    "sasl.login.": _TOKENS,
    "sasl.oauthbearer.": _TOKENS,
    "security.providers": _JVM,
    "ssl.engine.factory.class": "give PEM stores, ssl.keystore.location and ssl.truststore.location",
    "ssl.keymanager.algorithm": _JVM,
    "ssl.provider": _JVM,
    "ssl.secure.random.implementation": _JVM,
    "ssl.trustmanager.algorithm": _JVM,
}

_RACKS = "remove it, the producer does not prefer partitions with leaders in its own rack"

UNSUPPORTED_PRODUCER_OPTIONS: Mapping[str, str] = {
    **UNSUPPORTED_SHARED_OPTIONS,
    "buffer.memory.allocation.strategy": (
        "remove it, batches only need the memory of the records that they have"
    ),
    "client.rack": _RACKS,
    "partitioner.rack.aware": _RACKS,
}

UNSUPPORTED_CONSUMER_OPTIONS: Mapping[str, str] = {
    **UNSUPPORTED_SHARED_OPTIONS,
    "internal.": "remove it, it is internal to Kafka's libraries",
    "share.": "remove it, there are no share groups",
}

UNSUPPORTED_ADMIN_OPTIONS: Mapping[str, str] = {
    **UNSUPPORTED_SHARED_OPTIONS,
    "bootstrap.controllers": "use bootstrap.servers, brokers forward requests for controllers",
}

LIBRDKAFKA_NAMES: Mapping[str, str] = {
    "batch.num.messages": "batch.size, which counts bytes",
    "compression.codec": "compression.type",
    "debug": "Python's logger `ottla`",
    "auto.commit.enable": "enable.auto.commit",
    "default_topic_conf": "the options themselves, beside the others",
    "enable.auto.offset.store": "enable.auto.commit=false, and commit what is processed",
    "enable.gapless.guarantee": "max.in.flight.requests.per.connection and retries",
    "enable.partition.eof": "end_offsets() and position(): poll() does not report the end of a partition",
    "error_cb": "the exceptions of the calls, or health()",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "log_level": "Python's logger `ottla`",
    "logger": "Python's logger `ottla`",
    "message.max.bytes": "max.request.size",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "metadata.broker.list": "bootstrap.servers",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "oauth_cb": "sasl.login.callback.handler.class",
    "offset_commit_cb": "on_commit of an interceptor, or the callback of commit_async()",
    "on_commit": "on_commit of an interceptor, or the callback of commit_async()",
    "on_delivery": "on_delivery of send()",
    "partitioner": "partitioner.class",
    "queue.buffering.max.kbytes": "buffer.memory",
    "queue.buffering.max.messages": "buffer.memory, which counts bytes",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
    "sasl.mechanisms": "sasl.mechanism",
    "socket.timeout.ms": "request.timeout.ms",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.location, one PEM file with key and certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.location, one PEM file with key and certificates",
    "ssl.key.pem": "ssl.keystore.key",
    "statistics.interval.ms": "metrics()",
    "stats_cb": "metrics()",
    "throttle_cb": "metrics()",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
}

_VERSION = "remove it, versions are agreed on with each broker"
_PEM = "ssl.keystore.location, one PEM file with key and certificates"

KAFKA_PYTHON_NAMES: Mapping[str, str] = {
    "api_version": _VERSION,
    "api_version_auto_timeout_ms": _VERSION,
    "consumer_timeout_ms": "poll(timeout), which returns no records when the time is over",
    "kafka_client": "remove it, there is one network",
    "metrics_enabled": "metrics(), which is always there",
    "sasl_oauth_token_provider": "sasl.login.callback.handler.class",
    "sasl_plain_password": "sasl.password",
    "sasl_plain_username": "sasl.username",
    "selector": "remove it, the event loop chooses",
    "socket_options": "send.buffer.bytes and receive.buffer.bytes",
    "ssl_cafile": "ssl.truststore.location",
    "ssl_certfile": _PEM,
    "ssl_check_hostname": "ssl.endpoint.identification.algorithm, empty for no check",
    "ssl_ciphers": "ssl.cipher.suites",
    "ssl_context": "ssl.truststore.location and ssl.keystore.location, PEM files",
    "ssl_crlfile": "ssl.truststore.location: lists of revoked certificates are not read",
    "ssl_keyfile": _PEM,
    "ssl_password": "ssl.key.password",
}
"""Replacements for names that only kafka-python and aiokafka have."""

_SERVERS = "use bootstrap.servers, with the HOST:PORT of a broker or more"
_TOPICS = "topics are named by subscribe(), assign() and send()"

_SCHEMAS = (
    "it is an option of serializers with schemas: give it to the serializer, "
    "AvroSerializer(Order, config={...})"
)
_SCHEMA_OPTIONS = (
    "auto.register.schemas",
    "basic.auth.credentials.source",
    "basic.auth.user.info",
    "bearer.auth.token",
    "key.subject.name.strategy",
    "latest.compatibility.strict",
    "normalize.schemas",
    "schema.registry.url",
    "specific.avro.reader",
    "use.latest.version",
    "use.schema.id",
    "value.subject.name.strategy",
)

LIKELY_MISTAKES: Mapping[str, str] = {
    **dict.fromkeys(_SCHEMA_OPTIONS, _SCHEMAS),
    "address": _SERVERS,
    "bootstrap": _SERVERS,
    "bootstrap.brokers": _SERVERS,
    "broker": _SERVERS,
    "broker.list": _SERVERS,
    "brokers": _SERVERS,
    "host": _SERVERS,
    "hosts": _SERVERS,
    "kafka": _SERVERS,
    "port": _SERVERS,
    "server": _SERVERS,
    "servers": _SERVERS,
    "topic": _TOPICS,
    "topics": _TOPICS,
    "url": _SERVERS,
}
"""Replacements for names that users guess."""

NAMES_IN_OTHER_CLIENTS: Mapping[str, Mapping[str, str]] = {
    "librdkafka": LIBRDKAFKA_NAMES,
    "kafka-python": KAFKA_PYTHON_NAMES,
}
"""Replacements for names of other client libraries, by library."""
