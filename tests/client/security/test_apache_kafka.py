"""Every way to be secure, against Apache Kafka."""

from __future__ import annotations

import asyncio
import base64
import json
import time
import traceback
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.apache_kafka.conftest import kafka_jars
from tests.client.network.fake_broker import network_to
from tests.client.security import refusals
from tests.client.security.certificates import Certificates
from tests.client.security.secured_kafka import (
    MECHANISMS,
    PASSWORD,
    PLAIN_PASSWORD,
    PLAIN_USER,
    SESSION_MS,
    USER,
    secured_kafka,
)

import ottla.aio
from ottla.errors import FatalError, OttlaError, TlsError
from ottla.event_loop import new_event_loop
from ottla.wire.messages.metadata import MetadataRequest

__all__ = ["kafka_jars"]

_LOGIN = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    f'username="{USER}" password="{PASSWORD}";'
)


class Stage:
    """Kafka's ports, and the files that its clients need."""

    def __init__(self, addresses: Mapping[str, str], certificates: Certificates) -> None:
        self.addresses = addresses
        self.certificates = certificates

    @property
    def trust(self) -> dict[str, object]:
        return {"ssl_truststore_location": self.certificates.ca}

    async def talk(self, listener: str, **options: object) -> None:
        """Ask for metadata twice: of the bootstrap server, and of the node that it names."""
        async with network_to(self.addresses[listener], **options) as network:
            await network.updated(10_000)
            answer = await network.call(1, MetadataRequest(topics=[]))
            assert [broker.node_id for broker in answer.brokers] == [1]

    async def fail(
        self, listener: str, error: type[Exception], words: str, **options: object
    ) -> None:
        async with network_to(self.addresses[listener], **options) as network:
            with pytest.raises(error, match=words):
                await network.call(await network.any_node(), MetadataRequest(topics=[]))


def sasl(mechanism: str, **options: object) -> dict[str, object]:
    known: dict[str, object] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        known["sasl.login.callback.handler.class"] = token
    else:
        known |= {"sasl_username": USER, "sasl_password": PASSWORD}
    return {**known, **options}


def token(valid_seconds: float = 3600) -> str:
    """An unsecured token (RFC 7515, A.5), which Kafka accepts unless it is told not to."""
    now = time.time()
    claims = {"sub": USER, "iat": now + valid_seconds - 3600, "exp": now + valid_seconds}

    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none'})}.{part(claims)}."


async def plaintext(stage: Stage) -> None:
    await stage.talk("OPEN")


async def tls(stage: Stage) -> None:
    await stage.talk("TLS", security_protocol="SSL", **stage.trust)
    for version in ("TLSv1.2", "TLSv1.3"):
        options = {"security_protocol": "SSL", "ssl_enabled_protocols": version, **stage.trust}
        await stage.talk("TLS", **options)


async def sasl_mechanisms(stage: Stage) -> None:
    for mechanism in MECHANISMS:
        await stage.talk("SASL", **sasl(mechanism))


async def sasl_with_tls(stage: Stage) -> None:
    options = {"security_protocol": "SASL_SSL", "sasl_jaas_config": _LOGIN, **stage.trust}
    await stage.talk("SASLTLS", sasl_mechanism="SCRAM-SHA-512", **options)


async def client_certificate(stage: Stage) -> None:
    options = {"security_protocol": "SSL", **stage.trust}
    await stage.talk("KNOWN", ssl_keystore_location=stage.certificates.client, **options)
    for version in ("TLSv1.2", "TLSv1.3"):
        await stage.fail("KNOWN", TlsError, "certificate", ssl_enabled_protocols=version, **options)


async def wrong_authority(stage: Stage) -> None:
    await stage.fail(
        "TLS",
        TlsError,
        "not accepted",
        security_protocol="SSL",
        ssl_truststore_location=stage.certificates.other_ca,
    )


async def wrong_host_name(stage: Stage) -> None:
    options = {"security_protocol": "SSL", **stage.trust}
    await stage.fail("OTHERNAME", TlsError, "mismatch", **options)
    await stage.talk("OTHERNAME", ssl_endpoint_identification_algorithm="", **options)


async def wrong_password(stage: Stage) -> None:
    for mechanism in MECHANISMS[:3]:
        options = sasl(mechanism, sasl_password="guess")
        words = "SASL_AUTHENTICATION_FAILED.*Authentication failed"
        await stage.fail("SASL", FatalError, words, **options)


async def unknown_user(stage: Stage) -> None:
    for mechanism in MECHANISMS[:3]:
        options = sasl(mechanism, sasl_username="nobody")
        await stage.fail("SASL", FatalError, "SASL_AUTHENTICATION_FAILED", **options)


async def expired_token(stage: Stage) -> None:
    options = {"sasl.login.callback.handler.class": lambda: token(-60)}
    await stage.fail(
        "SASL", FatalError, "SASL_AUTHENTICATION_FAILED", **sasl("OAUTHBEARER", **options)
    )


async def mechanism_that_is_not_enabled(stage: Stage) -> None:
    options = sasl("PLAIN", security_protocol="SASL_SSL", **stage.trust)
    await stage.fail("SASLTLS", FatalError, "offers SCRAM-SHA-512", **options)


async def protocols_that_do_not_fit(stage: Stage) -> None:
    for listener in ("TLS", "SASLTLS"):
        await stage.fail(listener, TlsError, "expects TLS on this port")
        await stage.fail(listener, TlsError, "expects TLS on this port", **sasl("PLAIN"))
    for listener in ("OPEN", "SASL"):
        for protocol in ({"security_protocol": "SSL"}, sasl("PLAIN", security_protocol="SASL_SSL")):
            words = "does not speak TLS on this port"
            await stage.fail(listener, TlsError, words, **protocol, **stage.trust)
    await stage.fail("OPEN", FatalError, "expects no SASL", **sasl("PLAIN"))


