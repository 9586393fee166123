"""Questions at the terminal: whether the user is sure, and passwords."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import Final

from ottla.cli.errors import CommandError, UsageError

_STDIN: Final = "-"
# Longer ones are files of something else.
_MAX_PASSWORD_BYTES: Final = 4096


def is_confirmed(question: str) -> bool:
    """Ask on stderr; only `y` and `yes` confirm."""
    print(f"{question} (y/n) ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def new_password(user: str, file: str | None) -> str:
    """A password from a file, from a pipe, or asked for twice; it is never printed."""
    if file is not None and file != _STDIN:
        with Path(file).open("rb") as stream:
            return _checked(stream.read(_MAX_PASSWORD_BYTES + 1), file)
    if file == _STDIN or not sys.stdin.isatty():
        return _checked(sys.stdin.buffer.readline(_MAX_PASSWORD_BYTES + 1), "stdin")
    password = getpass.getpass(f"new password of {user}: ")
    if not password:
        raise UsageError("the password is empty")
    if getpass.getpass("the same again: ") != password:
        raise CommandError("the two passwords differ", "nothing was changed")
    return password


def _checked(raw: bytes, where: str) -> str:
    """The password in some bytes; a line end after it does not belong to it."""
    if len(raw) > _MAX_PASSWORD_BYTES:
        raise UsageError(f"the password in {where} is too long")
    try:
        password = raw.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise UsageError(f"the password in {where} is not UTF-8") from None
    if not password:
        raise UsageError(f"the password in {where} is empty", "write it there, without quotes")
    if "\n" in password:
        raise UsageError(f"{where} has more than one line", "a password file has only the password")
    return password
