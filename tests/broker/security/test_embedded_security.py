"""`ottla.Broker(security=…)`: a secured broker in one line, with ready options for every client."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest

import ottla
from ottla.admin import (
    AclBinding,
    AclOperation,
    AclPermission,
    AclResourceType,
    NewTopic,
    PatternType,
)
from ottla.errors import ConfigError, ErrorCode, KafkaError

KINDS = ("plain", "scram", "tls", "mtls", "sasl-ssl")
TOPIC = "orders"


@pytest.fixture(scope="module", params=KINDS)
def secured(request: pytest.FixtureRequest) -> Iterator[tuple[str, ottla.Broker]]:
    with ottla.Broker(security=request.param) as broker:
        with ottla.Admin(broker.client_options()) as admin:
            admin.create_topics([NewTopic(TOPIC, 1)])
        yield request.param, broker


def send_with_ottla(options: dict[str, Any]) -> None:
    with ottla.Producer(options) as producer:
        producer.send(TOPIC, b"espresso").result(10)


def send_with_confluent_kafka(options: dict[str, Any]) -> None:
    outcomes: list[Any] = []
    producer = confluent_kafka.Producer(options)
    producer.produce(TOPIC, b"espresso", callback=lambda error, _: outcomes.append(error))
    assert producer.flush(10) == 0
    assert outcomes == [None]


def send_with_kafka_python(options: dict[str, Any]) -> None:
    producer = kafka.KafkaProducer(**options)
    try:
        producer.send(TOPIC, b"espresso").get(10)
    finally:
        producer.close()


def send_with_aiokafka(options: dict[str, Any]) -> None:
    async def send() -> None:
        producer = aiokafka.AIOKafkaProducer(**options)
        await producer.start()
        try:
            await producer.send_and_wait(TOPIC, b"espresso")
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(send(), 20))


@pytest.mark.parametrize(
    ("client", "send"),
    [
        ("ottla", send_with_ottla),
        ("java", send_with_ottla),
        ("confluent-kafka", send_with_confluent_kafka),
        ("kafka-python", send_with_kafka_python),
        ("aiokafka", send_with_aiokafka),
    ],
)
def test_every_client_connects_with_the_options_for_it(
    secured: tuple[str, ottla.Broker], client: Any, send: Callable[[dict[str, Any]], None]
) -> None:
    _, broker = secured
    send(broker.client_options(client=client))


def test_users_are_created_and_may_do_what_acls_allow(secured: tuple[str, ottla.Broker]) -> None:
    kind, broker = secured
    if kind == "tls":
        with pytest.raises(ConfigError, match="does not ask clients who they are"):
            broker.client_options("alice")
        return
    with ottla.Consumer(broker.client_options("alice")) as consumer:
        consumer.assign([(TOPIC, 0)])
        with pytest.raises(KafkaError) as caught:
            consumer.poll(5)
    assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    acl = AclBinding(
        AclResourceType.TOPIC,
        TOPIC,
        PatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.READ,
        AclPermission.ALLOW,
    )
    with ottla.Admin(broker.client_options()) as admin:
        admin.create_acls([acl])
    with ottla.Consumer(broker.client_options("alice"), auto_offset_reset="earliest") as consumer:
        consumer.assign([(TOPIC, 0)])
        consumer.poll(0.1)
    assert broker.client_options("alice") == broker.client_options("alice")


def test_a_client_without_options_gets_nothing(secured: tuple[str, ottla.Broker]) -> None:
    _, broker = secured
    admin = ottla.Admin(bootstrap_servers=broker.bootstrap_servers)
    with admin, pytest.raises(KafkaError, match=r"expects (TLS|SASL)"):
        admin.list_topics(timeout=10)


def test_files_go_with_the_broker_and_keys_are_secret() -> None:
    broker = ottla.Broker(security="mtls")
    with broker:
        keystore = Path(broker.client_options("alice")["ssl.keystore.location"])
        assert keystore.stat().st_mode & 0o077 == 0
        assert keystore.parent.stat().st_mode & 0o077 == 0
    del broker
    assert not keystore.exists()


def test_the_end_of_a_child_process_removes_no_files() -> None:
    program = "import os, sys\nfrom ottla.broker.security import embedded_security as e\n"
    program += "s = e.EmbeddedSecurity(e.SECURITIES['tls'])\nif os.fork() == 0: sys.exit()\n"
    program += "os.wait()\nassert s.settings_of(None).ca.exists()"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_passwords_are_not_in_texts() -> None:
    broker = ottla.Broker(security="scram")
    assert broker._security is not None
    (password,) = broker._security.passwords.values()
    assert password not in repr(broker) + repr(broker._settings) + str(broker._security.options())


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigError, match="there are plain, scram, tls, mtls, sasl-ssl"):
        ottla.Broker(security="kerberos")
    with pytest.raises(ConfigError, match="name no listeners"):
        ottla.Broker(security="scram", listeners="PLAINTEXT://127.0.0.1:0")
    with pytest.raises(ConfigError, match="client_certificates belong to the protocol SSL"):
        ottla.Security("SASL_SSL", client_certificates=True)
    with ottla.Broker() as broker:
        assert broker.client_options() == {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "PLAINTEXT",
        }
        with pytest.raises(ConfigError, match='make the broker with security="scram"'):
            broker.client_options("alice")
        with pytest.raises(ConfigError, match="client='go' is not known"):
            broker.client_options(client="go")  # type: ignore[arg-type]
