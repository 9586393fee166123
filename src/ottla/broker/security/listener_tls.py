"""The TLS of a listener: its certificates, read again when their files change, and whom it takes clients for."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime
from time import monotonic
from typing import Final, TypeAlias

from ottla.access import ANONYMOUS, Principal
from ottla.config.listeners import ListenerConfig
from ottla.core.security.certificate_fields import MalformedCertificateError, validity_of
from ottla.core.security.distinguished_name import subject_of
from ottla.core.security.principal_mapping import PrincipalMapping
from ottla.errors import ConfigError
from ottla.events import EventLog
from ottla.file_state import FileState, state_of
from ottla.tls.contexts import listener_context
from ottla.tls.stores import read_key_store

logger = EventLog(__name__)

# How long a client that is known by its certificate may resume a session of TLS 1.2.
SESSION_SECONDS: Final = 300.0
_Fingerprint: TypeAlias = tuple[FileState | None, ...]


class UnmappedNameError(Exception):
    """No rule of ssl.principal.mapping.rules fits the name in a certificate."""


class ListenerTls:
    """`context` is for new connections; those that exist keep the one that they began with."""

    def __init__(self, listener: str, config: ListenerConfig) -> None:
        self._listener = listener
        self._config = config
        self._mapping = PrincipalMapping(config.ssl_principal_mapping_rules)
        self._files = [
            location
            for location in (config.ssl_keystore_location, config.ssl_truststore_location)
            if location is not None
        ]
        # Taken before the files are read: what changes in between is read again.
        self._fingerprint = self._look()
        self._made = monotonic()
        self.context: ssl.SSLContext = listener_context(config)
        self._warn_of_expiry()

    def _look(self) -> _Fingerprint:
        """What shows whether the files have changed."""
        return tuple(map(state_of, self._files))

    async def reload_if_changed(self) -> None:
        """Reads changed files; if they cannot be used, the certificates that are in use stay."""
        found = self._look()
        has_changed = found != self._fingerprint
        if not has_changed and not self._has_old_sessions:
            return
        self._fingerprint = found
        self._made = monotonic()
        try:
            # Old stores are slow to decrypt on purpose.
            self.context = await asyncio.to_thread(listener_context, self._config)
        except ConfigError as error:
            logger.error(
                "certificates_not_reloaded",
                "listener %(listener)s goes on with its old certificates: %(reason)s",
                listener=self._listener,
                reason=str(error),
            )
            return
        if has_changed:
            logger.info(
                "certificates_reloaded",
                "listener %(listener)s has new certificates: %(files)s",
                listener=self._listener,
                files=", ".join(self._files),
            )
            await asyncio.to_thread(self._warn_of_expiry)

    def _warn_of_expiry(self) -> None:
        """Clients do not accept such a certificate, and their errors do not always say why."""
        try:
            store = read_key_store(self._config)
            if store is None:
                return
            begins, expires = validity_of(ssl.PEM_cert_to_DER_cert(store.own_certificate))
        except (ConfigError, MalformedCertificateError, ValueError):
            return  # OpenSSL has just read it: this is no reason to refuse it
        now = f"{datetime.now(UTC):%Y%m%d%H%M%SZ}"
        if begins <= now <= expires:
            return
        logger.warning(
            "certificate_not_valid",
            "the certificate of listener %(listener)s is not valid now, but from %(begins)s to %(expires)s: replace it",
            listener=self._listener,
            begins=_shown(begins),
            expires=_shown(expires),
        )

    @property
    def _has_old_sessions(self) -> bool:
        """Whether clients could go on with a session whose certificate was checked long ago.

        Sessions of TLS 1.2 are kept by the context, and Python cannot turn that off: a new context knows none.
        """
        is_known = self._config.ssl_client_auth != "none"
        return is_known and monotonic() - self._made >= SESSION_SECONDS

    def principal_of(self, certificate: bytes | None) -> Principal:
        """Whom a client's certificate stands for, which is DER and was checked; without one it is ANONYMOUS."""
        if certificate is None:
            return ANONYMOUS
        try:
            name = subject_of(certificate)
        except MalformedCertificateError as error:
            raise UnmappedNameError(f"its certificate cannot be read: {error}") from error
        mapped = self._mapping.name_of(name)
        if mapped is None:
            raise UnmappedNameError(f"no rule of ssl.principal.mapping.rules fits {name!r}")
        return Principal.user(mapped)


def _shown(time: str) -> str:
    """2026-11-18 09:30 UTC, of YYYYMMDDhhmmssZ."""
    return f"{time[:4]}-{time[4:6]}-{time[6:8]} {time[8:10]}:{time[10:12]} UTC"
