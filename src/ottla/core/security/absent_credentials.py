"""Credentials for users that do not exist: an exchange with one takes the same course as with a wrong password.

They follow from the name and a secret of the cluster, so that a client which asks twice gets the same salt. In length
and letters the salt, and in number the iterations, are like those of the users that exist.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Final

from ottla.core.security.scram_credentials import ScramCredential
from ottla.core.security.scram_formulas import MIN_ITERATIONS, ScramMechanism

# The salts of Kafka's own tools are numbers in this notation, of this length.
LETTERS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"
SALT_BYTES: Final = 26


def absent_credential(
    mechanism: ScramMechanism, user: str, secret: bytes, existing: Collection[ScramCredential]
) -> ScramCredential:
    """The credential of a user that does not exist."""
    seed = hmac.digest(secret, f"{mechanism.sasl_name}/{user}".encode(), "sha256")
    like = next(islice(existing, _number(seed[:8]) % max(1, len(existing)), None), None)
    key_bytes = mechanism.key_bytes
    stream = hashlib.shake_256(seed).digest(2 * key_bytes + 8 * 1024)
    keys, rest = stream[: 2 * key_bytes], stream[2 * key_bytes :]
    salt_bytes = SALT_BYTES if like is None else len(like.salt)
    if like is None or all(byte in LETTERS for byte in like.salt):
        salt = bytes(islice(_letters(rest), salt_bytes))
    else:
        salt = rest[:salt_bytes]
    return ScramCredential(
        salt,
        stored_key=keys[:key_bytes],
        server_key=keys[key_bytes:],
        iterations=MIN_ITERATIONS if like is None else like.iterations,
    )


def _letters(stream: bytes) -> Iterator[int]:
    """Letters that are all equally likely: eight bytes for each."""
    for at in range(0, len(stream), 8):
        yield LETTERS[_number(stream[at : at + 8]) % len(LETTERS)]


def _number(digest: bytes) -> int:
    return int.from_bytes(digest, "big")
