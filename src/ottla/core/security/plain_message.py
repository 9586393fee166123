"""The message of PLAIN (RFC 4616), with Kafka's rules and texts."""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.core.security.sasl_outcomes import Rejected

MAX_MESSAGE_BYTES: Final = 16 << 10
_PARTS: Final = 3

INVALID_CREDENTIALS: Final = "Authentication failed: Invalid username or password"
OTHER_AUTHORIZATION_ID: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)


class PlainMessage(NamedTuple):
    """A name and a password, and in whose name the client wants to act: its own, or an empty one."""

    authorization_id: str
    user: str
    password: str

    def __repr__(self) -> str:
        return f"PlainMessage(user={self.user!r})"

    @property
    def acts_for_another(self) -> bool:
        return self.authorization_id not in ("", self.user)


def parse(message: bytes) -> PlainMessage | Rejected:
    """The message of a client."""
    if len(message) > MAX_MESSAGE_BYTES:
        return Rejected("a message is too long")
    parts = message.decode(errors="replace").split("\0", _PARTS)
    if len(parts) != _PARTS:
        return _rejected(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
    found = PlainMessage(*parts)
    if not found.user:
        return _rejected("Authentication failed: username not specified")
    if not found.password:
        return _rejected("Authentication failed: password not specified")
    return found


def _rejected(message: str) -> Rejected:
    return Rejected(message, message)
