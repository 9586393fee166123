"""Certificates for development and tests: a CA, and what it signs for brokers and clients, as PEM files.

Needs cryptography (`pip install 'ottla[security]'`); nothing that a plain installation uses imports this.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.errors import ConfigError, OttlaError

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError as error:
    raise ConfigError(
        "making certificates needs the package cryptography: pip install 'ottla[security]'"
    ) from error

CA_FILE: Final = "ca.pem"
CA_KEY_FILE: Final = "ca.key"
CA_NAME: Final = "Ottla development CA"
LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "::1")
# Clocks of other machines may be behind.
_BACKDATED: Final = datetime.timedelta(hours=1)
_MAX_COMMON_NAME: Final = 64
_HOST: Final = re.compile(r"(?:\*\.)?[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?")
_OWNER_ONLY: Final = 0o600
_EVERYBODY_READS: Final = 0o644
_BOTH_USAGES: Final = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


class FileExistsAlreadyError(OttlaError):
    """A file would have been replaced."""


@dataclass(frozen=True)
class CertificateFile:
    """A PEM file with a certificate, and what the certificate says."""

    path: Path
    subject: str
    names: tuple[str, ...]
    begins: datetime.datetime
    expires: datetime.datetime
    is_ca: bool
    has_key: bool


def make_ca(
    folder: Path, *, days: int, name: str = CA_NAME, replace: bool = False
) -> CertificateFile:
    """Make `ca.pem` and `ca.key`."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = (folder / CA_FILE, folder / CA_KEY_FILE)
    _check_absent(paths, replace=replace)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _named(name)
    certificate = (
        _builder(subject, subject, key.public_key(), _days_from_now(days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write(folder / CA_KEY_FILE, _pem_of_key(key), _OWNER_ONLY, replace=replace)
    _write(folder / CA_FILE, _pem(certificate), _EVERYBODY_READS, replace=replace)
    return _described(folder / CA_FILE, certificate, has_key=False)


def make_server(
    folder: Path, names: Sequence[str], *, days: int, replace: bool = False
) -> CertificateFile:
    """Make `NAME.pem` with the key and the certificate of a broker, for all names and addresses."""
    alternatives = [_alternative(name) for name in names]
    return _make_signed(
        folder,
        names[0],
        alternatives,
        # A node is also a client, of the other nodes.
        _BOTH_USAGES,
        days=days,
        replace=replace,
    )


def make_client(folder: Path, name: str, *, days: int, replace: bool = False) -> CertificateFile:
    """Make `NAME.pem` with the key and the certificate of a client, whose principal is `User:CN=NAME`."""
    usages = (ExtendedKeyUsageOID.CLIENT_AUTH,)
    return _make_signed(folder, name, [], usages, days=days, replace=replace)


def certificates_in(folder: Path) -> list[CertificateFile]:
    """The certificates in the PEM files of a folder, the CA first."""
    found = []
    for path in sorted(folder.glob("*.pem")):
        text = path.read_bytes()
        try:
            certificate = x509.load_pem_x509_certificate(text)
        except ValueError:
            continue
        found.append(_described(path, certificate, has_key=b"PRIVATE KEY" in text))
    return sorted(found, key=lambda each: (not each.is_ca, each.path.name))


def _make_signed(
    folder: Path,
    name: str,
    alternatives: list[x509.GeneralName],
    usages: Iterable[x509.ObjectIdentifier],
    *,
    days: int,
    replace: bool,
) -> CertificateFile:
    path = folder / file_name(name)
    _check_absent([path], replace=replace)
    ca, ca_key = _load_ca(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    expires = min(_days_from_now(days), ca.not_valid_after_utc)
    builder = (
        _builder(_named(name), ca.subject, key.public_key(), expires)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
    )
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    certificate = builder.sign(ca_key, hashes.SHA256())
    _write(path, _pem_of_key(key) + _pem(certificate), _OWNER_ONLY, replace=replace)
    return _described(path, certificate, has_key=True)


def file_name(name: str) -> str:
    """The name of the file of a broker or client."""
    if not name or "/" in name or "\0" in name or name in (".", "..", "ca"):
        raise ConfigError(f"{name!r} cannot be the name of a file: choose another")
    return f"{name.replace('*', 'any').replace(':', '-')}.pem"


def _load_ca(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        certificate = x509.load_pem_x509_certificate((folder / CA_FILE).read_bytes())
        key = serialization.load_pem_private_key((folder / CA_KEY_FILE).read_bytes(), None)
    except ValueError as error:
        raise ConfigError(f"{folder} has a CA that cannot be read: make another folder") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError(f"{folder / CA_KEY_FILE} has a key of another kind: make another folder")
    if certificate.not_valid_after_utc <= _now():
        raise ConfigError(
            f"{folder / CA_FILE} has expired: `ottla certs ca --replace` makes a new one, "
            "and everything that it signed has to be made anew"
        )
    return certificate, key


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _days_from_now(days: int) -> datetime.datetime:
    try:
        return _now() + datetime.timedelta(days=days)
    except OverflowError:
        raise ConfigError(f"{days} days are too many") from None


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    expires: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_now() - _BACKDATED)
        .not_valid_after(expires)
    )


def _named(name: str) -> x509.Name:
    if len(name) > _MAX_COMMON_NAME:
        raise ConfigError(f"{name!r} is longer than {_MAX_COMMON_NAME} characters")
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(name: str) -> x509.GeneralName:
    """A host name or an IP address, as clients compare it with the one that they connect to."""
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    if _HOST.fullmatch(name) is None:
        raise ConfigError(f"{name!r} is neither a host name nor an IP address: leave out the port")
    return x509.DNSName(name)


def _described(path: Path, certificate: x509.Certificate, *, has_key: bool) -> CertificateFile:
    names: tuple[str, ...] = ()
    is_ca = False
    for extension in certificate.extensions:
        if isinstance(extension.value, x509.SubjectAlternativeName):
            names = tuple(str(each.value) for each in extension.value)
        elif isinstance(extension.value, x509.BasicConstraints):
            is_ca = extension.value.ca
    return CertificateFile(
        path=path,
        subject=certificate.subject.rfc4514_string(),
        names=names,
        begins=certificate.not_valid_before_utc,
        expires=certificate.not_valid_after_utc,
        is_ca=is_ca,
        has_key=has_key,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _pem_of_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    """PKCS #8, which Java reads too."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _check_absent(paths: Iterable[Path], *, replace: bool) -> None:
    for path in paths:
        if path.exists() and not replace:
            raise FileExistsAlreadyError(f"{path} exists already: it stays; --replace replaces it")


def _write(path: Path, text: bytes, mode: int, *, replace: bool) -> None:
    """Write a file that has its mode from the first moment on, whole or not at all."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as stream:
        stream.write(text)
    if replace:
        new.replace(path)
        return
    try:
        os.link(new, path)
    except FileExistsError:
        raise FileExistsAlreadyError(f"{path} exists already: it stays") from None
    finally:
        new.unlink()
