"""SCRAM credentials of users, as `Admin` takes and returns them (KIP-554)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

DEFAULT_ITERATIONS: Final = 4096
MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384


class ScramMechanism(IntEnum):
    """A SCRAM mechanism, with Kafka's number; its text is the mechanism's name."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @classmethod
    def _missing_(cls, value: object) -> ScramMechanism:
        """UNKNOWN for numbers of newer brokers."""
        return cls.UNKNOWN

    def __str__(self) -> str:
        return self.name.replace("_", "-")


class ScramCredentialInfo(NamedTuple):
    """What the cluster tells about a credential: the salted password stays there."""

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True)
class UserScramCredentialUpsertion:
    """Creates a user's credential, or replaces it; the password itself never leaves the client."""

    user: str
    password: str | bytes = field(repr=False)
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_256
    iterations: int = DEFAULT_ITERATIONS
    salt: bytes | None = field(default=None, repr=False)
    """Random bytes; None stands for new ones."""

    def __post_init__(self) -> None:
        _check(self.user, self.mechanism)
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
        _check(self.user, self.mechanism)


def _check(user: str, mechanism: ScramMechanism) -> None:
    if not user:
        raise ValueError("a user has a name that is not empty")
    if mechanism not in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        raise ValueError(f"{mechanism} is no mechanism of SCRAM")


UserScramCredentialAlteration = UserScramCredentialUpsertion | UserScramCredentialDeletion
