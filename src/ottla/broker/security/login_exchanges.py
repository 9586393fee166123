"""The exchanges of the SASL mechanisms, with the users and keys of a broker.

`evaluate` answers a message of the client at once, or by a coroutine where a password is hashed or a signature checked:
a thread does that.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Coroutine, Mapping
from concurrent.futures import Executor
from functools import partial
from typing import Any, Protocol, TypeAlias

from ottla.broker.security.token_verifier import TokenVerifier
from ottla.config.options import INT_MAX
from ottla.core.security import bearer_message, plain_message
from ottla.core.security.absent_credentials import absent_credential
from ottla.core.security.bearer_message import BearerMessage
from ottla.core.security.plain_message import PlainMessage
from ottla.core.security.sasl_outcomes import Authenticated, Challenge, Outcome, Rejected
from ottla.core.security.scram_credentials import ScramCredential, Users, fits_password
from ottla.core.security.scram_exchange import ScramExchange
from ottla.core.security.scram_formulas import ScramMechanism

Evaluation: TypeAlias = Outcome | Coroutine[Any, Any, Outcome]


class Exchange(Protocol):
    """One login: the messages of a client, and what each leads to."""

    @property
    def claimed_user(self) -> str | None:
        """The user that the client says it is, for the log."""
        ...

    @property
    def max_message_bytes(self) -> int:
        """The longest message that may be one of this mechanism: a longer one is not even received."""
        ...

    def evaluate(self, message: bytes) -> Evaluation: ...


class KnownUsers:
    """The users with a password; for all others there are credentials that fit no password."""

    def __init__(self, users: Users, secret: bytes) -> None:
        self._users = users
        self._secret = secret

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential:
        """A user's credential. A false one is made for each: its absence must not be seen by the time that it takes."""
        existing = self._users.credentials[mechanism]
        absent = absent_credential(mechanism, user, self._secret, existing.values())
        return existing.get(user, absent)


def scram_exchange(mechanism: ScramMechanism, users: KnownUsers, nonce: str) -> ScramExchange:
    return ScramExchange(mechanism, partial(users.credential, mechanism), nonce)


class PasswordCheck:
    """Whether a password is that of a user: of the catalog, or of the `user_NAME` entries of a listener."""

    def __init__(
        self, users: KnownUsers, listed_passwords: Mapping[str, str], executor: Executor
    ) -> None:
        self._users = users
        self._listed = {user: _digest(password) for user, password in listed_passwords.items()}
        self._executor = executor

    async def fits(self, user: str, password: str) -> bool:
        """Takes as long for a user that does not exist."""
        credentials = [
            (mechanism, self._users.credential(mechanism, user)) for mechanism in ScramMechanism
        ]

        def compute() -> list[bool]:
            return [fits_password(*known, password) for known in credentials]

        in_catalog = await asyncio.get_running_loop().run_in_executor(self._executor, compute)
        is_listed = hmac.compare_digest(self._listed.get(user, b""), _digest(password))
        return any(in_catalog) or is_listed


def _digest(password: str) -> bytes:
    """Passwords of one length, for a comparison that tells nothing of theirs."""
    return hashlib.sha256(password.encode()).digest()


class PlainExchange:
    """PLAIN: one message."""

    max_message_bytes = plain_message.MAX_MESSAGE_BYTES

    def __init__(self, passwords: PasswordCheck) -> None:
        self._passwords = passwords
        self.claimed_user: str | None = None

    def evaluate(self, message: bytes) -> Evaluation:
        found = plain_message.parse(message)
        if isinstance(found, Rejected):
            return found
        self.claimed_user = found.user
        return self._check(found)

    async def _check(self, found: PlainMessage) -> Outcome:
        if not await self._passwords.fits(found.user, found.password):
            return Rejected(
                "the user does not exist, or the password is wrong",
                plain_message.INVALID_CREDENTIALS,
            )
        if found.acts_for_another:
            return Rejected("another authorization id", plain_message.OTHER_AUTHORIZATION_ID)
        return Authenticated(found.user)


class BearerExchange:
    """OAUTHBEARER: one message, and one more if the token is refused."""

    # Tokens may be as long as the listener allows.
    max_message_bytes = INT_MAX

    def __init__(self, tokens: TokenVerifier) -> None:
        self._tokens = tokens
        self._refused: Rejected | None = None
        self.claimed_user: str | None = None

    def evaluate(self, message: bytes) -> Evaluation:
        if self._refused is not None:
            return self._refused
        found = bearer_message.parse(message)
        return found if isinstance(found, Rejected) else self._verify(found)

    async def _verify(self, found: BearerMessage) -> Outcome:
        accepted = await self._tokens.verify(found.token)
        if isinstance(accepted, Rejected):
            self._refused = Rejected(accepted.reason, bearer_message.INVALID_TOKEN)
            return Challenge(bearer_message.INVALID_TOKEN.encode())
        self.claimed_user = accepted.user
        if found.authorization_id not in ("", accepted.user):
            text = bearer_message.other_authorization_id(found.authorization_id, accepted.user)
            return Rejected("another authorization id", text)
        return Authenticated(accepted.user, expires_at_ms=accepted.expires_at_ms)
