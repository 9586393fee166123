"""Broker options of Kafka that Ottla does not have, with what to do instead."""

from __future__ import annotations

from collections.abc import Mapping

_REMOVE = "remove it"
_CLUSTER = "remove it, brokers need no controller, quorum or ZooKeeper"
_REPLICATION = "remove it, the storage engine replicates"
SET_ON_CLIENT = "it is an option of clients, set it there"
_BETWEEN_NODES = (
    "remove it, the nodes of a cluster do not connect to each other; clients have it, too"
)
_THREADS = "remove it, one event loop replaces the threads"
_SHARE_GROUPS = "remove it, there are no share groups"
_DEFAULT_QUOTAS = (
    "Kafka removed it, too: set a quota for the default client id instead, "
    "as kafka-configs --entity-type clients --entity-default does"
)

_JVM = "remove it, it chooses among classes of a JVM"

UNSUPPORTED_TLS_OPTIONS: Mapping[str, str] = {
    "ssl.allow.": "remove it, new certificates are used as soon as their file has changed",
    "ssl.endpoint.identification.algorithm": _BETWEEN_NODES,
    "ssl.engine.factory.class": _JVM,
    "ssl.keymanager.algorithm": _JVM,
    "ssl.provider": _JVM,
    "ssl.secure.random.implementation": _JVM,
    "ssl.trustmanager.algorithm": _JVM,
}

_NODES = "remove it, the nodes of a cluster do not log in to each other"

UNSUPPORTED_SASL_OPTIONS: Mapping[str, str] = {
    "sasl.client.callback.handler.class": _BETWEEN_NODES,
    "sasl.kerberos.": "remove it, there is no Kerberos",
    "sasl.login.": _BETWEEN_NODES,
    "sasl.mechanism": "use sasl.enabled.mechanisms",
    "sasl.mechanism.controller.protocol": _NODES,
    "sasl.mechanism.inter.broker.protocol": _NODES,
    "sasl.oauthbearer.assertion.": _BETWEEN_NODES,
    "sasl.oauthbearer.client.": _BETWEEN_NODES,
    "sasl.oauthbearer.header.urlencode": _BETWEEN_NODES,
    "sasl.oauthbearer.jwt.retriever.class": _BETWEEN_NODES,
    "sasl.oauthbearer.jwt.validator.class": _JVM,
    "sasl.oauthbearer.scope": _BETWEEN_NODES,
    "sasl.oauthbearer.token.endpoint.url": _BETWEEN_NODES,
    "sasl.server.callback.handler.class": _JVM,
}

