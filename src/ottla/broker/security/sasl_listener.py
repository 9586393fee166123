"""What the logins of one listener have in common: mechanisms, limits, counts."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from ottla.broker.node import Node
from ottla.broker.security.login_exchanges import (
    BearerExchange,
    Exchange,
    KnownUsers,
    PasswordCheck,
    PlainExchange,
    scram_exchange,
)
from ottla.broker.security.token_verifier import TokenVerifier
from ottla.config.sasl import OAUTHBEARER, PLAIN
from ottla.core.security.scram_formulas import BY_SASL_NAME
from ottla.failed_logins import FailedLogins, address_block

NONCE_BYTES: Final = 18


class LoginCounts:
    """The logins of a listener, for the metrics."""

    __slots__ = (
        "expired_sessions",
        "failed",
        "reauthentication_failed",
        "reauthentication_succeeded",
        "succeeded",
    )

    def __init__(self) -> None:
        self.succeeded = 0
        self.failed = 0
        self.reauthentication_succeeded = 0
        self.reauthentication_failed = 0
        self.expired_sessions = 0

    def by_result(self) -> dict[str, int]:
        return {
            "succeeded": self.succeeded,
            "failed": self.failed,
            "reauthenticated": self.reauthentication_succeeded,
            "reauthentication_failed": self.reauthentication_failed,
            "session_expired": self.expired_sessions,
        }


class SaslSettings(NamedTuple):
    """The options of a listener."""

    mechanisms: tuple[str, ...]
    max_reauth_ms: Mapping[str, int]
    max_receive_bytes: int


class SaslListener:
    """Makes the exchanges of a listener."""

    def __init__(
        self,
        name: str,
        node: Node,
        settings: SaslSettings,
        users: KnownUsers,
        passwords: PasswordCheck,
        tokens: TokenVerifier | None,
        failed_logins: FailedLogins,
    ) -> None:
        self.name = name
        self.node = node
        self.settings = settings
        self.counts = LoginCounts()
        self.failed_logins = failed_logins
        self._exchanges: dict[str, Callable[[], Exchange]] = {}
        for mechanism in settings.mechanisms:
            self._exchanges[mechanism] = self._exchange_maker(mechanism, users, passwords, tokens)

    def _exchange_maker(
        self,
        mechanism: str,
        users: KnownUsers,
        passwords: PasswordCheck,
        tokens: TokenVerifier | None,
    ) -> Callable[[], Exchange]:
        if mechanism == PLAIN:
            return lambda: PlainExchange(passwords)
        if mechanism == OAUTHBEARER:
            assert tokens is not None
            return lambda: BearerExchange(tokens)
        scram = BY_SASL_NAME[mechanism]
        return lambda: scram_exchange(scram, users, secrets.token_urlsafe(NONCE_BYTES))

    def exchange(self, mechanism: str) -> Exchange | None:
        """A new exchange; None for a mechanism that is not enabled."""
        make = self._exchanges.get(mechanism)
        return None if make is None else make()

    def has_too_many_failures(self, host: str) -> bool:
        """Whether a further login from an address would have to wait for too long."""
        return self.failed_logins.is_too_much(
            address_block(host), self.node.cluster.clock.monotonic_seconds()
        )

    def delay_of_failure(self, host: str) -> float:
        """How long the answer to a failed login waits, in seconds."""
        delay_ms = self.node.options.config.connection_failed_authentication_delay_ms
        now = self.node.cluster.clock.monotonic_seconds()
        return self.failed_logins.delay_seconds(address_block(host), delay_ms / 1000, now)
