"""Logins by the users of the cluster: it checks the password, and its ACLs say what the user may do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla import in_process
from ottla.client.aio.admin.client import Admin
from ottla.config.admin import AdminConfig
from ottla.config.options import options_of
from ottla.config.security import PLAIN
from ottla.console.access.login_refusals import (
    LoginRefusedError,
    LoginUnavailableError,
    NoRightsError,
)
from ottla.console.access.roles import Role, role_of_operations
from ottla.console.clients import CLIENT_ID, Clients
from ottla.errors import AbortableError, ErrorCode, KafkaError, OttlaError, TlsError
from ottla.events import EventLog

logger = EventLog(__name__)

SCRAM: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256")
MECHANISMS: Final = (*SCRAM, PLAIN)
MAX_NAME_CHARS: Final = 255
MAX_PASSWORD_CHARS: Final = 1024
_LIMITS: Final = {"request.timeout.ms": 5_000, "default.api.timeout.ms": 8_000}
_CREDENTIALS: Final = ("sasl.mechanism", "sasl.username", "sasl.password")
_OTHER_CREDENTIALS: Final = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.oauthbearer.token.callback",
)

WRONG: Final = "the cluster does not accept this name and password"
NOT_ANSWERED: Final = "the cluster does not answer, and it checks passwords"


class ClusterUser:
    """A user with the password that the cluster accepted; nothing shows it."""

    def __init__(self, name: str, options: Mapping[str, object]) -> None:
        self.name: Final = name
        self._options = options

    def clients(self) -> Clients:
        """Clients with connections of the user's own."""
        return Clients(self._options)

    async def role(self) -> Role:
        """Asks the cluster again, over a new connection: raises LoginRefusedError if the user may not any more."""
        return await _role_of(self.name, self._options)

    def __repr__(self) -> str:
        return f"ClusterUser({self.name!r})"


class ClusterUsers:
    """Everybody who has a name and a password in the cluster.

    `options` say how clients connect: addresses, TLS, and a security.protocol with SASL. Credentials in them are those
    of the console and are left out.
    """

    def __init__(self, options: Mapping[str, object]) -> None:
        known = options_of(AdminConfig)
        self._options = {
            name: value
            for name, value in options.items()
            if name in known and name not in (*_CREDENTIALS, *_OTHER_CREDENTIALS)
        }
        first = options.get("sasl.mechanism")
        self._mechanisms = sorted(MECHANISMS, key=lambda mechanism: mechanism != first)
        self._hides_passwords = _hides_passwords(self._options)

    async def log_in(self, name: str, password: str) -> tuple[ClusterUser, Role]:
        """The user and its role; LoginRefusedError, NoRightsError or LoginUnavailableError."""
        _check(name, password)
        is_offered = dict.fromkeys(MECHANISMS, True)
        for mechanism in self._mechanisms:
            if mechanism == PLAIN and not self._may_send_plain(is_offered):
                continue
            user = ClusterUser(name, self._options_of(mechanism, name, password))
            try:
                return user, await user.role()
            except _NotOfferedError:
                is_offered[mechanism] = False
            except NoRightsError:
                raise
            except LoginRefusedError:
                # It may be a user of another mechanism.
                continue
        if not any(is_offered.values()):
            raise LoginUnavailableError(
                f"the cluster offers no login with a password: none of {', '.join(MECHANISMS)}"
            )
        raise LoginRefusedError(WRONG)

    def _options_of(self, mechanism: str, name: str, password: str) -> dict[str, object]:
        values = (mechanism, name, password)
        return {
            "client.id": CLIENT_ID,
            **self._options,
            **dict(zip(_CREDENTIALS, values, strict=True)),
        }

    def _may_send_plain(self, is_offered: Mapping[str, bool]) -> bool:
        # What SCRAM refused may be the password of something else: it does not go over a network in plain text.
        return self._hides_passwords or not any(is_offered[mechanism] for mechanism in SCRAM)


class _NotOfferedError(LoginRefusedError):
    """The cluster does not offer the mechanism."""


async def _role_of(name: str, options: Mapping[str, object]) -> Role:
    try:
        async with Admin({**options, **_LIMITS}) as admin:
            found = await admin.describe_cluster(include_authorized_operations=True)
    except TlsError as error:
        raise LoginUnavailableError(f"{NOT_ANSWERED}: {error}") from error
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            raise _NotOfferedError(WRONG) from error
        if error.code is ErrorCode.SASL_AUTHENTICATION_FAILED:
            raise LoginRefusedError(WRONG) from error
        if error.code is ErrorCode.UNSUPPORTED_VERSION and isinstance(error, AbortableError):
            raise NoRightsError(
                "the cluster does not tell what a user may do, as Kafka does from 2.3 on"
            ) from error
        raise LoginUnavailableError(f"{NOT_ANSWERED}: {error}") from error
    except OttlaError as error:
        raise LoginUnavailableError(f"{NOT_ANSWERED}: {error}") from error
    role = role_of_operations(found.authorized_operations or frozenset())
    if role is Role.STRANGER:
        raise NoRightsError(f"User:{name} may not describe the cluster: the console needs that")
    return role


def _check(name: str, password: str) -> None:
    if not name or not password:
        raise LoginRefusedError(WRONG)
    if len(name) > MAX_NAME_CHARS or len(password) > MAX_PASSWORD_CHARS:
        raise LoginRefusedError(WRONG)
    # A lone surrogate is printable in no name, and has no bytes.
    if not name.isprintable() or "\0" in password or not _has_bytes(password):
        raise LoginRefusedError(WRONG)


def _has_bytes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _hides_passwords(options: Mapping[str, object]) -> bool:
    """Whether nobody reads along: TLS, or no network at all."""
    if str(options.get("security.protocol", "")).upper() == "SASL_SSL":
        return True
    hosts = [each.rpartition(":")[0] for each in str(options["bootstrap.servers"]).split(",")]
    return all(in_process.is_here(host.strip()) for host in hosts)
