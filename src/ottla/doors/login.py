"""Who may come in: users of HTTP's basic authentication, and bearer tokens."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Protocol

from ottla.doors.login_file import RereadFile, lines_of
from ottla.errors import ConfigError

# A wrong password or token is answered after this time.
REFUSAL_SECONDS: Final = 0.25


class Login(Protocol):
    """Decides by the header Authorization."""

    def admits(self, authorization: str | None) -> bool:
        """Whether the header names a user with the right password, or has a known token."""
        ...


async def pause_before_refusal() -> None:
    """Waits, so that guessing takes time."""
    await asyncio.sleep(REFUSAL_SECONDS)


class Accounts:
    """Users with their passwords, and tokens; only digests are kept."""

    def __init__(self, users: Mapping[str, str], tokens: Iterable[str] = ()) -> None:
        self._users = {name: _digest(password) for name, password in users.items()}
        self._tokens = [_digest(token) for token in tokens]

    def admits(self, authorization: str | None) -> bool:
        scheme, _, value = (authorization or "").partition(" ")
        match scheme.lower():
            case "basic":
                return self._admits_user(*_user_and_password(value))
            case "bearer":
                return self._admits_token(value.strip())
        return False

    def _admits_user(self, name: str, password: str) -> bool:
        # The comparison takes the same time whether the user exists or not.
        expected = self._users.get(name, _NOBODY)
        return hmac.compare_digest(_digest(password), expected) and expected is not _NOBODY

    def _admits_token(self, token: str) -> bool:
        given = _digest(token)
        return sum(hmac.compare_digest(given, known) for known in self._tokens) > 0

    def __repr__(self) -> str:
        return f"Accounts(users={len(self._users)}, tokens={len(self._tokens)})"


class WithToken:
    """A login, and one token more: that of another part of the same broker."""

    def __init__(self, login: Login, token: str) -> None:
        self._login = login
        self._own = Accounts({}, [token])

    def admits(self, authorization: str | None) -> bool:
        return self._own.admits(authorization) or self._login.admits(authorization)

    def __repr__(self) -> str:
        return f"WithToken({self._login!r})"


class LoginFile:
    """The accounts of a file, which is read again when it has changed.

    A line NAME:PASSWORD is a user, a line without a colon is a token; empty lines and lines that begin with # are
    skipped. A file that cannot be read any more changes nothing.
    """

    def __init__(self, file: str | os.PathLike[str]) -> None:
        self._file = RereadFile(Path(file), read_accounts, what="users and tokens")

    def admits(self, authorization: str | None) -> bool:
        return self._file.newest().admits(authorization)

    def __repr__(self) -> str:
        return f"LoginFile({self._file!r})"


def read_accounts(file: Path) -> Accounts:
    """The users and tokens of a file; ConfigError if there are none."""
    users: dict[str, str] = {}
    tokens = []
    for number, line in lines_of(file):
        name, separator, password = line.partition(":")
        if not separator:
            tokens.append(line)
        elif not name or not password:
            raise ConfigError(
                f"{file}, line {number}: write NAME:PASSWORD, or a token without a colon"
            )
        elif name in users:
            raise ConfigError(f"{file}, line {number}: the user {name} is there twice")
        else:
            users[name] = password
    if not users and not tokens:
        raise ConfigError(f"{file} has no user and no token: write NAME:PASSWORD, or a token")
    return Accounts(users, tokens)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


_NOBODY: Final = _digest("")


def _user_and_password(value: str) -> tuple[str, str]:
    try:
        text = base64.b64decode(value.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return "", ""
    name, _, password = text.partition(":")
    return name, password