UNSUPPORTED_BROKER_OPTIONS: Mapping[str, str] = {
    "acks": SET_ON_CLIENT,
    "add.partitions.to.txn.retry.backoff.": "remove it, producers retry",
    "alter.config.policy.class.name": _REMOVE,
    "alter.log.dirs.": _REPLICATION,
    "auto.leader.rebalance.enable": _REPLICATION,
    "auto.offset.reset": SET_ON_CLIENT,
    "background.threads": _THREADS,
    "bootstrap.servers": SET_ON_CLIENT,
    "broker.heartbeat.interval.ms": _CLUSTER,
    "broker.id.generation.enable": _CLUSTER,
    "broker.session.timeout.ms": _CLUSTER,
    "client.quota.": "remove it, quotas are those that are set for users, client ids and addresses",
    "control.plane.listener.name": _CLUSTER,
    "controlled.shutdown.": _CLUSTER,
    "controller.listener.names": _CLUSTER,
    "controller.performance.": _CLUSTER,
    "controller.quorum.": _CLUSTER,
    "controller.socket.timeout.ms": _CLUSTER,
    "create.topic.policy.class.name": _REMOVE,
    "delegation.token.": "remove it, there are no delegation tokens",
    "delete.records.purgatory.purge.interval.requests": _REMOVE,
    "early.start.listeners": _REMOVE,
    "enable.auto.commit": SET_ON_CLIENT,
    "enable.idempotence": SET_ON_CLIENT,
    "fetch.purgatory.purge.interval.requests": _REMOVE,
    "follower.replication.throttled.rate": _REPLICATION,
    "group.consumer.assignor.offload.enable": "remove it, one event loop assigns partitions",
    "group.coordinator.append.linger.ms": "remove it, requests that arrive together are written together",
    "group.coordinator.background.threads": _THREADS,
    "group.coordinator.cached.buffer.max.bytes": _REMOVE,
    "group.coordinator.threads": _THREADS,
    "group.id": SET_ON_CLIENT,
    "group.instance.id": SET_ON_CLIENT,
    "group.share.": _SHARE_GROUPS,
    "group.streams.": "remove it, there are no streams groups",
    "heartbeat.interval.ms": SET_ON_CLIENT,
    "initial.broker.registration.timeout.ms": _CLUSTER,
    "inter.broker.": _CLUSTER,
    "isolation.level": SET_ON_CLIENT,
    "kafka.metrics.": _REMOVE,
    "leader.imbalance.": _REPLICATION,
    "leader.replication.throttled.rate": _REPLICATION,
    "log.cleaner.io.buffer.load.factor": "use log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.buffer.size": "remove it, segments are memory-mapped",
    "log.cleaner.threads": _THREADS,
    "log.dir": "use --data DIR",
    "log.dir.failure.timeout.ms": _REMOVE,
    "log.dirs": "use --data DIR",
    "log.flush.start.offset.checkpoint.interval.ms": "use log.flush.offset.checkpoint.interval.ms",
    "log.initial.task.delay.ms": _REMOVE,
    "log.local.retention.bytes": "remove it, there is no tiered storage",
    "log.local.retention.ms": "remove it, there is no tiered storage",
    "log.message.downconversion.enable": "remove it, only record batches v2 are kept and served",
    "log.message.format.version": "remove it, the format is always record batches v2",
    "log.message.timestamp.difference.max.ms": (
        "use log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms"
    ),
    "log.preallocate": "remove it, segment files grow as records arrive",
    "max.poll.interval.ms": SET_ON_CLIENT,
    "max.request.partition.size.limit": _REMOVE,
    "metadata.": _CLUSTER,
    "metric.reporters": _REMOVE,
    "metrics.": _REMOVE,
    "num.io.threads": _THREADS,
    "num.network.threads": _THREADS,
    "num.recovery.threads.per.data.dir": _THREADS,
    "num.replica.": _REPLICATION,
    "offsets.commit.required.acks": "remove it, offsets are written like records with acks=all",
    "password.encoder.": _REMOVE,
    "principal.builder.class": (
        "remove it, ssl.principal.mapping.rules says what names certificates stand for"
    ),
    "process.roles": _CLUSTER,
    "producer.purgatory.purge.interval.requests": _REMOVE,
    "queued.max.request.bytes": "use socket.request.max.bytes",
    "queued.max.requests": _REMOVE,
    "quota.consumer.default": _DEFAULT_QUOTAS,
    "quota.producer.default": _DEFAULT_QUOTAS,
    "remote.": "remove it, there is no tiered storage",
    "replica.": _REPLICATION,
    "replication.quota.": _REPLICATION,
    "request.timeout.ms": _CLUSTER,
    "reserved.broker.max.id": _CLUSTER,
    **UNSUPPORTED_SASL_OPTIONS,
    "security.": "remove it, the nodes of a cluster need no listener between them",
    "server.max.startup.time.ms": _REMOVE,
    "session.timeout.ms": SET_ON_CLIENT,
    "share.": _SHARE_GROUPS,
    "socket.connection.setup.timeout.": _CLUSTER,
    "socket.listen.backlog.size": _REMOVE,
    "socket.receive.buffer.bytes": "remove it, the operating system sizes the buffer",
    "socket.send.buffer.bytes": "remove it, the operating system sizes the buffer",
    **UNSUPPORTED_TLS_OPTIONS,
    "transaction.timeout.ms": SET_ON_CLIENT,
    "transaction.two.phase.commit.enable": (
        "remove it, transactions end by commit, abort or timeout, without two-phase commit (KIP-939)"
    ),
    "transactional.id": SET_ON_CLIENT,
    "unclean.leader.election.": _REPLICATION,
    "unstable.": _REMOVE,
    "zookeeper.": _CLUSTER,
}
