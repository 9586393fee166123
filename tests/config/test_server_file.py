"""Kafka's own server.properties: what is used, what is named, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.config.authorization import super_user_principals
from ottla.config.broker import BrokerConfig
from ottla.config.listeners import ListenerSettings
from ottla.config.server_file import ServerFile
from ottla.config.unsupported_broker_options import UNSUPPORTED_BROKER_OPTIONS
from ottla.errors import ConfigError
from ottla.model import Endpoint

# The keys and values of Apache Kafka's config/server.properties, in the order in which they stand there.
KAFKAS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/var/lib/kafka
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""
ZOOKEEPERS = """\
broker.id=0
num.network.threads=3
log.dirs=/var/lib/kafka
zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=18000
group.initial.rebalance.delay.ms=0
"""


def file_of(folder: Path, text: str) -> ServerFile:
    path = folder / "server.properties"
    path.write_text(text, encoding="utf-8")
    return ServerFile(path)


def test_kafkas_own_file_is_used_as_far_as_it_means_something(tmp_path: Path) -> None:
    file = file_of(tmp_path, KAFKAS)
    assert file.data_dir() == "/var/lib/kafka"
    config = BrokerConfig.read(file.options)
    listen, advertised = Endpoint("::", 9092), Endpoint("localhost", 9092)
    assert config.all_listeners == (ListenerSettings("PLAINTEXT", "PLAINTEXT", listen, advertised),)
    assert (config.node_id, config.transaction_state_log_min_isr) == (1, 1)
    assert config.given == {
        "listeners",
        "advertised.listeners",
        "listener.security.protocol.map",
        "node.id",
        "socket.request.max.bytes",
        "num.partitions",
        "offsets.topic.replication.factor",
        "transaction.state.log.replication.factor",
        "transaction.state.log.min.isr",
        "log.retention.hours",
        "log.segment.bytes",
        "log.retention.check.interval.ms",
    }
    places = {"log.dirs"}
    every = {line.partition("=")[0] for line in KAFKAS.splitlines()}
    assert set(file.without_effect) == every - config.given - places, (
        "whatever is not used is named"
    )


def test_a_file_of_zookeepers_time_is_used_too(tmp_path: Path) -> None:
    file = file_of(tmp_path, ZOOKEEPERS)
    assert BrokerConfig.read(file.options).node_id == 0
    assert "listeners" not in file.options
    assert file.without_effect[-1] == "zookeeper.connection.timeout.ms"


def test_what_says_something_to_an_authorizer_has_no_effect_without_one(tmp_path: Path) -> None:
    file = file_of(tmp_path, "super.users=User:me\nallow.everyone.if.no.acl.found=true\n")
    assert file.without_effect == ("super.users", "allow.everyone.if.no.acl.found")


def test_an_authorizer_is_used(tmp_path: Path) -> None:
    file = file_of(
        tmp_path,
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
        "super.users=User:me; User:CN=a,O=b\nallow.everyone.if.no.acl.found=true\n",
    )
    config = BrokerConfig.read(file.options)
    assert super_user_principals(config.super_users) == ("User:me", "User:CN=a,O=b")
    assert config.allow_everyone_if_no_acl_found
    assert file.without_effect == ()


def test_what_kafka_needs_between_its_brokers_has_no_effect(tmp_path: Path) -> None:
    names = [
        "ssl.endpoint.identification.algorithm",
        "listener.name.external.ssl.endpoint.identification.algorithm",
        "sasl.login.callback.handler.class",
        "listener.name.external.plain.sasl.login.callback.handler.class",
        "listener.name.external.plain.sasl.server.callback.handler.class",
        "sasl.oauthbearer.token.endpoint.url",
    ]
    file = file_of(
        tmp_path,
        "listeners=EXTERNAL://:1\nlistener.security.protocol.map=EXTERNAL:SASL_PLAINTEXT\n"
        "sasl.enabled.mechanisms=PLAIN\n" + "".join(f"{name}=x\n" for name in names),
    )
    assert list(file.without_effect) == names
    BrokerConfig.read(file.options)


def test_options_of_mechanisms_that_are_enabled_by_default_are_used(tmp_path: Path) -> None:
    name = "listener.name.external.scram-sha-512.connections.max.reauth.ms"
    file = file_of(
        tmp_path,
        "listeners=EXTERNAL://:1\nlistener.security.protocol.map=EXTERNAL:SASL_PLAINTEXT\n"
        f"{name}=60000\n",
    )
    assert file.without_effect == ()
    options = BrokerConfig.read(file.options).of_listener("EXTERNAL")
    assert options.of_mechanism("SCRAM-SHA-512").connections_max_reauth_ms == 60_000


def test_only_kafkas_own_names_of_clients_are_accepted(tmp_path: Path) -> None:
    package = "org.apache.kafka.common.security.authenticator"
    file = file_of(tmp_path, f"principal.builder.class={package}.DefaultKafkaPrincipalBuilder")
    assert file.without_effect == ("principal.builder.class",)
    with pytest.raises(ConfigError, match="other names than ACLs have"):
        file_of(tmp_path, "principal.builder.class=com.example.Builder")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("create.topic.policy.class.name=x.Y", ["create.topic.policy", "enforced"]),
        ("alter.config.policy.class.name=x.Y", ["alter.config.policy", "enforced"]),
        ("config.providers=env", ["config.providers"]),
        ("remote.log.storage.system.enable=true", ["tiered storage"]),
        ("process.roles=controller", ["process.roles=controller"]),
        ("controller.quorum.voters=1@a:1,2@b:1,3@c:1", ["controller.quorum.voters", "several"]),
        ("num.partition=3", ["num.partition", "did you mean num.partitions?"]),
        ("acks=all", ["acks", "option of clients"]),
        ("my.own.option=1", ["my.own.option"]),
    ],
)
def test_what_cannot_be_left_out_is_refused(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        file_of(tmp_path, text)
    assert str(refused.value).startswith(str(tmp_path / "server.properties"))
    for word in words:
        assert word in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("listeners=SSL://:9092", ["SSL", "needs a certificate", "ssl.keystore.location"]),
        (
            "listeners=CLIENTS://:9092\nlistener.security.protocol.map=CLIENTS:SSL",
            ["CLIENTS (SSL)", "needs a certificate"],
        ),
        ("listeners=PLAINTEXT://:1,PLAINTEXT2://:2", ["protocol.map", "PLAINTEXT2"]),
        ("listeners=PLAINTEXT://:1,PLAINTEXT://:2", ["two listeners", "PLAINTEXT"]),
        ("listeners=PLAINTEXT://:1,SASL_PLAINTEXT://:1", ["port 1 twice"]),
        (
            "listeners=CONTROLLER://:1\ncontroller.listener.names=CONTROLLER",
            ["none for clients"],
        ),
        ("listeners=localhost:9092", ["NAME://HOST:PORT"]),
        ("listeners=PLAINTEXT://:99999", ["NAME://HOST:PORT"]),
        ("advertised.listeners=PLAINTEXT://:9092", ["no host"]),
        ("advertised.listeners=PLAINTEXT://0.0.0.0:9092", ["no host"]),
        ("advertised.listeners=SSL://h:9092", ["listeners has no SSL"]),
        ("listener.name.other.ssl.client.auth=required", ["listeners has no OTHER"]),
        ("listeners=SSL://:1\nssl.keystore.location=store.jks", ["JKS", "keytool"]),
        (
            "listeners=SSL://:1\nssl.keystore.location=k.pem\nssl.client.auth=required",
            ["ssl.client.auth=required", "ssl.truststore.location"],
        ),
    ],
)
def test_listeners_that_cannot_be_had_are_refused(
    tmp_path: Path, text: str, words: list[str]
) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.read(file_of(tmp_path, text).options)
    for word in words:
        assert word in str(refused.value)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("listeners=PLAINTEXT://127.0.0.1:9092", [("PLAINTEXT", "PLAINTEXT", "127.0.0.1:9092")]),
        ("listeners=PLAINTEXT://[::1]:9092", [("PLAINTEXT", "PLAINTEXT", "[::1]:9092")]),
        ("listeners=plaintext://0.0.0.0:0", [("PLAINTEXT", "PLAINTEXT", "0.0.0.0:0")]),
        (
            "listeners=IN://:1,OUT://h:2,CONTROLLER://:3\nssl.keystore.location=k.pem\n"
            "listener.security.protocol.map=IN:PLAINTEXT,OUT:SSL,CONTROLLER:PLAINTEXT",
            [("IN", "PLAINTEXT", "[::]:1"), ("OUT", "SSL", "h:2")],
        ),
        ("listeners=", [("PLAINTEXT", "PLAINTEXT", "127.0.0.1:9092")]),
        ("", [("PLAINTEXT", "PLAINTEXT", "127.0.0.1:9092")]),
    ],
)
def test_listeners_are_read_as_kafka_does(
    tmp_path: Path, text: str, found: list[tuple[str, str, str]]
) -> None:
    config = BrokerConfig.read(file_of(tmp_path, text).options)
    assert [(each.name, each.protocol, str(each.listen)) for each in config.all_listeners] == found


def test_options_of_a_controllers_listener_have_no_effect(tmp_path: Path) -> None:
    file = file_of(tmp_path, "listener.name.controller.ssl.keystore.location=/k")
    assert file.without_effect == ("listener.name.controller.ssl.keystore.location",)


def test_two_data_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"names 2 folders.*--data DIR"):
        file_of(tmp_path, "log.dirs=/a,/b").data_dir()
    assert file_of(tmp_path, "log.dir=/a").data_dir() == "/a"


@pytest.mark.parametrize("name", UNSUPPORTED_BROKER_OPTIONS)
def test_no_option_of_kafkas_is_left_out_silently(tmp_path: Path, name: str) -> None:
    name = f"{name}x" if name.endswith(".") else name
    try:
        told = ", ".join(file_of(tmp_path, f"{name}=1").without_effect)
    except ConfigError as error:
        told = str(error)
    assert name in told or name in ("log.dirs", "log.dir")


def test_security_options_of_a_plain_listener_mean_nothing_in_kafka_either(tmp_path: Path) -> None:
    file = file_of(tmp_path, "listeners=PLAINTEXT://h:1\nssl.keystore.location=/k\nconfluent.x=1")
    assert file.without_effect == ("ssl.keystore.location", "confluent.x")


def test_logins_of_kafkas_own_file_are_used(tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    jaas = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    lines = [
        "listeners=SASL_PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "controller.listener.names=CONTROLLER",
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512",
        f'{jaas}={module} username="admin" password="x" user_admin="x" user_alice="y";',
        "connections.max.reauth.ms=60000",
    ]
    without_effect = [
        "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config=x",
        "listener.name.controller.plain.sasl.jaas.config=x",
        "sasl.mechanism.inter.broker.protocol=PLAIN",
        "sasl.kerberos.service.name=kafka",
    ]
    file = file_of(tmp_path, "\n".join((*lines, *without_effect)))
    assert {line.partition("=")[0] for line in without_effect} <= set(file.without_effect)
    plain = BrokerConfig.read(file.options).of_listener("SASL_PLAINTEXT").of_mechanism("PLAIN")
    assert plain.listed_passwords("PLAIN", "") == {"admin": "x", "alice": "y"}
    assert plain.connections_max_reauth_ms == 60_000
