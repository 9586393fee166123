"""What a message of a SASL exchange leads to."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Challenge(NamedTuple):
    """The exchange goes on: a message for the client."""

    data: bytes


class Authenticated(NamedTuple):
    """The client is the user that it claims to be; its credential may end at some time."""

    user: str
    data: bytes = b""
    expires_at_ms: int | None = None


class Rejected(NamedTuple):
    """The exchange has failed: the reason is for the log.

    A message is shown to the client, as in Kafka; without one it learns only that its credentials are not valid.
    """

    reason: str
    message: str | None = None


Outcome: TypeAlias = Challenge | Authenticated | Rejected
