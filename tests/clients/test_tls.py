"""Every client over TLS, on listeners of one broker."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator

import pytest
from tests.broker.requests import on_loop
from tests.client.security.certificates import Certificates, make_certificates
from tests.clients import tls_clients
from tests.clients.tls_clients import NOTHING, TlsClient
from tests.lasting import LASTING

from ottla import Broker
from ottla.broker.network.refusal_log import MAX_LINES

CLIENTS: dict[str, type[TlsClient]] = {
    "ottla": tls_clients.Ottlas,
    "confluent-kafka": tls_clients.Confluent,
    "kafka-python": tls_clients.KafkaPython,
    "aiokafka": tls_clients.AioKafka,
    "java": tls_clients.Java,
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
    told = [each for each in caplog.records if each.name.startswith("ottla.broker")]
    assert not [each for each in told if each.exc_info or each.levelno > logging.WARNING]
    lines = [each.getMessage() for each in told if each.levelno == logging.WARNING]
    assert lines
    assert reason in lines[0]
    assert len(lines) <= MAX_LINES, "however often it tries"
