"""Addresses of doors, and the warnings about those that stand open."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from tests.doors.conftest import Certificates

import ottla
from ottla.config.tls import TlsConfig
from ottla.doors.door import Door
from ottla.errors import ConfigError


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("127.0.0.1:9464", "http://127.0.0.1:9464"),
        ("http://127.0.0.1:9464", "http://127.0.0.1:9464"),
        ("https://[::1]:9464", "https://[::1]:9464"),
        ("HTTPS://localhost:0/", "https://localhost:0"),
    ],
)
def test_an_address_says_whether_there_is_tls(
    certificates: Certificates, address: str, url: str
) -> None:
    file = certificates.server if Door.uses_tls(address) else None
    assert Door.read("--metrics", address, certificate=file).url == url


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("https://127.0.0.1:0", "--metrics https://127.0.0.1:0 needs a certificate"),
        ("ftp://127.0.0.1:0", "neither HOST:PORT nor https://HOST:PORT"),
        ("9464", "HOST:PORT"),
    ],
)
def test_an_address_with_a_mistake_is_refused(address: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Door.read("--metrics", address, certificate_otherwise=TlsConfig())


def test_nothing_is_accepted_and_ignored(certificates: Certificates) -> None:
    with pytest.raises(ConfigError, match="does not use its certificate: write https://"):
        Door.read("--metrics", "127.0.0.1:0", certificate=certificates.server)
    with pytest.raises(ConfigError, match="no effect without metrics="):
        ottla.Broker(metrics_login=certificates.server)


def test_a_certificate_that_cannot_be_used_is_refused(
    certificates: Certificates, tmp_path: Path
) -> None:
    for file, problem in (
        (certificates.ca, "has no private key"),
        (tmp_path / "missing.pem", "cannot be read"),
    ):
        with pytest.raises(ConfigError, match=problem):
            Door.read("--metrics", "https://127.0.0.1:0", certificate=file)


def test_the_certificate_of_the_broker_is_used_where_no_other_is_given(
    certificates: Certificates,
) -> None:
    of_broker = TlsConfig.read({"ssl.keystore.location": str(certificates.server)})
    door = Door.read("--metrics", "https://127.0.0.1:0", certificate_otherwise=of_broker)
    assert door.context() is not None


@pytest.mark.parametrize(
    ("address", "has_login", "warning"),
    [
        ("127.0.0.1:0", False, None),
        ("localhost:0", False, None),
        ("[::1]:0", False, None),
        ("0.0.0.0:0", False, "ANYBODY who reaches http://0.0.0.0:0 may use it"),
        ("https://broker-1:0", False, "ANYBODY who reaches https://broker-1:0 may use it"),
        ("0.0.0.0:0", True, "in plain text: use https"),
        ("https://0.0.0.0:0", True, None),
    ],
)
def test_a_door_for_strangers_warns(
    certificates: Certificates,
    login_file: Path,
    caplog: pytest.LogCaptureFixture,
    address: str,
    has_login: bool,
    warning: str | None,
) -> None:
    door = Door.read(
        "--metrics",
        address,
        certificate=certificates.server if Door.uses_tls(address) else None,
        login=login_file if has_login else None,
    )
    with caplog.at_level(logging.WARNING):
        door.warn_if_open()
    assert [warning in each.getMessage() for each in caplog.records if warning] == (
        [True] if warning else []
    )
    assert len(caplog.records) == (warning is not None)
