"""The client's side of SASL exchanges: PLAIN (RFC 4616) and OAUTHBEARER (RFC 7628)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

from ottla.errors import ErrorCode, KafkaError, exception_for

PLAIN = "PLAIN"
OAUTHBEARER = "OAUTHBEARER"

_SEPARATOR = "\x01"
_TOKEN = re.compile(r"[-_~+/.a-zA-Z0-9]+=*", re.ASCII)
_EXTENSION_NAME = re.compile(r"[A-Za-z]+", re.ASCII)
_EXTENSION_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")
_SHOWN_CHARS = 300


class Mechanism(Protocol):
    """The client's side of one exchange."""

    name: str

    def first(self) -> bytes:
        """The first message of the client."""

    def respond(self, challenge: bytes) -> bytes | None:
        """The answer to a message of the server; None if the exchange is over."""


def authentication_error(message: str) -> KafkaError:
    """The error of an authentication that failed, and would fail again."""
    return exception_for(ErrorCode.SASL_AUTHENTICATION_FAILED, message)


class Plain:
    """Name and password in plain text: for encrypted connections."""

    name = PLAIN

    def __init__(self, username: str, password: str) -> None:
        if "\0" in username or "\0" in password:
            raise authentication_error(
                "A name or password with a zero character cannot be sent with PLAIN."
            )
        self._username = username
        self._password = password

    def first(self) -> bytes:
        return f"\0{self._username}\0{self._password}".encode()

    def respond(self, challenge: bytes) -> bytes | None:
        if challenge:
            raise authentication_error("The broker asked for more than PLAIN has to say.")
        return None


class Token(NamedTuple):
    """The result of a callback for OAUTHBEARER: the token, and SASL extensions (KIP-342)."""

    value: str
    extensions: Mapping[str, str] = MappingProxyType({})

    def __repr__(self) -> str:
        return "Token(value=(hidden))"


class OAuthBearer:
    """A bearer token."""

    name = OAUTHBEARER

    def __init__(self, token: Token) -> None:
        if not _TOKEN.fullmatch(token.value):
            raise authentication_error(
                "The token for OAUTHBEARER has characters that no token has."
            )
        for name, value in token.extensions.items():
            # "auth" is the token itself.
            if not _EXTENSION_NAME.fullmatch(name) or name == "auth":
                raise authentication_error(f"{name!r} cannot be the name of a SASL extension.")
            if not _EXTENSION_VALUE.fullmatch(value):
                raise authentication_error(
                    f"The SASL extension {name} has a value that cannot be sent."
                )
        self._token = token
        self._complaint: str | None = None

    def first(self) -> bytes:
        pairs = [f"auth=Bearer {self._token.value}"]
        pairs += (f"{name}={value}" for name, value in self._token.extensions.items())
        return ("n,," + "".join(_SEPARATOR + pair for pair in pairs) + _SEPARATOR * 2).encode()

    def respond(self, challenge: bytes) -> bytes | None:
        if self._complaint is not None:
            raise authentication_error(f"The broker does not accept the token: {self._complaint}")
        if not challenge:
            return None
        # A refusal comes as JSON, and the exchange ends after an empty message (RFC 7628, 3.2.3).
        self._complaint = challenge.decode(errors="replace")[:_SHOWN_CHARS]
        return _SEPARATOR.encode()
