"""The cookie that names a session."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Final

_NAME: Final = "ottla-console"
# Browsers take such a cookie only over https, for this host alone and for all of its paths.
_SECURE_PREFIX: Final = "__Host-"
MAX_HEADER_CHARS: Final = 8192


def random_value() -> str:
    """A value that nobody guesses."""
    return secrets.token_urlsafe(32)


class SessionCookie:
    """Its name has the port, because browsers do not tell the ports of a host apart."""

    def __init__(self, port: int) -> None:
        self._name = f"{_NAME}-{port}"

    def value_of(self, headers: Mapping[str, str], *, is_secure: bool) -> str | None:
        """What the browser sends; None if it has none."""
        wanted = self._full_name(is_secure=is_secure)
        for part in headers.get("cookie", "")[:MAX_HEADER_CHARS].split(";"):
            name, _, value = part.strip().partition("=")
            if name == wanted and value:
                return value
        return None

    def text(self, value: str, *, is_secure: bool) -> str:
        """The header that sets it."""
        secure = "; Secure" if is_secure else ""
        name = self._full_name(is_secure=is_secure)
        return f"{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}"

    def removal(self, *, is_secure: bool) -> str:
        """The header that removes it."""
        return f"{self.text('', is_secure=is_secure)}; Max-Age=0"

    def _full_name(self, *, is_secure: bool) -> str:
        return f"{_SECURE_PREFIX}{self._name}" if is_secure else self._name
