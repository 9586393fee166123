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

# The salts of Kafka's own tools are numbers of so many bits in this notation: most have 25 or 26 letters, and one of 26
# begins with "1". Whatever is made up has to follow that, or the first letter tells who exists.
SALT_BITS: Final = 130
LETTERS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"
_LENGTHS_OF_NUMBERS: Final = range(23, 27)


def absent_credential(
    mechanism: ScramMechanism, user: str, secret: bytes, existing: Collection[ScramCredential]
) -> ScramCredential:
    """The credential of a user that does not exist."""
    seed = hmac.digest(secret, f"{mechanism.sasl_name}/{user}".encode(), "sha256")
    like = next(islice(existing, _number(seed[:8]) % max(1, len(existing)), None), None)
    key_bytes = mechanism.key_bytes
    stream = hashlib.shake_256(seed).digest(2 * key_bytes + 8 * 1024)
    keys, rest = stream[: 2 * key_bytes], stream[2 * key_bytes :]
    if like is not None and not all(byte in LETTERS for byte in like.salt):
        salt = rest[: len(like.salt)]
    elif like is None or len(like.salt) in _LENGTHS_OF_NUMBERS:
        salt = salt_of_number(_number(rest[:32]) % (1 << SALT_BITS))
    else:
        salt = bytes(islice(_letters(rest), len(like.salt)))
    return ScramCredential(
        salt,
        stored_key=keys[:key_bytes],
        server_key=keys[key_bytes:],
        iterations=MIN_ITERATIONS if like is None else like.iterations,
    )


def salt_of_number(number: int) -> bytes:
    """A random number of `SALT_BITS` as Kafka's tools make a salt of it."""
    letters = []
    while number:
        number, digit = divmod(number, len(LETTERS))
        letters.append(LETTERS[digit])
    return bytes(reversed(letters))


def _letters(stream: bytes) -> Iterator[int]:
    """Letters that are all equally likely: eight bytes for each."""
    for at in range(0, len(stream), 8):
        yield LETTERS[_number(stream[at : at + 8]) % len(LETTERS)]


def _number(digest: bytes) -> int:
    return int.from_bytes(digest, "big")
