"""`ottla certs`."""

from __future__ import annotations

import datetime
import socket
import ssl
import stat
import threading
from pathlib import Path

import pytest
from tests.cli.conftest import Ottla

from ottla.broker.security import development_certificates as certificates
from ottla.broker.security.client_settings import ClientSettings
from ottla.errors import ConfigError


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> object:
    """The certificate of the client that the server has seen."""
    seen: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            plain, _ = listening.accept()
            with plain, server.wrap_socket(plain, server_side=True) as encrypted:
                seen.append(encrypted.getpeercert())
                encrypted.sendall(b"!")

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            with (
                socket.create_connection(listening.getsockname()[:2]) as plain,
                client.wrap_socket(plain, server_hostname=name) as encrypted,
            ):
                assert encrypted.recv(1) == b"!"
        finally:
            thread.join()
    return seen[0]


def test_brokers_and_clients_trust_what_the_ca_has_signed(inside: Ottla, tmp_path: Path) -> None:
    made = inside("certs", "server", "localhost", "127.0.0.1", "broker-1.example.com")
    assert made.code == 0, made.err
    assert inside("certs", "client", "till").code == 0
    folder = tmp_path / "certs"
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "localhost.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(folder / "ca.pem")
    client = ssl.create_default_context(cafile=folder / "ca.pem")
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    client.load_cert_chain(folder / "till.pem")
    for name in ("localhost", "127.0.0.1", "broker-1.example.com"):
        seen = shake_hands(server, client, name)
        assert isinstance(seen, dict)
        assert seen["subject"] == ((("commonName", "till"),),)


def test_keys_are_for_their_owner_only(inside: Ottla, tmp_path: Path) -> None:
    inside("certs", "server")
    inside("certs", "client", "till")
    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "certs").iterdir()
    }
    assert modes == {"ca.pem": 0o644, "ca.key": 0o600, "localhost.pem": 0o600, "till.pem": 0o600}


def test_files_stay_unless_they_are_to_be_replaced(inside: Ottla, tmp_path: Path) -> None:
    inside("certs", "ca")
    inside("certs", "client", "till")
    for words, name in ((["ca"], "ca.pem"), (["client", "till"], "till.pem")):
        before = (tmp_path / "certs" / name).read_bytes()
        refused = inside("certs", *words)
        assert refused.code == 1
        assert refused.err == (
            f"ottla: certs/{name} exists already: it stays; --replace replaces it\n"
        )
        assert (tmp_path / "certs" / name).read_bytes() == before
        assert inside("certs", *words, "--replace").code == 0
        assert (tmp_path / "certs" / name).read_bytes() != before


def test_a_certificate_that_expires_soon_is_told(inside: Ottla, tmp_path: Path) -> None:
    inside("certs", "server")
    inside("certs", "client", "soon", "--days", "3")
    done = inside("certs", "list", "-o", "json")
    assert [(each["file"], each["state"]) for each in done.data] == [
        ("certs/ca.pem", "valid"),
        ("certs/localhost.pem", "valid"),
        ("certs/soon.pem", "expires soon"),
    ]
    assert done.err == "Warning: certs/soon.pem expires in 2 days\n"
    assert "no certificates in elsewhere" in inside("certs", "list", "--dir", "elsewhere").err


def test_a_certificate_of_the_future_is_not_valid_yet(
    inside: Ottla, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tomorrow = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    monkeypatch.setattr(certificates, "_now", lambda: tomorrow)
    certificates.make_ca(tmp_path / "certs", days=100)
    done = inside("certs", "list", "-o", "json")
    assert [each["state"] for each in done.data] == ["not yet valid"]
    assert done.err.startswith("Warning: certs/ca.pem is not valid before ")


def test_no_certificate_outlives_its_ca(tmp_path: Path) -> None:
    ca = certificates.make_ca(tmp_path, days=2)
    server = certificates.make_server(tmp_path, ["localhost"], days=100)
    assert server.expires == ca.expires
    assert ca.expires - datetime.datetime.now(datetime.UTC) < datetime.timedelta(days=2)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["server", "localhost:9092"], "neither a host name nor an IP address"),
        (["client", "../till"], "cannot be the name of a file"),
        (["client", "ca"], "cannot be the name of a file"),
        (["client", "x" * 65], "longer than 64"),
        (["ca", "--days", "9999999999"], "too many"),
    ],
)
def test_wrong_names_are_told_in_one_line(inside: Ottla, words: list[str], expected: str) -> None:
    done = inside("certs", *words)
    assert done.code == 2
    assert expected in done.err.splitlines()[-1]


def test_settings_of_each_library_hide_the_password_from_its_text() -> None:
    settings = ClientSettings("SASL_SSL", Path("ca.pem"), None, "SCRAM-SHA-512", "alice", 'a"b\\c')
    assert 'a"b' not in repr(settings)
    assert settings.for_java()["sasl.jaas.config"].endswith(
        'ScramLoginModule required username="alice" password="a\\"b\\\\c";'
    )
    assert settings.for_librdkafka()["sasl.mechanisms"] == "SCRAM-SHA-512"
    assert settings.for_kafka_python()["sasl_plain_username"] == "alice"
    assert settings.for_ottla()["ssl.truststore.location"] == "ca.pem"


def test_a_folder_without_a_ca_that_can_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate", encoding="ascii")
    (tmp_path / "ca.key").write_text("no key", encoding="ascii")
    with pytest.raises(ConfigError, match="cannot be read"):
        certificates.make_client(tmp_path, "till", days=1)
