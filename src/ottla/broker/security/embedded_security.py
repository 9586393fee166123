"""What makes an embedded broker a secured one: options, certificates and users, and what its clients need."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from ottla.broker.security.client_settings import ClientSettings
from ottla.errors import ConfigError

ADMIN: Final = "admin"
AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
# So that a certificate for CN=alice stands for User:alice, as a login of alice does.
_COMMON_NAMES: Final = "RULE:^CN=([^,]+).*$/$1/,DEFAULT"
_CERTIFICATE_DAYS: Final = 30
_PASSWORD_BYTES: Final = 18

Client = Literal["ottla", "java", "librdkafka", "confluent-kafka", "kafka-python", "aiokafka"]


@dataclass(frozen=True)
class Security:
    """How clients connect to an embedded broker, and whether ACLs say what they may do.

    `protocol` is SSL, SASL_PLAINTEXT or SASL_SSL, `mechanism` a mechanism of SASL with passwords. With
    `client_certificates` a client's certificate says who it is.
    """

    protocol: str
    mechanism: str = "SCRAM-SHA-512"
    client_certificates: bool = False
    acls: bool = True

    def __post_init__(self) -> None:
        if self.protocol not in ("SSL", "SASL_PLAINTEXT", "SASL_SSL"):
            raise ConfigError(
                f"security: {self.protocol!r} is none of SSL, SASL_PLAINTEXT and SASL_SSL"
            )
        if self.mechanism not in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
            raise ConfigError(
                f"security: {self.mechanism!r} is none of PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512"
            )
        if self.client_certificates and self.protocol != "SSL":
            raise ConfigError("security: client_certificates belong to the protocol SSL")

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether clients log in with a password."""
        return self.protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    @property
    def has_users(self) -> bool:
        """Whether the broker knows who a client is."""
        return self.uses_sasl or self.client_certificates


SECURITIES: Final[Mapping[str, Security]] = MappingProxyType(
    {
        "plain": Security("SASL_PLAINTEXT", "PLAIN"),
        "scram": Security("SASL_PLAINTEXT"),
        "tls": Security("SSL"),
        "mtls": Security("SSL", client_certificates=True),
        "sasl-ssl": Security("SASL_SSL"),
    }
)


def security_of(given: str | Security) -> Security:
    """The security that a word stands for, or the one that was given."""
    if isinstance(given, Security):
        return given
    if given not in SECURITIES:
        raise ConfigError(
            f"security={given!r} is not known: there are {', '.join(SECURITIES)}, and ottla.Security(…)"
        )
    return SECURITIES[given]


class EmbeddedSecurity:
    """The certificates and users of one broker; the files go when it is collected, or when the process ends."""

    def __init__(self, security: Security) -> None:
        self.security = security
        self.passwords: dict[str, str] = {}
        self._folder = Path(tempfile.mkdtemp(prefix="ottla-security-"))
        weakref.finalize(self, _remove, self._folder, os.getpid())
        self._certificates: dict[str, Path] = {}
        self._ca: Path | None = None
        self._server: Path | None = None
        if security.uses_tls:
            from ottla.broker.security import development_certificates as certificates

            self._ca = certificates.make_ca(self._folder, days=_CERTIFICATE_DAYS).path
            names = certificates.LOCAL_NAMES
            server = certificates.make_server(self._folder, names, days=_CERTIFICATE_DAYS)
            self._server = server.path
        if security.has_users:
            self.settings_of(ADMIN)

    def options(self) -> dict[str, object]:
        """The options of the broker."""
        found: dict[str, object] = {}
        if self._server is not None:
            found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self._server)}
        if self.security.uses_sasl:
            found["sasl.enabled.mechanisms"] = self.security.mechanism
        if self.security.client_certificates:
            found |= {
                "ssl.client.auth": "required",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self._ca),
                "ssl.principal.mapping.rules": _COMMON_NAMES,
            }
        if self.security.acls and self.security.has_users:
            found |= {"authorizer.class.name": AUTHORIZER, "super.users": f"User:{ADMIN}"}
        return found

    def is_known(self, user: str) -> bool:
        """Whether the user has a password already, or needs none."""
        return not self.security.uses_sasl or user in self.passwords

    def settings_of(self, user: str | None) -> ClientSettings:
        """How a user connects; who is new gets a password or a certificate."""
        if not self.security.has_users:
            if user is not None:
                raise ConfigError(
                    f"there is no user {user}: this broker does not ask clients who they are"
                )
            return ClientSettings(self.security.protocol, self._ca)
        name = ADMIN if user is None else user
        if self.security.uses_sasl:
            password = self.passwords.setdefault(name, secrets.token_urlsafe(_PASSWORD_BYTES))
            return ClientSettings(
                self.security.protocol,
                self._ca,
                mechanism=self.security.mechanism,
                username=name,
                password=password,
            )
        return ClientSettings(self.security.protocol, self._ca, self._certificate_of(name))

    def _certificate_of(self, user: str) -> Path:
        if user not in self._certificates:
            from ottla.broker.security.development_certificates import make_client

            made = make_client(self._folder, user, days=_CERTIFICATE_DAYS)
            self._certificates[user] = made.path
        return self._certificates[user]


def _remove(folder: Path, owner: int) -> None:
    # A child of the process has the same finalizers, and its end is not the broker's.
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def options_for(client: Client, servers: str, settings: ClientSettings) -> dict[str, object]:
    """The options of a client library, with the addresses."""
    match client:
        case "ottla":
            return {"bootstrap.servers": servers, **settings.for_ottla()}
        case "java":
            return {"bootstrap.servers": servers, **settings.for_java()}
        case "librdkafka" | "confluent-kafka":
            return {"bootstrap.servers": servers, **settings.for_librdkafka()}
        case "kafka-python":
            return {"bootstrap_servers": servers, **settings.for_kafka_python()}
        case "aiokafka":
            return {"bootstrap_servers": servers, **settings.for_aiokafka()}
    raise ConfigError(
        f"client={client!r} is not known: there are ottla, java, librdkafka, confluent-kafka, "
        "kafka-python and aiokafka"
    )
