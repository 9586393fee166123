"""Certificates of a development CA, and files of users and tokens."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.broker.security.development_certificates import make_ca, make_server
from ottla.doors import login


class Certificates(NamedTuple):
    """A CA, and a certificate of 127.0.0.1 that it signed."""

    ca: Path
    server: Path

    def trust(self) -> ssl.SSLContext:
        """What a client needs."""
        return ssl.create_default_context(cafile=str(self.ca))


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certificates")
    make_ca(folder, days=2)
    made = make_server(folder, ["127.0.0.1", "localhost"], days=2)
    return Certificates(folder / "ca.pem", made.path)


@pytest.fixture
def login_file(tmp_path: Path) -> Path:
    file = tmp_path / "login.txt"
    file.write_text("# who may come in\nalice:open:sesame\n\na-long-token\n")
    return file


@pytest.fixture(autouse=True)
def quick_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "REFUSAL_SECONDS", 0.01)
