"""The options about TLS as contexts of `ssl`, for clients and for listeners."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path
from typing import Final

from ottla.config.listeners import ListenerConfig
from ottla.config.security import SecurityConfig
from ottla.config.tls import TlsConfig
from ottla.errors import ConfigError
from ottla.tls.stores import read_key_store, read_trust_store

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


def client_context(config: SecurityConfig) -> ssl.SSLContext:
    """The context of a client's connections; ConfigError if the options do not fit together."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = config.ssl_endpoint_identification_algorithm == "https"
    _set_versions(context, config)
    if not _trust(context, config):
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    _identify(context, config)
    return context


def listener_context(config: ListenerConfig) -> ssl.SSLContext:
    """The context of a listener's connections; ConfigError if the options do not fit together."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    _set_versions(context, config)
    if config.ssl_client_auth != "none":
        context.verify_mode = _CLIENT_AUTH[config.ssl_client_auth]
        _trust(context, config)
        # A session that is resumed would outlive the check of its certificate.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
    _identify(context, config)
    return context


def _set_versions(context: ssl.SSLContext, config: TlsConfig) -> None:
    # As in Java: a certificate in the trust store is trusted even if it is not a root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    versions = [_VERSIONS[name] for name in config.tls_versions]
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    ciphers = config.openssl_ciphers
    if ciphers is None:
        return
    try:
        context.set_ciphers(ciphers)
    except ssl.SSLError as error:
        raise ConfigError(
            f"ssl.cipher.suites: OpenSSL knows none of {ciphers}: `openssl ciphers -v` lists them"
        ) from error


def _trust(context: ssl.SSLContext, config: TlsConfig) -> bool:
    """Loads the trusted certificates; False if the options name none."""
    store = read_trust_store(config)
    if store is None:
        return False
    try:
        context.load_verify_locations(cadata=store.pem)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"{store.option} has a certificate that cannot be read: {error}"
        ) from error
    return True


def _identify(context: ssl.SSLContext, config: TlsConfig) -> None:
    """Loads the private key and the certificate of this side, if the options name them."""
    store = read_key_store(config)
    if store is None:
        return
    try:
        _load_key(context, store.pem, store.password)
    except ssl.SSLError as error:
        why = error.reason or str(error)
        hint = "" if store.password is None else ", or ssl.key.password is wrong"
        raise ConfigError(
            f"{store.option}: the private key does not go with the certificates{hint} ({why})"
        ) from error


def _load_key(context: ssl.SSLContext, text: str, password: str | None) -> None:
    # Python's ssl reads keys from files only. The folder has mode 0700 and is removed at once.
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "key.pem")
        file.write_text(text, encoding="utf-8")
        # Without a function, OpenSSL would ask at the terminal.
        context.load_cert_chain(file, password=lambda: password or "")
