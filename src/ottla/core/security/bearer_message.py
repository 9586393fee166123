"""The messages of OAUTHBEARER (RFC 7628), with Kafka's rules: the client's token, and the refusal of it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ottla.core.security.sasl_outcomes import Rejected

SEPARATOR: Final = "\x01"
# What a client sends after the refusal of its token: the exchange fails only then.
ACKNOWLEDGEMENT: Final = SEPARATOR.encode()
INVALID_TOKEN: Final = '{"status":"invalid_token"}'

_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PAIRS: Final = rf"(?:[A-Za-z]+=[\x20-\x7e\t\r\n]+{SEPARATOR})*"
_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authorization_id>{_NAME}))?,{SEPARATOR}(?P<pairs>{_PAIRS}){SEPARATOR}"
)
_TOKEN: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)


class BearerMessage(NamedTuple):
    """A token, and in whose name the client wants to act: that of the token, or an empty one."""

    token: str
    authorization_id: str

    def __repr__(self) -> str:
        return f"BearerMessage(authorization_id={self.authorization_id!r})"


def parse(message: bytes) -> BearerMessage | Rejected:
    """The message of a client; SASL extensions (KIP-342) have no effect."""
    found = _FIRST.fullmatch(message.decode(errors="replace"))
    if found is None:
        return Rejected("the client's first message is not valid")
    pairs = dict(pair.split("=", 1) for pair in found["pairs"].split(SEPARATOR) if pair)
    authorization = pairs.get("auth")
    if authorization is None:
        return Rejected("the client's first message has no 'auth'")
    credentials = _TOKEN.fullmatch(authorization)
    if credentials is None or credentials["scheme"].lower() != "bearer":
        return Rejected("the client's first message has no bearer token")
    return BearerMessage(credentials["token"], found["authorization_id"] or "")


def other_authorization_id(authorization_id: str, user: str) -> str:
    return (
        f"Authentication failed: Client requested an authorization id ({authorization_id}) "
        f"that is different from the token's principal name ({user})"
    )
