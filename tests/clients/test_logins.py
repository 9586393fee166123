"""Every client logs in by every mechanism that it has, and says clearly why it cannot."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiokafka
import kafka
import kafka.errors
import pytest
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokenProvider
from tests.broker.security.sasl_stage import (
    ALICE,
    BRIEF_SESSION_MS,
    MECHANISMS,
    PASSWORD,
    Stage,
    sasl_stage,
)
from tests.clients.driver import RefusedError
from tests.clients.java.agent import Agent

from ottla.errors import OttlaError

SECONDS = 10.0
MODULES = "org.apache.kafka.common.security"


class LoginError(Exception):
    """A client could not log in; the text is what its user sees."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with sasl_stage(tmp_path_factory.mktemp("logins")) as made:
        yield made


@contextmanager
def logged_by(logger: str) -> Iterator[list[str]]:
    """What a client logs: some exceptions say only that there is no connection, and the log says why."""
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger(logger).addHandler(handler)
    try:
        yield said
    finally:
        logging.getLogger(logger).removeHandler(handler)


class Client:
    """A client: `ask` asks for the topics on a listener."""

    name: str

    def ask(self, stage: Stage, listener: str, mechanism: str, password: str, token: str) -> None:
        raise NotImplementedError


class Ottla(Client):
    name = "ottla"

    def ask(self, stage: Stage, listener: str, mechanism: str, password: str, token: str) -> None:
        options = stage.options(mechanism, ALICE, password)
        if mechanism == "OAUTHBEARER":
            options["sasl.login.callback.handler.class"] = lambda: token
        try:
            with stage.admin(listener, **options) as admin:
                admin.list_topics()
        except OttlaError as error:
            raise LoginError(str(error)) from error


class Confluent(Client):
    name = "confluent-kafka"

    def ask(self, stage: Stage, listener: str, mechanism: str, password: str, token: str) -> None:
        said: list[str] = []
        options: dict[str, Any] = {
            "bootstrap.servers": stage.address(listener),
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": mechanism,
            "error_cb": lambda error: said.append(str(error)),
        }
        if mechanism == "OAUTHBEARER":
            options["oauth_cb"] = lambda _config: (token, time.time() + 3600, ALICE, {})
        else:
            options |= {"sasl.username": ALICE, "sasl.password": password}
        client = AdminClient(options)
        deadline = time.monotonic() + SECONDS
        while not said and time.monotonic() < deadline:
            client.poll(0)
            try:
                client.list_topics(timeout=0.1)
                return
            except KafkaException:
                continue
        raise LoginError(" ".join(said))


class KafkaPython(Client):
    name = "kafka-python"

    def ask(self, stage: Stage, listener: str, mechanism: str, password: str, token: str) -> None:
        class Provider(KafkaPythonTokenProvider):  # type: ignore[misc]
            def token(self) -> str:
                return token

        options: dict[str, Any] = {
            "bootstrap_servers": stage.address(listener),
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
            "bootstrap_timeout_ms": 500,
        }
        if mechanism == "OAUTHBEARER":
            options["sasl_oauth_token_provider"] = Provider()
        else:
            options |= {"sasl_plain_username": ALICE, "sasl_plain_password": password}
        with logged_by("kafka") as said:
            try:
                client = kafka.KafkaAdminClient(**options)
                client.list_topics()
                client.close()
            except kafka.errors.KafkaError as error:
                raise LoginError(f"{error} {' '.join(said)}") from error


class AioKafka(Client):
    name = "aiokafka"

    def ask(self, stage: Stage, listener: str, mechanism: str, password: str, token: str) -> None:
        asyncio.run(self._ask(stage, listener, mechanism, password, token))

    async def _ask(
        self, stage: Stage, listener: str, mechanism: str, password: str, token: str
    ) -> None:
        class Provider(AbstractTokenProvider):  # type: ignore[misc]
            async def token(self) -> str:
                return token

        options: dict[str, Any] = {
            "bootstrap_servers": stage.address(listener),
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
        }
        if mechanism == "OAUTHBEARER":
            options["sasl_oauth_token_provider"] = Provider()
        else:
            options |= {"sasl_plain_username": ALICE, "sasl_plain_password": password}
        client = aiokafka.AIOKafkaProducer(**options)
        with logged_by("aiokafka") as said:
            try:
                await client.start()
            except aiokafka.errors.KafkaError as error:
                raise LoginError(f"{error} {' '.join(said)}") from error
            finally:
                await client.stop()


class Java(Client):
    name = "java"

    def __init__(self, agent: Agent, folder: Path) -> None:
        self._agent = agent
        self._folder = folder

    def _token_file(self, token: str) -> Path:
        file = self._folder / "token.jwt"
        file.write_text(token, encoding="utf-8")
        return file

    def settings(
        self, stage: Stage, listener: str, mechanism: str, password: str, token: str
    ) -> Mapping[str, object]:
        login: dict[str, object]
        if mechanism == "OAUTHBEARER":
            url = self._token_file(token).as_uri()
            module = f"{MODULES}.oauthbearer.OAuthBearerLogin"
            login = {
                "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls": url,
                "sasl.oauthbearer.token.endpoint.url": url,
                "sasl.jaas.config": f"{module}Module required;",
                "sasl.login.callback.handler.class": f"{module}CallbackHandler",
            }
        else:
            module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
            words = f'required username="{ALICE}" password="{password}";'
            login = {"sasl.jaas.config": f"{MODULES}.{module}LoginModule {words}"}
        return {
            "bootstrap.servers": stage.address(listener),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "default.api.timeout.ms": int(SECONDS * 1000),
            "request.timeout.ms": int(SECONDS * 1000),
            **login,
        }

    def ask(self, stage: Stage, listener: str, mechanism: str, password: str, token: str) -> None:
        words = [
            f"{name}={value}"
            for name, value in self.settings(stage, listener, mechanism, password, token).items()
        ]
        connection = self._agent.connect()
        try:
            connection.call("admin", *words)
            connection.call("topics")
        except RefusedError as error:
            raise LoginError(str(error)) from error
        finally:
            connection.close()


