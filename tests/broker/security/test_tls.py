"""Listeners that speak TLS: who gets in, who does not, and what it costs the others."""

from __future__ import annotations

import logging
import shutil
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.broker.conftest import Starter
from tests.broker.requests import (
    create,
    eventually,
    fetch_request,
    fill,
    on_loop,
    running,
    waiter_count,
)
from tests.broker.security.tls_client import TlsConnection, ask, context_for
from tests.client.security.certificates import STORE_PASSWORD, Certificates

import ottla
from ottla.access import ANONYMOUS, Principal
from ottla.broker.network import handshakes
from ottla.broker.security import listener_tls
from ottla.client.raw import RawConnection
from ottla.errors import ConfigError
from ottla.model import Endpoint
from ottla.wire.framing import frame_request
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.metadata import MetadataRequest

BOTH = "SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0"
CLIENT = Principal.user("CN=client")


@pytest.fixture
def begin(start: Starter, certificates: Certificates) -> Callable[..., ottla.Broker]:
    """Starts a broker with a TLS listener, and a plaintext one."""

    def starting(**options: str) -> ottla.Broker:
        given = {
            "listeners": BOTH,
            "ssl.keystore.location": str(certificates.server),
            **{name.replace("_", "."): value for name, value in options.items()},
        }
        return start(options=given)

    return starting


@pytest.fixture
def trusting(certificates: Certificates) -> ssl.SSLContext:
    return context_for(certificates.ca)


