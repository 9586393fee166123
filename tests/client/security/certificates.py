"""Certificates for tests, made by the openssl command."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

KEY_PASSWORD = "open sesame"
STORE_PASSWORD = "store sesame"
RIGHT_NAMES = "IP:127.0.0.1,DNS:localhost"
WRONG_NAMES = "DNS:elsewhere.example"


@dataclass(frozen=True)
class Certificates:
    """PEM files: who signs, a server with the right and one with a wrong name, a client, a stranger."""

    folder: Path

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    @property
    def other_ca(self) -> Path:
        return self.folder / "other-ca.pem"

    @property
    def server(self) -> Path:
        return self.folder / "server.pem"

    @property
    def wrong_name(self) -> Path:
        return self.folder / "wrong-name.pem"

    @property
    def client(self) -> Path:
        return self.folder / "client.pem"

    @property
    def encrypted_client(self) -> Path:
        """The client's file, its key encrypted with KEY_PASSWORD."""
        return self.folder / "encrypted-client.pem"

    @property
    def expired(self) -> Path:
        """A server's file, with a certificate that has expired."""
        return self.folder / "expired.pem"

    @property
    def server_store(self) -> Path:
        """The server's key and certificate as PKCS#12; the password of all stores is STORE_PASSWORD."""
        return self.folder / "server.p12"

    @property
    def client_store(self) -> Path:
        return self.folder / "client.p12"

    @property
    def ca_store(self) -> Path:
        return self.folder / "ca.p12"

    def server_context(self, file: Path | None = None) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file or self.server)
        return context

    def server_context_for_known_clients(self) -> ssl.SSLContext:
        context = self.server_context()
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(self.ca)
        return context


def make_certificates(folder: Path) -> Certificates:
    """The files in a folder; skips where there is no openssl."""
    if shutil.which("openssl") is None:
        pytest.skip("certificates for TLS are made with openssl, which is not installed")
    for name in ("ca", "other-ca"):
        _new_key(folder, name)
        _openssl(
            folder,
            *("req", "-x509", "-new", "-key", f"{name}.key", "-out", f"{name}.pem", "-days", "2"),
            *("-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:TRUE"),
        )
    for name, names in (("server", RIGHT_NAMES), ("wrong-name", WRONG_NAMES), ("client", "DNS:c")):
        _signed(folder, name, names)
    _openssl(
        folder,
        *("pkcs8", "-topk8", "-in", "client.key", "-out", "encrypted.key"),
        *("-passout", f"pass:{KEY_PASSWORD}"),
    )
    _join(folder, "encrypted-client.pem", "encrypted.key", "client.crt")
    _signed(folder, "expired", RIGHT_NAMES, days=-1)
    _join(folder, "stranger.pem", "other-ca.key", "other-ca.pem")
    for name in ("server", "client"):
        _store(folder, name, "-in", f"{name}.pem")
    _store(folder, "ca", "-nokeys", "-in", "ca.pem")
    return Certificates(folder)


def _store(folder: Path, name: str, *contents: str) -> None:
    password = f"pass:{STORE_PASSWORD}"
    _openssl(folder, "pkcs12", "-export", *contents, "-out", f"{name}.p12", "-passout", password)


def _signed(folder: Path, name: str, names: str, days: int = 2) -> None:
    _new_key(folder, name)
    (folder / "extensions").write_text(f"subjectAltName={names}\n", encoding="ascii")
    _openssl(folder, "req", "-new", "-key", f"{name}.key", "-out", "csr", "-subj", f"/CN={name}")
    _openssl(
        folder,
        *("x509", "-req", "-in", "csr", "-out", f"{name}.crt", "-days", str(days)),
        *("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "extensions"),
    )
    _join(folder, f"{name}.pem", f"{name}.key", f"{name}.crt")


def _new_key(folder: Path, name: str) -> None:
    curve = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
    _openssl(folder, "genpkey", *curve, "-out", f"{name}.key")


def _join(folder: Path, target: str, *parts: str) -> None:
    text = "".join((folder / part).read_text(encoding="ascii") for part in parts)
    (folder / target).write_text(text, encoding="ascii")


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(
        ["openssl", *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=30,
    )
