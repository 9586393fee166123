"""The formulas of SCRAM (RFC 5802, RFC 7677), for both sides.

As in Kafka, names and passwords are not normalized (SASLprep): their UTF-8 is used as it is.
"""

from __future__ import annotations

import hashlib
import hmac
from enum import IntEnum
from typing import Final

# Kafka's limits for the credentials of a broker.
MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384


class ScramMechanism(IntEnum):
    """The mechanisms, with Kafka's codes; their names are those of SASL."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        return f"SCRAM-SHA-{self.hash_name.removeprefix('sha')}"

    @property
    def hash_name(self) -> str:
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"

    @property
    def key_bytes(self) -> int:
        """The length of every key and proof."""
        return 32 if self is ScramMechanism.SCRAM_SHA_256 else 64


BY_SASL_NAME: Final = {mechanism.sasl_name: mechanism for mechanism in ScramMechanism}


def salted_password(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int
) -> bytes:
    """The slow step: some milliseconds."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def client_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return _mac(mechanism, salted, b"Client Key")


def stored_key(mechanism: ScramMechanism, key: bytes) -> bytes:
    """The hash of a client key."""
    return hashlib.new(mechanism.hash_name, key).digest()


def server_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return _mac(mechanism, salted, b"Server Key")


def signature(mechanism: ScramMechanism, key: bytes, messages: bytes) -> bytes:
    """What proves that a side has the key: of the client the stored key, of the server the server key."""
    return _mac(mechanism, key, messages)


def xor(first: bytes, second: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(first, second, strict=True))


def _mac(mechanism: ScramMechanism, key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, mechanism.hash_name)


def escaped_name(name: str) -> str:
    """A user's name as it is in a message."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescaped_name(escaped: str) -> str | None:
    """The name of a message; None if it has '=' that is no escape."""
    name = escaped.replace("=2C", ",")
    if "=" in name.replace("=3D", ""):
        return None
    return name.replace("=3D", "=")
