"""The TLS options as an `ssl.SSLContext`."""

from __future__ import annotations

import re
import ssl
import tempfile
from pathlib import Path

from ottla.config.security import SecurityConfig
from ottla.errors import ConfigError

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_PEM_BLOCK = re.compile(
    r"-----BEGIN (?P<label>[A-Z0-9 ]+)-----(?P<body>.*?)-----END (?P=label)-----", re.DOTALL
)
_PEM_COLUMNS = 64


def tls_context(config: SecurityConfig) -> ssl.SSLContext:
    """The context of all connections; ConfigError if the options do not fit together."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = config.ssl_endpoint_identification_algorithm == "https"
    # As in Java: a certificate in the trust store is trusted even if it is not a root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    versions = [_VERSIONS[name] for name in config.tls_versions]
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    if config.openssl_ciphers is not None:
        _choose_ciphers(context, config.openssl_ciphers)
    _trust(context, config)
    _identify(context, config)
    return context


def _choose_ciphers(context: ssl.SSLContext, ciphers: str) -> None:
    try:
        context.set_ciphers(ciphers)
    except ssl.SSLError as error:
        raise ConfigError(
            f"ssl.cipher.suites: OpenSSL knows none of {ciphers}: `openssl ciphers -v` lists them"
        ) from error


def _trust(context: ssl.SSLContext, config: SecurityConfig) -> None:
    if config.ssl_truststore_certificates is not None:
        name, text = "ssl.truststore.certificates", config.ssl_truststore_certificates
    elif config.ssl_truststore_location is not None:
        name = "ssl.truststore.location"
        text = _read(name, config.ssl_truststore_location)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return
    certificates = [block for label, block in _blocks(text) if label.endswith("CERTIFICATE")]
    if not certificates:
        raise ConfigError(f"{name} has no certificate: it must be PEM text, BEGIN CERTIFICATE …")
    try:
        context.load_verify_locations(cadata="".join(certificates))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{name} has a certificate that cannot be read: {error}") from error


def _identify(context: ssl.SSLContext, config: SecurityConfig) -> None:
    """The client's own certificate, for brokers that want one."""
    if config.ssl_keystore_key is not None:
        name = "ssl.keystore.key"
        text = f"{config.ssl_keystore_key}\n{config.ssl_keystore_certificate_chain}"
    elif config.ssl_keystore_location is not None:
        name = "ssl.keystore.location"
        text = _read(name, config.ssl_keystore_location)
    else:
        return
    blocks = _blocks(text)
    if not any(label.endswith("PRIVATE KEY") for label, _ in blocks):
        raise ConfigError(f"{name} has no private key: it must be PEM text, BEGIN PRIVATE KEY …")
    password = config.ssl_key_password
    if password is None and any(_is_encrypted(label, block) for label, block in blocks):
        raise ConfigError(f"the private key of {name} is encrypted: give ssl.key.password")
    try:
        _load_key(context, "".join(block for _, block in blocks), password)
    except ssl.SSLError as error:
        why = error.reason or str(error)
        hint = "" if password is None else ", or ssl.key.password is wrong"
        raise ConfigError(
            f"{name}: the private key does not go with the certificates{hint} ({why})"
        ) from error


def _load_key(context: ssl.SSLContext, text: str, password: str | None) -> None:
    # Python's ssl reads keys from files only. The folder has mode 0700 and is removed at once.
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "key.pem")
        file.write_text(text, encoding="utf-8")
        # Without a function, OpenSSL would ask at the terminal.
        context.load_cert_chain(file, password=lambda: password or "")


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


def _read(name: str, location: str) -> str:
    try:
        return Path(location).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(f"{name}={location} cannot be read: {error.strerror}") from error
