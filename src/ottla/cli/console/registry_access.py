"""How the console of `ottla serve` gets into the registry of `ottla serve`, whatever that asks of strangers."""

from __future__ import annotations

import re
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.console.child_settings import RegistryAccess
from ottla.doors.door import Door
from ottla.doors.login import WithToken
from ottla.tls.stores import read_key_store

if TYPE_CHECKING:
    from ottla.schemas.registry.embedded import SchemaRegistry

_CERTIFICATE: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL
)
_TLS: Final = "schema.registry.ssl."


class RegistryKey(NamedTuple):
    """A token that the registry's login admits beside those of its file; None where it has no login."""

    token: str | None

    def access(self, registry: SchemaRegistry) -> RegistryAccess:
        """The options of a client of the registry that runs."""
        options: dict[str, str] = {}
        certificate = registry.door.certificate
        if self.token is not None:
            options["bearer.auth.token"] = self.token
        if certificate is not None:
            store = read_key_store(certificate)
            assert store is not None
            options[f"{_TLS}truststore.certificates"] = "\n".join(_CERTIFICATE.findall(store.pem))
            # It is trusted as it is, under the address where this machine reaches it.
            options[f"{_TLS}endpoint.identification.algorithm"] = ""
        return RegistryAccess(registry.url, options)


def with_key(door: Door) -> tuple[Door, RegistryKey]:
    """The same door, and a key for it."""
    if door.login is None:
        return door, RegistryKey(None)
    token = secrets.token_urlsafe(32)
    return replace(door, login=WithToken(door.login, token)), RegistryKey(token)
