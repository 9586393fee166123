"""Logins by tokens of a file: they use the console's own connections, within a role."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.console.access.login_refusals import LoginRefusedError
from ottla.console.access.roles import Role
from ottla.doors.login_file import RereadFile, lines_of
from ottla.errors import ConfigError

MIN_TOKEN_CHARS: Final = 16
ROLES: Final = {role.title: role for role in (Role.VIEWER, Role.OPERATOR, Role.ADMIN)}
WRONG: Final = "the console does not know this token"
_FORM: Final = "write ROLE TOKEN, or ROLE TOKEN NAME, with the role viewer, operator or admin"


@dataclass(frozen=True)
class TokenHolder:
    """What a token stands for: a name for the log, and a role."""

    name: str
    role: Role


class TokenFile:
    """The tokens of a file, which is read again when it has changed; only digests are kept.

    A line has a role, a token and perhaps a name: `viewer 5tLr… grafana`. Empty lines and lines that begin with # are
    skipped.
    """

    def __init__(self, file: str | os.PathLike[str]) -> None:
        self._file = RereadFile(Path(file), read_tokens, what="tokens")

    def holder_of(self, token: str) -> TokenHolder:
        """What a token stands for; LoginRefusedError if it stands for nothing."""
        return self.holder_of_digest(digest_of(token))

    def holder_of_digest(self, digest: bytes) -> TokenHolder:
        """The same, for a session that keeps no token."""
        found = None
        # All are compared, so that the time tells nothing.
        for known, holder in self._file.newest().items():
            if hmac.compare_digest(known, digest):
                found = holder
        if found is None:
            raise LoginRefusedError(WRONG)
        return found

    def __repr__(self) -> str:
        return f"TokenFile({self._file!r})"


def digest_of(token: str) -> bytes:
    """What is kept of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def read_tokens(file: Path) -> Mapping[bytes, TokenHolder]:
    """The tokens of a file by their digests; ConfigError if there are none."""
    found: dict[bytes, TokenHolder] = {}
    for number, line in lines_of(file):
        words = line.split(maxsplit=2)
        if len(words) < 2 or words[0] not in ROLES:
            raise ConfigError(f"{file}, line {number}: {_FORM}")
        role, token, name = words[0], words[1], words[2] if len(words) == 3 else f"token {number}"
        if len(token) < MIN_TOKEN_CHARS:
            raise ConfigError(
                f"{file}, line {number}: a token needs {MIN_TOKEN_CHARS} characters or more, "
                "so that nobody guesses it: `openssl rand -hex 24` makes one"
            )
        digest = digest_of(token)
        if digest in found:
            raise ConfigError(f"{file}, line {number}: the token is there twice")
        found[digest] = TokenHolder(name, ROLES[role])
    if not found:
        raise ConfigError(f"{file} has no token: {_FORM}")
    return found
