"""Every door with real clients: TLS, logins, wrong passwords, plain text to TLS, clients that do nothing."""

from __future__ import annotations

import logging
import shutil
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from tests.broker.requests import running
from tests.doors.conftest import Certificates

import ottla
from ottla.app.life.health_server import HealthServer
from ottla.broker.metrics import listener as metrics_listener
from ottla.broker.security.development_certificates import make_ca, make_server
from ottla.doors import asgi_server, certificate, login
from ottla.doors.door import Door
from ottla.exposition import Metric, Page
from ottla.model import Endpoint
from ottla.schemas.client.blocking import SchemaRegistryClient

EVERY_DOOR = pytest.mark.parametrize("kind", ["metrics", "registry", "app"])
USER = ("alice", "open:sesame")
TOKEN = {"Authorization": "Bearer a-long-token"}


class AppReport:
    """The health of an app that is well."""

    def health(self) -> tuple[bool, dict[str, Any]]:
        return True, {"app": "shop"}

    readiness = health

    def page(self) -> Page:
        page = Page()
        page.add(Metric("shop_up", "gauge", "Whether it is."), 1)
        return page


class Opened(NamedTuple):
    """A door: its address, a page behind the login, and those that are for everybody."""

    url: str
    page: str
    open_pages: tuple[str, ...]


@contextmanager
def open_door(kind: str, certificate: Path, login: Path | None = None) -> Iterator[Opened]:
    if kind == "metrics":
        with ottla.Broker(
            metrics="https://127.0.0.1:0", metrics_certificate=certificate, metrics_login=login
        ) as broker:
            yield Opened(broker.metrics_url.removesuffix("/metrics"), "/metrics", ("/healthz",))
    elif kind == "registry":
        with (
            ottla.Broker() as broker,
            ottla.SchemaRegistry(
                bootstrap_servers=broker.bootstrap_servers,
                listen="https://127.0.0.1:0",
                certificate=certificate,
                login=login,
            ) as registry,
        ):
            yield Opened(registry.url, "/subjects", ())
    else:
        door = Door.read("--health", "https://127.0.0.1:0", certificate=certificate, login=login)
        server = HealthServer(door, AppReport())
        server.start()
        try:
            yield Opened(server.door.url, "/metrics", ("/healthz", "/readyz"))
        finally:
            server.stop()


@EVERY_DOOR
def test_a_door_with_tls_and_login(certificates: Certificates, login_file: Path, kind: str) -> None:
    with open_door(kind, certificates.server, login_file) as opened:
        go_through(opened, certificates, login_file, kind)


def go_through(opened: Opened, certificates: Certificates, login_file: Path, kind: str) -> None:
    assert opened.url.startswith("https://")
    address = Endpoint.parse(opened.url.removeprefix("https://"))
    with httpx.Client(base_url=opened.url, verify=certificates.trust(), timeout=10) as client:
        for page in opened.open_pages:
            assert client.get(page).status_code == 200
        for refused in (
            client.get(opened.page),
            client.get(opened.page, auth=("alice", "wrong")),
            client.get(opened.page, auth=("nobody", "wrong")),
            client.get(opened.page, headers={"Authorization": "Bearer wrong"}),
        ):
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"].startswith("Basic realm=")
            assert "wrong" not in refused.text
        assert client.get(opened.page, auth=USER).status_code == 200
        assert client.get(opened.page, headers=TOKEN).status_code == 200
        login_file.write_text("bob:word\n")
        assert client.get(opened.page, auth=USER).status_code == 401
        assert client.get(opened.page, auth=("bob", "word")).status_code == 200
        # Clients that do nothing, or do not speak TLS, are in nobody's way.
        with (
            socket.create_connection(address, timeout=10),
            socket.create_connection(address, timeout=10) as plain,
        ):
            plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n")
            answer = plain.recv(1000)
            assert b"200" not in answer
            if kind == "metrics":
                assert answer.endswith(b"this address needs https\n")
            assert client.get(opened.page, auth=("bob", "word")).status_code == 200
    with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
        httpx.get(opened.url + opened.page, timeout=10)


