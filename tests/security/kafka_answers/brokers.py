"""Brokers with an authorizer: callers are anonymous at one listener, and a super user logs in at another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from tests import maven
from tests.apache_kafka.programs import Kafka, free_ports

import ottla

PASSWORDS = {"admin": "admin-secret", "alice": "alice-secret"}
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
# What our broker does not have, turned off.
FEATURES_OFF = ("share.version=0", "streams.version=0", "eligible.leader.replicas.version=0")

# What both need: sessions last as long as the questions.
OPTIONS: dict[str, object] = {
    "authorizer.class.name": AUTHORIZER,
    "super.users": "User:admin",
    "auto.create.topics.enable": "true",
    "group.initial.rebalance.delay.ms": 0,
    "group.max.session.timeout.ms": 1_800_000,
    "group.consumer.heartbeat.interval.ms": 500,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.session.timeout.ms": 1_800_000,
    "group.consumer.max.session.timeout.ms": 1_800_000,
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}
# Who is allowed what no ACL is about.
OPEN_WITHOUT_ACLS: dict[str, object] = {"allow.everyone.if.no.acl.found": "true"}
_LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="admin" password="{PASSWORDS["admin"]}" '
    + " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
    + ";"
)


class Addresses(NamedTuple):
    """Where a broker listens; a controller has an authorizer of its own, which hears of ACLs at another time."""

    anonymous: str
    login: str
    controller: str | None = None


@contextmanager
def secured_ottla(more: Mapping[str, object] = MappingProxyType({})) -> Iterator[Addresses]:
    """Our broker."""
    options = {
        **OPTIONS,
        **more,
        "listeners": "OPEN://127.0.0.1:0,LOGIN://127.0.0.1:0",
        "listener.security.protocol.map": "OPEN:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": _LOGIN,
    }
    with ottla.Broker(options) as broker:
        yield Addresses(broker.servers_of_listener("OPEN"), broker.servers_of_listener("LOGIN"))


@contextmanager
def secured_kafka(
    folder: Path, more: Mapping[str, object] = MappingProxyType({})
) -> Iterator[Addresses]:
    """Apache Kafka; its broker and its controller log in at each other as the super user."""
    jars = maven.kafka_server(folder)
    ports = free_ports(3)
    anonymous, login, controller = (f"127.0.0.1:{port}" for port in ports)
    listeners = f"OPEN://{anonymous},LOGIN://{login}"
    options: dict[str, object] = {
        **OPTIONS,
        **more,
        "listeners": f"{listeners},CONTROLLER://{controller}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "OPEN:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "controller.quorum.voters": f"1@{controller}",
        "inter.broker.listener.name": "LOGIN",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": _LOGIN,
        "listener.name.controller.plain.sasl.jaas.config": _LOGIN,
    }
    kafka = Kafka(jars, folder, options, FEATURES_OFF, ports=(ports[0], ports[2]))
    try:
        kafka.start()
        yield Addresses(anonymous, login, controller)
        kafka.stop()
    finally:
        kafka.kill()
