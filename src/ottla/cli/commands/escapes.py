"""Backslash escapes in separators and formats."""

from __future__ import annotations

import os
import re
from typing import Final

import click

_NAMED: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|(.))", re.DOTALL)


def unescaped(text: str) -> bytes:
    r"""The bytes of a text, with \n, \r, \t, \0, \\ and \xNN replaced; other escapes stay."""
    # Arguments may be any bytes: those that are not text stay as they are.
    found = bytearray()
    at = 0
    for match in _ESCAPE.finditer(text):
        code, name = match.groups()
        found += os.fsencode(text[at : match.start()])
        if code is not None:
            found.append(int(code, 16))
        else:
            found += _NAMED.get(name) or os.fsencode(match.group())
        at = match.end()
    found += os.fsencode(text[at:])
    return bytes(found)


def separator(text: str) -> bytes:
    """Parse a separator, which cannot be empty."""
    found = unescaped(text)
    if not found:
        raise click.BadParameter("a separator has at least one character")
    return found