@EVERY_DOOR
def test_a_certificate_is_read_again_when_its_file_changes(
    certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(certificate, "LOOK_SECONDS", 0.0)
    used = tmp_path / "used.pem"
    shutil.copy(certificates.server, used)
    make_ca(tmp_path, days=2)
    newer = make_server(tmp_path, ["127.0.0.1"], days=2).path
    before, after = certificates.trust(), ssl.create_default_context(cafile=tmp_path / "ca.pem")
    with open_door(kind, used) as opened:
        url = opened.url + opened.page
        assert httpx.get(url, verify=before).status_code == 200
        used.write_text("nonsense")
        assert httpx.get(url, verify=before).status_code == 200
        shutil.copy(newer, used)
        assert httpx.get(url, verify=after).status_code == 200
        with pytest.raises(httpx.ConnectError):
            httpx.get(url, verify=before)


def test_handshakes_that_do_not_end_count_as_connections(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_listener, "MAX_CONNECTIONS", 4)
    with ottla.Broker(
        metrics="https://127.0.0.1:0", metrics_certificate=certificates.server
    ) as broker:
        address = Endpoint.parse(
            broker.metrics_url.removeprefix("https://").removesuffix("/metrics")
        )
        silent = [socket.create_connection(address, timeout=10) for _ in range(6)]
        try:
            assert httpx.get(broker.metrics_url, verify=certificates.trust()).status_code == 200
            assert silent[0].recv(1) == b""  # it made room
        finally:
            for each in silent:
                each.close()


def test_a_wrong_password_keeps_its_place_until_it_is_refused(
    login_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a client could guess as fast as it connects, and look only for the right answer."""
    monkeypatch.setattr(metrics_listener, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(login, "REFUSAL_SECONDS", 60.0)
    with ottla.Broker(metrics="127.0.0.1:0", metrics_login=login_file) as broker:
        url = broker.metrics_url.removesuffix("/metrics")
        address = Endpoint.parse(url.removeprefix("http://"))
        monitoring = running(broker)._monitoring
        assert monitoring is not None
        assert monitoring.listener is not None
        conversations = monitoring.listener.conversations
        guesses = [socket.create_connection(address, timeout=10) for _ in range(2)]
        for each in guesses:
            each.sendall(b"GET /metrics HTTP/1.1\r\nAuthorization: Bearer guess\r\n\r\n")
        while conversations.silent or len(conversations.tasks) < 2:
            time.sleep(0.005)
        with socket.create_connection(address, timeout=10) as another:
            assert another.recv(1) == b""
        for each in guesses:
            each.settimeout(0.01)
            with pytest.raises(TimeoutError):
                each.recv(1)
            each.close()


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16",
        b"\x16\x03\x01\x00\x05nothing at all",
        b"\x16\x03\x01\xff\xff" + bytes(70_000),
        bytes(10_000),
        b"\x15\x03\x03\x00\x02\x02\x28",
    ],
)
def test_garbage_costs_only_its_connection(
    certificates: Certificates, caplog: pytest.LogCaptureFixture, garbage: bytes
) -> None:
    with open_door("metrics", certificates.server) as opened:
        address = Endpoint.parse(opened.url.removeprefix("https://"))
        with socket.create_connection(address, timeout=10) as client, suppress(ConnectionError):
            client.sendall(garbage)
            client.shutdown(socket.SHUT_WR)
            while client.recv(1000):
                pass
        answer = httpx.get(f"{opened.url}/metrics", verify=certificates.trust(), timeout=10)
        assert answer.status_code == 200
    assert [each for each in caplog.records if each.levelno > logging.INFO] == []


@pytest.mark.parametrize("kind", ["registry", "app"])
def test_a_request_has_to_begin_in_time(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(asgi_server, "HEAD_SECONDS", 0.05)
    with open_door(kind, certificates.server) as opened:
        address = Endpoint.parse(opened.url.removeprefix("https://"))
        trust = certificates.trust()
        with (
            socket.create_connection(address, timeout=10) as bare,
            trust.wrap_socket(bare, server_hostname="127.0.0.1") as client,
        ):
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: ")
            assert client.recv(1) == b""
        answer = httpx.get(opened.url + opened.page, verify=trust, timeout=10)
        assert answer.status_code == 200


def test_a_registry_client_comes_in_with_its_options(
    certificates: Certificates, login_file: Path
) -> None:
    with (
        ottla.Broker() as broker,
        ottla.SchemaRegistry(
            bootstrap_servers=broker.bootstrap_servers,
            listen="https://127.0.0.1:0",
            certificate=certificates.server,
            login=login_file,
        ) as registry,
        SchemaRegistryClient(
            {
                "schema.registry.url": registry.url,
                "schema.registry.ssl.truststore.location": str(certificates.ca),
                "basic.auth.credentials.source": "USER_INFO",
                "basic.auth.user.info": ":".join(USER),
            }
        ) as client,
    ):
        assert client.get_subjects() == []


def test_registries_that_forward_trust_each_others_certificates(
    certificates: Certificates, login_file: Path
) -> None:
    with ottla.Broker(group_min_session_timeout_ms=1_000) as broker:
        options = {
            "bootstrap_servers": broker.bootstrap_servers,
            "listen": "https://127.0.0.1:0",
            "certificate": certificates.server,
            "login": login_file,
        }
        with (
            ottla.SchemaRegistry(**options) as one,  # type: ignore[arg-type]
            ottla.SchemaRegistry(**options) as two,  # type: ignore[arg-type]
        ):
            for number, registry in enumerate((one, two), 1):
                answer = httpx.post(
                    f"{registry.url}/subjects/s{number}/versions",
                    json={"schema": f'{{"type": "fixed", "name": "f", "size": {number}}}'},
                    auth=USER,
                    verify=certificates.trust(),
                    timeout=30,
                )
                assert answer.json() == {"id": number}
