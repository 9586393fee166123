"""SCRAM credentials of users: what is stored instead of a password, and the rules for changing them (KIP-554)."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, NamedTuple

from ottla.core.outcomes import Refused
from ottla.core.security.scram_formulas import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramMechanism,
    client_key,
    salted_password,
    server_key,
    stored_key,
)
from ottla.errors import ErrorCode

# Kafka has no limit; a salt of a client is some 26 bytes long.
MAX_SALT_BYTES = 1024

TWICE_IN_ALTERATION = "A user credential cannot be altered twice in the same request"
TWICE_IN_DESCRIPTION = (
    "Cannot describe SCRAM credentials for the same user twice in a single request: "
)
MISSING_IN_DESCRIPTION = "Attempt to describe a user credential that does not exist: "


class ScramCredential(NamedTuple):
    """What a broker knows of a password: enough to check proofs, not enough to make one."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"

    def to_json(self) -> dict[str, Any]:
        """The entry of the catalog."""
        return {
            "salt": base64.b64encode(self.salt).decode(),
            "stored_key": base64.b64encode(self.stored_key).decode(),
            "server_key": base64.b64encode(self.server_key).decode(),
            "iterations": self.iterations,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ScramCredential:
        return cls(
            base64.b64decode(value["salt"]),
            base64.b64decode(value["stored_key"]),
            base64.b64decode(value["server_key"]),
            value["iterations"],
        )


def credential_of_salted_password(
    mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    return ScramCredential(
        salt,
        stored_key(mechanism, client_key(mechanism, salted)),
        server_key(mechanism, salted),
        iterations,
    )


def credential_of_password(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int
) -> ScramCredential:
    """Takes some milliseconds."""
    salted = salted_password(mechanism, password, salt, iterations)
    return credential_of_salted_password(mechanism, salted, salt, iterations)


def fits_password(mechanism: ScramMechanism, credential: ScramCredential, password: str) -> bool:
    """Whether a credential is that of a password; takes some milliseconds."""
    salted = salted_password(mechanism, password, credential.salt, credential.iterations)
    found = stored_key(mechanism, client_key(mechanism, salted))
    return hmac.compare_digest(found, credential.stored_key)


class Deletion(NamedTuple):
    """A credential to be removed; the mechanism is a number that a client sent."""

    user: str
    mechanism: int


class Upsertion(NamedTuple):
    """A credential to be set; the mechanism is a number that a client sent."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"Upsertion(user={self.user!r}, mechanism={self.mechanism})"


class Users:
    """The credentials of all users, by mechanism."""

    def __init__(self) -> None:
        self.credentials: dict[ScramMechanism, dict[str, ScramCredential]] = {
            mechanism: {} for mechanism in ScramMechanism
        }

    def find(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        return self.credentials[mechanism].get(user)

    def apply(self, mechanism: ScramMechanism, user: str, value: Mapping[str, Any] | None) -> None:
        """Applies a committed change; None removes."""
        if value is None:
            self.credentials[mechanism].pop(user, None)
        else:
            self.credentials[mechanism][user] = ScramCredential.from_json(value)

    def described(self, user: str) -> list[tuple[ScramMechanism, int]]:
        """Each mechanism for which a user has credentials, and the iterations."""
        return [
            (mechanism, credentials[user].iterations)
            for mechanism, credentials in self.credentials.items()
            if user in credentials
        ]

    def names(self) -> list[str]:
        """Everyone with a credential, by name."""
        return sorted({name: None for each in self.credentials.values() for name in each})


class Alteration(NamedTuple):
    """The outcome for each user that a request names, and the credentials to store; None removes one."""

    outcomes: Mapping[str, Refused | None]
    changes: Mapping[tuple[ScramMechanism, str], ScramCredential | None]


def alter(
    users: Users, deletions: Iterable[Deletion], upsertions: Iterable[Upsertion]
) -> Alteration:
    """Decides what a request changes: a user that it names twice keeps all credentials."""
    accepted: dict[str, Deletion | Upsertion] = {}
    refused: dict[str, Refused] = {}
    asked: Deletion | Upsertion
    for asked in chain[Deletion | Upsertion](deletions, upsertions):
        user = asked.user
        if user in refused:
            continue
        if accepted.pop(user, None) is not None:
            refused[user] = Refused(ErrorCode.DUPLICATE_RESOURCE, TWICE_IN_ALTERATION)
            continue
        problem = _check(users, asked)
        if problem is None:
            accepted[user] = asked
        else:
            refused[user] = problem
    changes: dict[tuple[ScramMechanism, str], ScramCredential | None] = {}
    for user, asked in accepted.items():
        mechanism = ScramMechanism(asked.mechanism)
        changes[mechanism, user] = (
            None
            if isinstance(asked, Deletion)
            else credential_of_salted_password(
                mechanism, asked.salted_password, asked.salt, asked.iterations
            )
        )
    return Alteration({**dict.fromkeys(accepted), **refused}, changes)


def _check(users: Users, asked: Deletion | Upsertion) -> Refused | None:
    if not asked.user:
        return Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if asked.mechanism not in tuple(ScramMechanism):
        return Refused(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    mechanism = ScramMechanism(asked.mechanism)
    if isinstance(asked, Deletion):
        if users.find(mechanism, asked.user) is None:
            return Refused(
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            )
        return None
    problem = None
    if asked.iterations < MIN_ITERATIONS:
        problem = "Too few iterations"
    elif asked.iterations > MAX_ITERATIONS:
        problem = "Too many iterations"
    elif len(asked.salt) > MAX_SALT_BYTES:
        problem = "Too long a salt"
    elif not asked.salted_password:
        # An empty key cannot make a MAC in Java either.
        problem = "Empty key"
    return None if problem is None else Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, problem)