class Kcat(Client):
    name = "kcat"

    def ask(self, stage: Stage, listener: str, mechanism: str, password: str, token: str) -> None:
        if mechanism == "OAUTHBEARER":
            pytest.skip("kcat cannot be given a token")
        if mechanism.startswith("SCRAM") and password == PASSWORD and _repeats_nonces():
            pytest.skip("this librdkafka repeats its nonce, which Kafka 4 does not accept either")
        options = {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": mechanism,
            "sasl.username": ALICE,
            "sasl.password": password,
        }
        words = [word for name, value in options.items() for word in ("-X", f"{name}={value}")]
        asked = subprocess.run(
            ["kcat", "-b", stage.address(listener), *words, "-L", "-m", "1"],
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        if asked.returncode != 0:
            raise LoginError(asked.stderr.decode())


def _repeats_nonces() -> bool:
    """Whether kcat's librdkafka is older than 2.6.1."""
    said = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"librdkafka (\d+)\.(\d+)\.(\d+)", said)
    assert found is not None
    return tuple(map(int, found.groups())) < (2, 6, 1)


CLIENTS: dict[str, Callable[[], Client]] = {
    each.name: each for each in (Ottla, Confluent, KafkaPython, AioKafka, Kcat)
}


@pytest.fixture(params=[*CLIENTS, "java"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Client:
    if request.param == "java":
        return Java(request.getfixturevalue("java_agent"), tmp_path)
    if request.param == "kcat" and shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")
    return CLIENTS[request.param]()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_logs_in(stage: Stage, client: Client, mechanism: str) -> None:
    client.ask(stage, "SASL", mechanism, PASSWORD, stage.tokens.token())


# What the users of clients read of a wrong password, where it is not Kafka's text.
OWN_WORDS = {"kafka-python": "Authentication failed|SaslAuthenticationFailed"}
KAFKAS_WORDS = "Authentication failed|invalid credentials|Invalid username or password"


@pytest.mark.parametrize("mechanism", MECHANISMS[:3])
def test_a_wrong_password_is_told(stage: Stage, client: Client, mechanism: str) -> None:
    with pytest.raises(LoginError) as failure:
        client.ask(stage, "SASL", mechanism, "a-wrong-guess", "")
    assert re.search(OWN_WORDS.get(client.name, KAFKAS_WORDS), str(failure.value)), failure.value
    assert "a-wrong-guess" not in str(failure.value)


def test_an_expired_token_is_told(stage: Stage, client: Client) -> None:
    now = int(time.time())
    with pytest.raises(LoginError) as failure:
        client.ask(
            stage, "SASL", "OAUTHBEARER", "", stage.tokens.token(iat=now - 300, exp=now - 200)
        )
    # aiokafka goes on as if it were in, at a Kafka too; both brokers close its connection.
    words = "closed" if client.name == "aiokafka" else "invalid_token|[Aa]uthentication"
    assert re.search(words, str(failure.value)), failure.value


def test_a_mechanism_that_is_not_enabled_is_told(stage: Stage, client: Client) -> None:
    with pytest.raises(LoginError) as failure:
        client.ask(stage, "SCRAM", "PLAIN", PASSWORD, "")
    assert re.search("(?i)mechanism", str(failure.value)), failure.value


def brief_logins(stage: Stage) -> dict[str, int]:
    return stage.broker._call(
        lambda running: running.server.logins.by_listener["BRIEF"].counts.by_result()
    )


def test_clients_authenticate_again_on_their_connections(
    stage: Stage, java_agent: Agent, tmp_path: Path
) -> None:
    settings = Java(java_agent, tmp_path).settings(stage, "BRIEF", "SCRAM-SHA-256", PASSWORD, "")
    java = java_agent.connect()
    confluent = AdminClient(
        {
            "bootstrap.servers": stage.address("BRIEF"),
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": ALICE,
            "sasl.password": PASSWORD,
        }
    )
    python = kafka.KafkaAdminClient(
        bootstrap_servers=stage.address("BRIEF"),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_plain_username=ALICE,
        sasl_plain_password=PASSWORD,
    )
    try:
        java.call("admin", *(f"{name}={value}" for name, value in settings.items()))
        with stage.admin("BRIEF", **stage.options("PLAIN")) as ours:
            # Longer than a session: a client that did not authenticate again would be cut off.
            end = time.monotonic() + 2.2 * BRIEF_SESSION_MS / 1000
            while time.monotonic() < end:
                java.call("topics")
                confluent.list_topics(timeout=SECONDS)
                ours.list_topics()
                python.list_topics()
                time.sleep(0.05)
        counts = brief_logins(stage)
        assert counts["reauthenticated"] >= 4
        assert counts["session_expired"] == counts["failed"] == 0
    finally:
        java.close()
        python.close()