async def every_client_is_told_at_once_that_it_has_to_log_in(stage: Stage) -> None:
    """Kafka hangs up on clients that do not; they ask it what it expects."""
    words = r"expects SASL on this port \(.*SCRAM-SHA-512.*\): set security\.protocol"
    options = {"bootstrap.servers": stage.addresses["SASL"]}
    await everyone_fails(options, FatalError, words)


async def every_client_is_told_at_once_that_the_password_is_wrong(stage: Stage) -> None:
    options = {
        "bootstrap.servers": stage.addresses["SASL"],
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": "guess",
    }
    await everyone_fails(options, FatalError, "SASL_AUTHENTICATION_FAILED")


async def everyone_fails(options: dict[str, str], error: type[Exception], words: str) -> None:
    """Each kind of client, at the first thing that it does."""
    for begin in (administer, send, begin_transactions, subscribe, assign):
        with pytest.raises(error, match=words):
            await asyncio.wait_for(begin(options), 5)


async def administer(options: dict[str, str]) -> None:
    async with ottla.aio.Admin(options) as admin:
        await admin.list_topics()


async def send(options: dict[str, str]) -> None:
    async with ottla.aio.Producer(options) as producer:
        await producer.send("topic", b"value")


async def begin_transactions(options: dict[str, str]) -> None:
    async with ottla.aio.Producer({**options, "transactional.id": "t"}) as producer:
        await producer.init_transactions()


async def subscribe(options: dict[str, str]) -> None:
    async with ottla.aio.Consumer({**options, "group.id": "g"}) as consumer:
        consumer.subscribe(["topic"])
        await consumer.poll(5)


async def assign(options: dict[str, str]) -> None:
    async with ottla.aio.Consumer(options) as consumer:
        consumer.assign([("topic", 0)])
        await consumer.poll(5)


async def rights_that_are_missing(stage: Stage) -> None:
    """A user who may do only what ACLs allow."""
    options = {
        "bootstrap.servers": stage.addresses["SASL"],
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": PLAIN_USER,
        "sasl.password": PLAIN_PASSWORD,
    }
    admin_options = {"bootstrap.servers": stage.addresses["OPEN"]}
    for case in refusals.CASES:
        await refusals.play(case, refusals.Stage(admin_options, options, f"User:{PLAIN_USER}"))


async def sessions_that_end(stage: Stage) -> None:
    """Kafka hangs up on a client whose session is over, so this would fail without renewals.

    They begin when 85 to 95 % of a session are over: a machine that stands still then is given another chance.
    """

    async def stay(mechanism: str) -> None:
        for _ in range(2):
            try:
                return await stay_once(mechanism)
            except (AssertionError, OttlaError):
                pass
        await stay_once(mechanism)

    async def stay_once(mechanism: str) -> None:
        async with network_to(stage.addresses["SHORT"], **sasl(mechanism)) as network:
            await network.updated(10_000)
            connection = await network.connection(1)
            end = time.monotonic() + 1.3 * SESSION_MS / 1000
            while time.monotonic() < end:
                calls = (network.call(1, MetadataRequest(topics=[])) for _ in range(5))
                await asyncio.gather(*calls)
                await asyncio.sleep(0.005)
            assert network.connection_now(1) is connection

    await asyncio.gather(stay("SCRAM-SHA-256"), stay("OAUTHBEARER"))


async def clients_over_sasl_and_tls(stage: Stage) -> None:
    """The producer, the consumer and the admin client are built on what the other cases use."""
    options = {
        "bootstrap.servers": stage.addresses["SASLTLS"],
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": _LOGIN,
        "ssl.truststore.location": str(stage.certificates.ca),
    }
    values = [f"{number}".encode() * 1000 for number in range(1000)]
    async with ottla.aio.Producer(options) as producer:
        for value in values:
            await producer.send("secret", value, partition=0)
        await producer.flush()
    reading = {**options, "auto.offset.reset": "earliest", "group.id": "readers"}
    async with ottla.aio.Consumer(reading) as consumer:
        consumer.subscribe(["secret"])
        got: list[bytes] = []
        while len(got) < len(values):
            got += [record.value for record in await consumer.poll(1.0)]
        assert got == values
        await consumer.commit()
    async with ottla.aio.Admin(options) as admin:
        assert "secret" in await admin.list_topics()


CASES: tuple[Callable[[Stage], Coroutine[Any, Any, None]], ...] = (
    plaintext,
    tls,
    sasl_mechanisms,
    sasl_with_tls,
    client_certificate,
    wrong_authority,
    wrong_host_name,
    wrong_password,
    unknown_user,
    expired_token,
    mechanism_that_is_not_enabled,
    protocols_that_do_not_fit,
    every_client_is_told_at_once_that_it_has_to_log_in,
    every_client_is_told_at_once_that_the_password_is_wrong,
    rights_that_are_missing,
    sessions_that_end,
    clients_over_sasl_and_tls,
)


@pytest.mark.long
def test_apache_kafka_and_the_client_agree_on_security(
    kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> None:
    """One test, because every process that tests has to start a Kafka of its own."""
    failed: dict[str, str] = {}
    folder = tmp_path_factory.mktemp("kafka")
    with secured_kafka(kafka_jars, folder, certificates) as addresses:
        stage = Stage(addresses, certificates)
        for case in CASES:
            try:
                with asyncio.Runner(loop_factory=new_event_loop) as runner:
                    runner.run(asyncio.wait_for(case(stage), 30))
            except Exception:
                failed[case.__name__] = traceback.format_exc()
    assert not failed, "\n".join(failed.values())
