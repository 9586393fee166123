"""A door: where a server of HTTP listens, whether with TLS, and who may come in."""

from __future__ import annotations

import ipaddress
import os
import ssl
from dataclasses import dataclass, replace
from typing import Final, Self

from ottla.config.tls import TlsConfig
from ottla.doors.login import Login, LoginFile
from ottla.errors import ConfigError
from ottla.events import EventLog
from ottla.model import Endpoint

logger = EventLog(__name__)

HTTP: Final = "http"
HTTPS: Final = "https"
_LOCAL_NAMES: Final = ("localhost", "ip6-localhost")


@dataclass(frozen=True, slots=True)
class Door:
    """An address, the certificate if it is https, and who may come in: None is everybody.

    `what` says in messages which door it is.
    """

    what: str
    endpoint: Endpoint
    certificate: TlsConfig | None = None
    login: Login | None = None

    @classmethod
    def read(
        cls,
        what: str,
        address: str,
        *,
        certificate: str | os.PathLike[str] | None = None,
        certificate_otherwise: TlsConfig | None = None,
        login: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Read HOST:PORT, or https://HOST:PORT; `certificate` is a PEM file, `login` a file of users and tokens."""
        scheme, endpoint = _scheme_and_endpoint(what, address)
        if scheme == HTTP and certificate is not None:
            raise ConfigError(
                f"{what} {address} does not use its certificate: write https://{endpoint}"
            )
        door = cls(
            what,
            endpoint,
            _certificate(what, address, certificate, certificate_otherwise)
            if scheme == HTTPS
            else None,
            None if login is None else LoginFile(login),
        )
        door.context()  # what is wrong with the certificate is told now
        return door

    @property
    def scheme(self) -> str:
        return HTTP if self.certificate is None else HTTPS

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.endpoint}"

    @property
    def is_local(self) -> bool:
        """Whether only clients of this machine reach it."""
        host = self.endpoint.host
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host in _LOCAL_NAMES

    @staticmethod
    def uses_tls(address: str) -> bool:
        """Whether the text of an address says so."""
        return address.lower().startswith(f"{HTTPS}://")

    def at(self, endpoint: Endpoint) -> Self:
        """The same door, at the address that was found for it."""
        return replace(self, endpoint=endpoint)

    def context(self) -> ssl.SSLContext | None:
        """What a server needs for TLS; it reads the certificate again when its files have changed."""
        if self.certificate is None:
            return None
        from ottla.doors.certificate import server_context

        return server_context(self.certificate, self.what)

    def trust(self) -> ssl.SSLContext | None:
        """How other servers behind such a door are checked: by what the system trusts, and by the own certificates."""
        if self.certificate is None:
            return None
        from ottla.doors.certificate import peer_context

        return peer_context(self.certificate)

    @property
    def is_open(self) -> bool:
        """Whether strangers may come in."""
        return self.login is None and not self.is_local

    def warn_if_open(self) -> None:
        """Warns where strangers may come in, or may read along."""
        if self.is_open:
            logger.warning(
                "door_is_open",
                "%(what)s: ANYBODY who reaches %(url)s may use it: give it a login, or listen on 127.0.0.1",
                what=self.what,
                url=self.url,
            )
        elif self.certificate is None and not self.is_local:
            logger.warning(
                "door_is_not_encrypted",
                "%(what)s: passwords and tokens go to %(url)s in plain text: use https",
                what=self.what,
                url=self.url,
            )


def _scheme_and_endpoint(what: str, address: str) -> tuple[str, Endpoint]:
    scheme, separator, rest = address.partition("://")
    if not separator:
        return HTTP, Endpoint.parse(address)
    if scheme.lower() not in (HTTP, HTTPS):
        raise ConfigError(f"{what}: {address!r} is neither HOST:PORT nor https://HOST:PORT")
    return scheme.lower(), Endpoint.parse(rest.removesuffix("/"))


def _certificate(
    what: str,
    address: str,
    file: str | os.PathLike[str] | None,
    otherwise: TlsConfig | None,
) -> TlsConfig:
    found = (
        otherwise if file is None else TlsConfig.read({"ssl.keystore.location": os.fspath(file)})
    )
    if found is None or not found.has_keystore:
        raise ConfigError(
            f"{what} {address} needs a certificate: give a PEM file with the private key and its certificates"
        )
    found.check_tls()
    return found
