"""Key stores and trust stores: PEM text and PKCS#12 files, as the PEM text that OpenSSL wants."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.config.tls import PKCS12, StoreName, TlsConfig
from ottla.errors import ConfigError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

_PEM_BLOCK: Final = re.compile(
    r"-----BEGIN (?P<label>[A-Z0-9 ]+)-----(?P<body>.*?)-----END (?P=label)-----", re.DOTALL
)
_PEM_COLUMNS: Final = 64


class KeyStore(NamedTuple):
    """A private key with its certificate chain."""

    option: str
    """The option that it comes from, for messages."""
    pem: str
    password: str | None

    @property
    def own_certificate(self) -> str:
        """The first certificate, which is that of the key."""
        return next(block for label, block in _blocks(self.pem) if label.endswith("CERTIFICATE"))

    def __repr__(self) -> str:
        return f"KeyStore(option={self.option!r}, pem=(hidden), password=(hidden))"


class TrustStore(NamedTuple):
    """Trusted certificates."""

    option: str
    pem: str


def read_key_store(config: TlsConfig) -> KeyStore | None:
    """The private key that the options name; None if they name none."""
    if config.store_type("keystore") == PKCS12:
        return _key_of_pkcs12(config)
    if config.ssl_keystore_key is not None:
        name = "ssl.keystore.key"
        text = f"{config.ssl_keystore_key}\n{config.ssl_keystore_certificate_chain}"
    elif config.ssl_keystore_location is not None:
        name = "ssl.keystore.location"
        text = _read(name, config.ssl_keystore_location).decode("utf-8", "replace")
    else:
        return None
    blocks = _blocks(text)
    if not any(label.endswith("PRIVATE KEY") for label, _ in blocks):
        raise ConfigError(f"{name} has no private key: it must be PEM text, BEGIN PRIVATE KEY …")
    if not any(label.endswith("CERTIFICATE") for label, _ in blocks):
        raise ConfigError(
            f"{name} has no certificate: those of the key belong behind it, BEGIN CERTIFICATE …"
        )
    password = config.ssl_key_password
    if password is None and any(_is_encrypted(label, block) for label, block in blocks):
        raise ConfigError(f"the private key of {name} is encrypted: give ssl.key.password")
    return KeyStore(name, "".join(block for _, block in blocks), password)


def read_trust_store(config: TlsConfig) -> TrustStore | None:
    """The trusted certificates that the options name; None if they name none."""
    name = "ssl.truststore.location"
    if config.store_type("truststore") == PKCS12:
        return TrustStore(name, _certificates_of_pkcs12(config))
    if config.ssl_truststore_certificates is not None:
        name, text = "ssl.truststore.certificates", config.ssl_truststore_certificates
    elif config.ssl_truststore_location is not None:
        text = _read(name, config.ssl_truststore_location).decode("utf-8", "replace")
    else:
        return None
    certificates = [block for label, block in _blocks(text) if label.endswith("CERTIFICATE")]
    if not certificates:
        raise ConfigError(f"{name} has no certificate: it must be PEM text, BEGIN CERTIFICATE …")
    return TrustStore(name, "".join(certificates))


def _key_of_pkcs12(config: TlsConfig) -> KeyStore:
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    location = config.ssl_keystore_location
    assert location is not None, "TlsConfig checks it"
    store = _load_pkcs12("keystore", location, config.ssl_keystore_password)
    if store.key is None or store.cert is None:
        raise ConfigError(f"ssl.keystore.location={location} has no private key with a certificate")
    chain = [store.cert, *store.additional_certs]
    pem = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + b"".join(
        each.certificate.public_bytes(Encoding.PEM) for each in chain
    )
    return KeyStore("ssl.keystore.location", pem.decode(), None)


def _certificates_of_pkcs12(config: TlsConfig) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    location = config.ssl_truststore_location
    assert location is not None, "TlsConfig checks it"
    store = _load_pkcs12("truststore", location, config.ssl_truststore_password)
    found = [*filter(None, [store.cert]), *store.additional_certs]
    if not found:
        raise ConfigError(f"ssl.truststore.location={location} has no certificate")
    return b"".join(each.certificate.public_bytes(Encoding.PEM) for each in found).decode()


def _load_pkcs12(store: StoreName, location: str, password: str | None) -> PKCS12KeyAndCertificates:
    try:
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError as error:
        raise ConfigError(
            f"ssl.{store}.location={location}: PKCS12 needs the package cryptography: "
            'install it with `pip install "ottla[security]"`, or give a PEM file'
        ) from error
    data = _read(f"ssl.{store}.location", location)
    try:
        return load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        raise ConfigError(
            f"ssl.{store}.location={location} is no PKCS12 store, or ssl.{store}.password is "
            f"{'missing' if password is None else 'wrong'}"
        ) from error


def _is_encrypted(label: str, block: str) -> bool:
    return label == "ENCRYPTED PRIVATE KEY" or "Proc-Type: 4,ENCRYPTED" in block


def _blocks(text: str) -> list[tuple[str, str]]:
    """The PEM blocks of a text, in lines as OpenSSL wants them: properties files join lines."""
    found = []
    for match in _PEM_BLOCK.finditer(text):
        label, body = match["label"], match["body"]
        if ":" not in body:
            packed = "".join(body.split())
            lines = range(0, len(packed), _PEM_COLUMNS)
            body = "\n" + "".join(f"{packed[at : at + _PEM_COLUMNS]}\n" for at in lines)
        found.append((label, f"-----BEGIN {label}-----{body}-----END {label}-----\n"))
    return found


def _read(name: str, location: str) -> bytes:
    try:
        return Path(location).read_bytes()
    except OSError as error:
        raise ConfigError(f"{name}={location} cannot be read: {error.strerror}") from error