def principals(broker: ottla.Broker) -> list[Principal]:
    """Whom the broker takes its clients for."""
    return on_loop(
        broker, lambda found: [each.caller.principal for each in found.server._connections]
    )


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged about clients; anything with a trace would be too much."""
    assert not any(record.exc_info for record in caplog.records)
    assert not any(record.levelno > logging.WARNING for record in caplog.records)
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_both_versions_are_spoken_on_both_loops(
    event_loop_kind: str,
    begin: Callable[..., ottla.Broker],
    certificates: Certificates,
    version: str,
) -> None:
    broker = begin()
    with TlsConnection(
        broker.bootstrap_servers, context_for(certificates.ca, version=version)
    ) as c:
        assert c.tls.version() == version
        (node,) = ask(c).brokers
        assert str(Endpoint(node.host, node.port)) == broker.bootstrap_servers
        assert principals(broker) == [ANONYMOUS]


def test_large_requests_and_responses_arrive_as_they_were_sent(
    event_loop_kind: str, begin: Callable[..., ottla.Broker], trusting: ssl.SSLContext
) -> None:
    broker = begin(message_max_bytes=str(8 << 20), fetch_max_bytes=str(64 << 20))
    values = [bytes([number]) * 5_000_000 for number in range(4)]
    with TlsConnection(broker.bootstrap_servers, trusting) as connection:
        create(connection, "large")
        for value in values:
            fill(connection, "large", value)
        request = fetch_request("large", 0, max_bytes=64 << 20, partition_max_bytes=64 << 20)
        answer = connection.call(request, FetchResponse, 12)
        records = bytes(answer.responses[0].partitions[0].records)
        for value in values:
            assert value in records


def test_a_client_that_reads_late_gets_everything_and_holds_up_nobody(
    event_loop_kind: str, begin: Callable[..., ottla.Broker], trusting: ssl.SSLContext
) -> None:
    broker = begin()
    count = 40
    with (
        TlsConnection(broker.bootstrap_servers, trusting) as slow,
        TlsConnection(broker.bootstrap_servers, trusting) as other,
    ):
        create(other, "full")
        fill(other, "full", b"x" * 900_000)
        for number in range(count):
            slow.socket.sendall(frame_request(fetch_request("full", 0), 12, number, None))
        ask(other)
        sizes = {len(slow.receive_frame()) for _ in range(count)}
        assert len(sizes) == 1
        assert sizes.pop() > 900_000


def test_requests_that_arrive_while_one_waits_are_answered_in_order(
    begin: Callable[..., ottla.Broker], trusting: ssl.SSLContext
) -> None:
    broker = begin()
    with TlsConnection(broker.bootstrap_servers, trusting) as connection:
        create(connection, "t")
        waiting = fetch_request("t", 0, max_wait_ms=200, min_bytes=1)
        for _ in range(3):
            connection.send(waiting, 12)
        connection.send(MetadataRequest(topics=[]), 12)
        frames = [connection.receive_frame() for _ in range(4)]
        numbers = [int.from_bytes(frame[:4], "big") for frame in frames]
        assert numbers == sorted(numbers)


def test_a_client_that_leaves_is_noticed_while_its_request_waits(
    event_loop_kind: str, begin: Callable[..., ottla.Broker], trusting: ssl.SSLContext
) -> None:
    broker = begin()
    with TlsConnection(broker.bootstrap_servers, trusting) as connection:
        create(connection, "t")
        connection.send(fetch_request("t", 0, max_wait_ms=60_000, min_bytes=1), 12)
        assert eventually(lambda: waiter_count(broker) == 1)
    assert eventually(lambda: waiter_count(broker) == 0)


def test_a_stop_finishes_requests_and_says_farewell(
    begin: Callable[..., ottla.Broker], trusting: ssl.SSLContext
) -> None:
    broker = begin()
    with TlsConnection(broker.bootstrap_servers, trusting) as connection:
        create(connection, "t")
        connection.send(fetch_request("t", 0, max_wait_ms=60_000, min_bytes=1), 12)
        assert eventually(lambda: waiter_count(broker) == 1)
        broker.stop()
        assert connection.receive(FetchResponse, 12).error_code == 0
        assert connection.tls.recv(1) == b"", "the end is no error"


def test_an_idle_connection_is_closed(
    begin: Callable[..., ottla.Broker], trusting: ssl.SSLContext
) -> None:
    broker = begin(connections_max_idle_ms="50")
    with TlsConnection(broker.bootstrap_servers, trusting) as connection:
        assert connection.tls.recv(1) == b""


# Who a client is.


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_client_is_known_by_its_certificate(
    begin: Callable[..., ottla.Broker], certificates: Certificates, version: str
) -> None:
    broker = begin(ssl_client_auth="required", ssl_truststore_location=str(certificates.ca))
    context = context_for(certificates.ca, certificates.client, version)
    with TlsConnection(broker.bootstrap_servers, context) as connection:
        ask(connection)
        assert principals(broker) == [CLIENT]


def test_a_certificate_that_is_requested_may_be_missing(
    begin: Callable[..., ottla.Broker], certificates: Certificates, trusting: ssl.SSLContext
) -> None:
    broker = begin(
        ssl_client_auth="requested",
        ssl_truststore_location=str(certificates.ca),
        ssl_principal_mapping_rules="RULE:^CN=(.*)$/$1/U",
    )
    with TlsConnection(broker.bootstrap_servers, trusting) as connection:
        ask(connection)
        assert principals(broker) == [ANONYMOUS]
        known = context_for(certificates.ca, certificates.client)
        with TlsConnection(broker.bootstrap_servers, known) as other:
            ask(other)
            assert principals(broker) == [ANONYMOUS, Principal.user("CLIENT")]


def test_a_certificate_whose_name_no_rule_fits_is_refused(
    begin: Callable[..., ottla.Broker],
    certificates: Certificates,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = begin(
        ssl_client_auth="required",
        ssl_truststore_location=str(certificates.ca),
        ssl_principal_mapping_rules="RULE:^CN=server$/server/",
    )
    context = context_for(certificates.ca, certificates.client)
    with TlsConnection(broker.bootstrap_servers, context) as connection:
        assert connection.tls.recv(1) == b""
    (line,) = warnings_of(caplog)
    assert "no rule of ssl.principal.mapping.rules fits 'CN=client'" in line


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_session_is_not_resumed_long_after_the_certificate_was_checked(
    begin: Callable[..., ottla.Broker],
    certificates: Certificates,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
) -> None:
    broker = begin(ssl_client_auth="required", ssl_truststore_location=str(certificates.ca))
    context = context_for(certificates.ca, certificates.client, version)
    with TlsConnection(broker.bootstrap_servers, context) as first:
        ask(first)
        session = first.tls.session
    monkeypatch.setattr(listener_tls, "SESSION_SECONDS", 0.0)
    renew(broker)
    endpoint = Endpoint.parse(broker.bootstrap_servers)
    with (
        socket.create_connection(endpoint) as connected,
        context.wrap_socket(connected, server_hostname="127.0.0.1", session=session) as second,
    ):
        assert not second.session_reused


# Who does not get in.


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize(
    ("certificate", "reason"),
    [
        (None, "it has sent no certificate, which ssl.client.auth requires"),
        ("stranger", "its certificate is not accepted: self-signed certificate"),
        ("expired", "its certificate is not accepted: certificate has expired"),
    ],
)
def test_a_client_without_a_good_certificate_is_refused_in_one_line(
    begin: Callable[..., ottla.Broker],
    certificates: Certificates,
    caplog: pytest.LogCaptureFixture,
    version: str,
    certificate: str | None,
    reason: str,
) -> None:
    broker = begin(ssl_client_auth="required", ssl_truststore_location=str(certificates.ca))
    file = None if certificate is None else certificates.folder / f"{certificate}.pem"
    with (
        pytest.raises((ssl.SSLError, ConnectionError)),
        TlsConnection(
            broker.bootstrap_servers, context_for(certificates.ca, file, version)
        ) as connection,
    ):
        ask(connection)
    (line,) = warnings_of(caplog)
    assert "to listener SSL failed" in line
    assert reason in line


def test_a_client_that_does_not_trust_the_broker_is_named(
    begin: Callable[..., ottla.Broker],
    certificates: Certificates,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = begin()
    with pytest.raises(ssl.SSLCertVerificationError):
        TlsConnection(broker.bootstrap_servers, context_for(certificates.other_ca))
    assert eventually(lambda: bool(warnings_of(caplog)))
    (line,) = warnings_of(caplog)
    assert "it does not trust the certificate of this listener" in line


def test_a_version_that_is_not_enabled_is_not_spoken(
    begin: Callable[..., ottla.Broker],
    certificates: Certificates,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = begin(ssl_enabled_protocols="TLSv1.3")
    with pytest.raises(ssl.SSLError):
        TlsConnection(broker.bootstrap_servers, context_for(certificates.ca, version="TLSv1.2"))
    (line,) = warnings_of(caplog)
    assert "no version of TLS that ssl.enabled.protocols has" in line


def test_cipher_suites_are_those_of_the_options(
    begin: Callable[..., ottla.Broker], trusting: ssl.SSLContext
) -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    broker = begin(ssl_enabled_protocols="TLSv1.2", ssl_cipher_suites=suite)
    with TlsConnection(broker.bootstrap_servers, trusting) as connection:
        cipher = connection.tls.cipher()
        assert cipher is not None
        assert cipher[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"


@pytest.mark.parametrize(
    ("sent", "what"),
    [
        (frame_request(MetadataRequest(topics=[]), 12, 1, "c"), "it sent plaintext"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "it sent an HTTP request"),
    ],
)
def test_plaintext_to_a_tls_listener_is_refused_in_one_line(
    begin: Callable[..., ottla.Broker], caplog: pytest.LogCaptureFixture, sent: bytes, what: str
) -> None:
    broker = begin()
    with RawConnection(broker.bootstrap_servers) as connection:
        connection.socket.sendall(sent)
        assert len(connection.socket.recv(100)) < 10, "at most an alert"
        assert connection.socket.recv(100) == b""
    (line,) = warnings_of(caplog)
    assert f"{what}, and this listener speaks TLS" in line


def test_tls_to_a_plaintext_listener_is_refused_in_few_lines(
    begin: Callable[..., ottla.Broker], caplog: pytest.LogCaptureFixture, trusting: ssl.SSLContext
) -> None:
    broker = begin()
    for _ in range(10):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            TlsConnection(broker.servers_of_listener("PLAINTEXT"), trusting)
    lines = warnings_of(caplog)
    assert 0 < len(lines) <= 3
    assert "a TLS handshake (this port speaks plaintext" in lines[0]


def test_a_connection_that_only_looks_whether_there_is_a_broker_is_not_logged(
    begin: Callable[..., ottla.Broker], caplog: pytest.LogCaptureFixture, trusting: ssl.SSLContext
) -> None:
    broker = begin()
    RawConnection(broker.bootstrap_servers).close()
    with TlsConnection(broker.bootstrap_servers, trusting) as connection:
        ask(connection)
    assert warnings_of(caplog) == []


# Silent clients.


def silent_clients(address: str, count: int) -> list[socket.socket]:
    endpoint = Endpoint.parse(address)
    return [socket.create_connection(endpoint, timeout=10) for _ in range(count)]


def handshake_count(broker: ottla.Broker) -> int:
    return on_loop(broker, lambda found: len(found.server.handshakes))


def test_a_handshake_that_is_not_finished_in_time_ends(
    begin: Callable[..., ottla.Broker],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = begin()
    (silent,) = silent_clients(broker.bootstrap_servers, 1)
    assert eventually(lambda: handshake_count(broker) == 1)
    on_loop(broker, lambda found: found.server.handshakes.expire())
    assert handshake_count(broker) == 1
    monkeypatch.setattr(handshakes, "DEADLINE_SECONDS", 0.0)
    on_loop(broker, lambda found: found.server.handshakes.expire())
    assert silent.recv(1) == b""
    silent.close()
    assert "its handshake was not finished within" in warnings_of(caplog)[0]


def test_silent_clients_do_not_keep_others_out(
    begin: Callable[..., ottla.Broker], trusting: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "MAX_HANDSHAKES", 3)
    broker = begin()
    silent = silent_clients(broker.bootstrap_servers, 6)
    assert eventually(lambda: handshake_count(broker) == 3)
    with TlsConnection(broker.bootstrap_servers, trusting) as connection:
        ask(connection)
    assert [each.recv(1) for each in silent[:3]] == [b""] * 3, "the first have waited the longest"
    for each in silent:
        each.close()


def test_a_connection_counts_before_its_handshake(
    begin: Callable[..., ottla.Broker], trusting: ssl.SSLContext
) -> None:
    broker = begin(max_connections_per_ip="1")
    (silent,) = silent_clients(broker.bootstrap_servers, 1)
    assert eventually(lambda: handshake_count(broker) == 1)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        TlsConnection(broker.bootstrap_servers, trusting)
    silent.close()


# Stores.


@pytest.fixture
def own(certificates: Certificates, tmp_path: Path) -> Path:
    """Copies of the files of the certificates, which the test may change."""
    copy = tmp_path / "certificates"
    shutil.copytree(certificates.folder, copy)
    return copy


def certificate_of(connection: TlsConnection) -> bytes | None:
    return connection.tls.getpeercert(binary_form=True)


def renew(broker: ottla.Broker) -> None:
    """Looks at the files, as the broker does every second."""
    broker._run_on_loop(running(broker).server._reload_certificates())


def test_a_certificate_that_is_not_valid_is_warned_of(
    begin: Callable[..., ottla.Broker], own: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = begin(ssl_keystore_location=str(own / "expired.pem"))
    (message,) = messages_of(caplog, "certificate_not_valid")
    assert message.startswith("the certificate of listener SSL is not valid now, but from ")
    assert message.endswith(" UTC: replace it")
    assert broker.bootstrap_servers


def messages_of(caplog: pytest.LogCaptureFixture, event: str) -> list[str]:
    return [each.getMessage() for each in caplog.records if getattr(each, "event", "") == event]


def test_a_new_certificate_is_used_without_a_restart(
    begin: Callable[..., ottla.Broker],
    trusting: ssl.SSLContext,
    own: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    file = own / "server.pem"
    broker = begin(ssl_keystore_location=str(file))
    with TlsConnection(broker.bootstrap_servers, trusting) as before:
        file.write_bytes(b"half of a certif")
        renew(broker)
        with TlsConnection(broker.bootstrap_servers, trusting) as still:
            assert certificate_of(still) == certificate_of(before)
        failed = [each for each in caplog.records if each.levelno == logging.ERROR]
        assert len(failed) == 1
        assert "goes on with its old certificates: ssl.keystore.location" in failed[0].getMessage()
        shutil.copy(own / "wrong-name.pem", file)
        renew(broker)
        trusting.check_hostname = False
        with TlsConnection(broker.bootstrap_servers, trusting) as after:
            assert certificate_of(after) != certificate_of(before)
            ask(after)
        ask(before)


def test_a_new_trust_store_is_used_without_a_restart(
    begin: Callable[..., ottla.Broker], certificates: Certificates, own: Path
) -> None:
    trusted = own / "trusted.pem"
    shutil.copy(certificates.other_ca, trusted)
    broker = begin(ssl_client_auth="required", ssl_truststore_location=str(trusted))
    context = context_for(certificates.ca, certificates.client)
    with (
        pytest.raises((ssl.SSLError, ConnectionError)),
        TlsConnection(broker.bootstrap_servers, context) as refused,
    ):
        ask(refused)
    shutil.copy(certificates.ca, trusted)
    renew(broker)
    with TlsConnection(broker.bootstrap_servers, context) as connection:
        ask(connection)


def test_files_are_looked_at_every_second(
    begin: Callable[..., ottla.Broker], own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.broker.network.server.CERTIFICATE_CHECK_MS", 10)
    file = own / "server.pem"
    broker = begin(ssl_keystore_location=str(file))

    def context() -> ssl.SSLContext:
        def look(found: object) -> ssl.SSLContext:
            tls = running(broker).server._listeners[0].tls
            assert tls is not None
            return tls.context

        return on_loop(broker, look)

    before = context()
    shutil.copy(own / "wrong-name.pem", file)
    assert eventually(lambda: context() is not before)


def test_stores_can_be_pkcs12_or_text(
    begin: Callable[..., ottla.Broker], certificates: Certificates
) -> None:
    context = context_for(certificates.ca, certificates.client)
    broker = begin(
        ssl_keystore_location=str(certificates.server_store),
        ssl_keystore_password=STORE_PASSWORD,
        ssl_truststore_location=str(certificates.ca_store),
        ssl_truststore_password=STORE_PASSWORD,
        ssl_client_auth="required",
    )
    with TlsConnection(broker.bootstrap_servers, context) as connection:
        ask(connection)
    broker.stop()
    options = {
        "listeners": BOTH,
        "ssl.keystore.key": (certificates.folder / "server.key").read_text(),
        "ssl.keystore.certificate.chain": (certificates.folder / "server.crt").read_text(),
        "ssl.truststore.certificates": certificates.ca.read_text(),
        "ssl.client.auth": "required",
    }
    with (
        ottla.Broker(options) as other,
        TlsConnection(other.bootstrap_servers, context) as connection,
    ):
        ask(connection)


def test_each_listener_has_its_own_certificate_and_trust(
    begin: Callable[..., ottla.Broker], certificates: Certificates, trusting: ssl.SSLContext
) -> None:
    names = {
        "listeners": "OPEN://127.0.0.1:0,CLOSED://127.0.0.1:0",
        "listener.security.protocol.map": "OPEN:SSL,CLOSED:SSL",
        "listener.name.closed.ssl.client.auth": "required",
        "listener.name.closed.ssl.truststore.location": str(certificates.ca),
    }
    broker = begin(**names)
    with TlsConnection(broker.bootstrap_servers, trusting) as connection:
        ask(connection)
    with (
        pytest.raises((ssl.SSLError, ConnectionError)),
        TlsConnection(broker.servers_of_listener("CLOSED"), trusting) as refused,
    ):
        ask(refused)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"ssl_keystore_location": "/no/such/file"}, "/no/such/file cannot be read"),
        ({"ssl_principal_mapping_rules": "RULE:("}, "is no rule"),
        ({"ssl_cipher_suites": "X", "ssl_enabled_protocols": "TLSv1.2"}, "OpenSSL knows none"),
    ],
)
def test_a_listener_that_cannot_be_ends_the_start(
    begin: Callable[..., ottla.Broker], options: dict[str, str], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        begin(**options)


# Open doors.


@pytest.mark.parametrize(
    ("listener", "warned"),
    [
        ("PLAINTEXT://0.0.0.0:0", True),
        ("SSL://0.0.0.0:0", True),
        ("PLAINTEXT://127.0.0.1:0", False),
        ("PLAINTEXT://localhost:0", False),
    ],
)
def test_a_listener_that_asks_nobody_for_anything_is_warned_of(
    start: Starter,
    certificates: Certificates,
    caplog: pytest.LogCaptureFixture,
    listener: str,
    warned: bool,
) -> None:
    options = {"listeners": listener}
    if listener.startswith("SSL"):
        options["ssl.keystore.location"] = str(certificates.server)
    start(options=options)
    assert ("listener_open_to_all" in [getattr(r, "event", "") for r in caplog.records]) == warned


@pytest.mark.parametrize(("host", "warned"), [("0.0.0.0", True), ("127.0.0.1", False)])
def test_logins_without_encryption_are_warned_of(
    start: Starter, caplog: pytest.LogCaptureFixture, host: str, warned: bool
) -> None:
    start(options={"listeners": f"SASL_PLAINTEXT://{host}:0"})
    assert bool(messages_of(caplog, "listener_not_encrypted")) == warned
    assert not messages_of(caplog, "listener_open_to_all")


def test_a_listener_that_requires_certificates_is_not_open(
    start: Starter, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    start(
        options={
            "listeners": "SSL://0.0.0.0:0",
            "ssl.keystore.location": str(certificates.server),
            "ssl.truststore.location": str(certificates.ca),
            "ssl.client.auth": "required",
        }
    )
    assert "listener_open_to_all" not in [getattr(r, "event", "") for r in caplog.records]
