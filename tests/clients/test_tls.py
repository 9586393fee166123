"""Every client over TLS, on listeners of one broker."""

from __future__ import annotations

import logging
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.broker.requests import eventually, on_loop, running
from tests.client.security.certificates import Certificates, make_certificates
from tests.clients import tls_clients
from tests.clients.tls_clients import NOTHING, TlsClient
from tests.lasting import LASTING

import ottla
from ottla import Broker
from ottla.broker.network.refusal_log import MAX_LINES

CLIENTS: dict[str, type[TlsClient]] = {
    "ottla": tls_clients.Ottlas,
    "confluent-kafka": tls_clients.Confluent,
    "kafka-python": tls_clients.KafkaPython,
    "aiokafka": tls_clients.AioKafka,
    "java": tls_clients.Java,
    "kcat": tls_clients.Kcat,
}
LISTENERS = ("V12", "V13", "MUTUAL", "WRONG_NAME", "EXPIRED")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker(certificates: Certificates) -> Iterator[Broker]:
    """A broker with a listener for each case; the topic names are the tests'."""
    protocols = ",".join(f"{name}:SSL" for name in LISTENERS)
    addresses = ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS)
    options = {
        **LASTING,
        "listeners": f"{addresses},PLAINTEXT://127.0.0.1:0",
        "listener.security.protocol.map": f"{protocols},PLAINTEXT:PLAINTEXT",
        "ssl.keystore.location": str(certificates.server),
        "ssl.truststore.location": str(certificates.ca),
        "listener.name.v12.ssl.enabled.protocols": "TLSv1.2",
        "listener.name.v13.ssl.enabled.protocols": "TLSv1.3",
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.wrong_name.ssl.keystore.location": str(certificates.wrong_name),
        "listener.name.expired.ssl.keystore.location": str(certificates.expired),
    }
    with Broker(options) as running:
        yield running


@pytest.fixture(params=CLIENTS)
def client_class(request: pytest.FixtureRequest) -> type[TlsClient]:
    if request.param == "java":
        tls_clients.Java.agent = request.getfixturevalue("java_agent")
    if request.param == "kcat" and shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")
    return CLIENTS[request.param]


@pytest.mark.parametrize("listener", ["V12", "V13", "MUTUAL"])
def test_records_go_there_and_back(
    client_class: type[TlsClient], broker: Broker, certificates: Certificates, listener: str
) -> None:
    certificate = certificates.client if listener == "MUTUAL" else None
    client = client_class(broker.servers_of_listener(listener), certificates.ca, certificate)
    assert client.there_and_back(f"t-{uuid.uuid4().hex}", b"value") == b"value"


# The listener, the file that the client trusts, and what the broker's log says.
CASES = {
    "wrong CA": ("V13", "other-ca.pem", "certificate of this listener"),
    "wrong name": ("WRONG_NAME", "ca.pem", "certificate of this listener"),
    "expired": ("EXPIRED", "ca.pem", "certificate of this listener"),
    "no certificate": ("MUTUAL", "ca.pem", "it has sent no certificate"),
    "plaintext to TLS": ("V13", None, "it sent plaintext, and this listener speaks TLS"),
    "TLS to plaintext": ("PLAINTEXT", "ca.pem", "it sent a TLS handshake"),
}


def of_broker(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What the broker has logged, from warnings on."""
    records = [each for each in caplog.records if each.name.startswith("ottla.broker")]
    return [each for each in records if each.levelno >= logging.WARNING]


@pytest.mark.parametrize("case", CASES)
def test_both_sides_say_why_a_client_does_not_get_in(
    client_class: type[TlsClient],
    broker: Broker,
    certificates: Certificates,
    caplog: pytest.LogCaptureFixture,
    case: str,
) -> None:
    listener, trusted, reason = CASES[case]
    on_loop(broker, lambda running: running.server.refusals.forget())
    ca = None if trusted is None else certificates.folder / trusted
    assert client_class(broker.servers_of_listener(listener), ca).failure() != NOTHING
    # The client of an earlier case may still try to connect.
    assert eventually(lambda: any(reason in each.getMessage() for each in of_broker(caplog)))
    told = of_broker(caplog)
    assert not [each for each in told if each.exc_info or each.levelno > logging.WARNING]
    lines = [each.getMessage() for each in told if reason in each.getMessage()]
    assert len(lines) <= MAX_LINES, "however often it tries"


def test_nodes_and_listeners_are_found_by_every_client(
    client_class: type[TlsClient], certificates: Certificates
) -> None:
    """The leaders of the topics are on three nodes, whose addresses a client gets of its own listener."""
    options = {
        "listeners": "SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "ssl.keystore.location": str(certificates.server),
        "ssl.truststore.location": str(certificates.ca),
        "listener.name.ssl.ssl.client.auth": "required",
    }
    with Broker({**LASTING, **options}, nodes=3) as cluster:
        ways = (
            (cluster.bootstrap_servers, certificates.ca, certificates.client),
            (cluster.servers_of_listener("PLAINTEXT"), None, None),
        )
        for number, (servers, ca, certificate) in enumerate(ways):
            client = client_class(servers, ca, certificate)
            for each in range(2):
                assert client.there_and_back(f"t-{number}-{each}", b"value") == b"value"


def test_certificates_are_renewed_while_clients_work(
    certificates: Certificates, tmp_path: Path
) -> None:
    """A producer goes on over its connection, and those that come later meet the new certificate."""
    file = tmp_path / "server.pem"
    shutil.copy(certificates.server, file)
    options = {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": str(file)}
    with (
        Broker({**LASTING, **options}) as broker,
        ottla.Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "security.protocol": "SSL",
                "ssl.truststore.location": str(certificates.ca),
            }
        ) as producer,
    ):
        assert producer.send("t", b"before").result(10).offset == 0
        shutil.copy(certificates.wrong_name, file)
        broker._run_on_loop(running(broker).server._reload_certificates())
        assert producer.send("t", b"after").result(10).offset == 1
        newcomer = tls_clients.Ottlas(broker.bootstrap_servers, certificates.ca)
        assert "IP address mismatch" in newcomer.failure()
