"""SCRAM credentials of users, as `Admin` takes and returns them (KIP-554)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.core.security.scram_formulas import MAX_ITERATIONS, MIN_ITERATIONS, ScramMechanism

__all__ = [
    "ScramCredentialInfo",
    "ScramMechanism",
    "UserScramCredentialAlteration",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
]


class ScramCredentialInfo(NamedTuple):
    """What the cluster tells about a credential: the salted password stays there."""

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True)
class UserScramCredentialUpsertion:
    """Creates a user's credential, or replaces it; the password itself never leaves the client."""

    user: str
    password: str = field(repr=False)
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_256
    iterations: int = MIN_ITERATIONS
    salt: bytes | None = field(default=None, repr=False)
    """Random bytes; None stands for new ones."""

    def __post_init__(self) -> None:
        _check(self.user)
        if not self.password:
            raise ValueError(f"the password of user {self.user} is empty")
        if not MIN_ITERATIONS <= self.iterations <= MAX_ITERATIONS:
            raise ValueError(
                f"{self.iterations} iterations: {MIN_ITERATIONS} to {MAX_ITERATIONS} are allowed"
            )


@dataclass(frozen=True)
class UserScramCredentialDeletion:
    """Deletes a user's credential for a mechanism; a user without any cannot log in."""

    user: str
    mechanism: ScramMechanism

    def __post_init__(self) -> None:
        _check(self.user)


def _check(user: str) -> None:
    if not user:
        raise ValueError("a user has a name that is not empty")


UserScramCredentialAlteration = UserScramCredentialUpsertion | UserScramCredentialDeletion
