"""TLS of a door: a context whose certificate is read again when its files have changed."""

from __future__ import annotations

import re
import ssl
import time
from dataclasses import fields
from typing import Final

from ottla.config.listeners import ListenerConfig
from ottla.config.tls import TlsConfig
from ottla.errors import ConfigError
from ottla.events import EventLog
from ottla.file_state import state_of
from ottla.tls.contexts import listener_context
from ottla.tls.stores import read_key_store

logger = EventLog(__name__)

# The least time between two looks at the files.
LOOK_SECONDS: Final = 1.0
_CERTIFICATE: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL
)


def server_context(certificate: TlsConfig, what: str) -> ssl.SSLContext:
    """The context of a server; clients are not asked for certificates."""
    names = {field.name for field in fields(TlsConfig)} - {"given", "scoped"}
    config = ListenerConfig(**{name: getattr(certificate, name) for name in names})
    context = listener_context(config)
    if config.ssl_keystore_location is not None:
        context.sni_callback = _Renewal(config, what, context).use_newest
    return context


def peer_context(certificate: TlsConfig) -> ssl.SSLContext:
    """The context of a client of such servers, which have certificates of the same authority."""
    context = ssl.create_default_context()
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    store = read_key_store(certificate)
    assert store is not None
    chain = _CERTIFICATE.findall(store.pem)
    if chain:
        context.load_verify_locations(cadata="\n".join(chain))
    return context


class _Renewal:
    """Looks at the file of a certificate when a client connects, and uses what it has then."""

    def __init__(self, config: ListenerConfig, what: str, context: ssl.SSLContext) -> None:
        assert config.ssl_keystore_location is not None
        self._file = config.ssl_keystore_location
        self._config = config
        self._what = what
        self._newest = context
        self._seen = state_of(self._file)
        self._looked_at = time.monotonic()

    def use_newest(
        self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext
    ) -> None:
        """Called for each handshake, when the client has said whom it wants to reach."""
        if time.monotonic() >= self._looked_at + LOOK_SECONDS:
            self._looked_at = time.monotonic()
            self._look()
        connection.context = self._newest

    def _look(self) -> None:
        state = state_of(self._file)
        if state == self._seen:
            return
        self._seen = state
        try:
            self._newest = listener_context(self._config)
        except (ConfigError, OSError) as error:
            logger.warning(
                "certificate_not_read",
                "%(what)s: the certificate of before stays: %(reason)s",
                what=self._what,
                reason=str(error),
            )
        else:
            logger.info(
                "certificate_read", "%(what)s: the certificate was read again", what=self._what
            )
