"""The tokens of a `.proto` file."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.schemas.compatibility.parsed_schema import SchemaError

_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r\n\f\v\ufeff]+)
    |(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<float>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?f?|[0-9]+[eE][+-]?[0-9]+f?)
    |(?P<int>0[xX][0-9a-fA-F]+|[0-9]+)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<symbol>[;{}()\[\]<>=,.:/+-])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(
    r"\\(?:[xX]([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)
_SIMPLE: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}


class Token(NamedTuple):
    """A token, with the comments before it: those on the line of the token before belong to that one."""

    kind: str
    text: str
    line: int
    trailing: str = ""  # of the token before
    leading: str = ""


def tokenize(text: str) -> list[Token]:
    """All tokens, and an `end`."""
    tokens: list[Token] = []
    position, line = 0, 1
    trailing: list[str] = []
    leading: list[str] = []
    last_line = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise SchemaError(f"line {line}: unexpected {text[position : position + 10]!r}")
        kind, value = str(found.lastgroup), found[0]
        position = found.end()
        if kind == "comment":
            (trailing if line == last_line else leading).append(_comment_text(value))
        elif kind != "space":
            tokens.append(Token(kind, value, line, "\n".join(trailing), "\n".join(leading)))
            trailing, leading, last_line = [], [], line
        line += value.count("\n")
    return [*tokens, Token("end", "", line, "\n".join(trailing), "\n".join(leading))]


def _comment_text(comment: str) -> str:
    if comment.startswith("//"):
        return comment[2:].strip()
    lines = (line.strip().removeprefix("*").strip() for line in comment[2:-2].splitlines())
    return "\n".join(line for line in lines if line)


def string_value(token: str) -> bytes:
    """The bytes of a string token."""

    def replace(found: re.Match[str]) -> str:
        hexadecimal, octal, short, long, simple = found.groups()
        if hexadecimal is not None:
            return (
                chr(int(hexadecimal, 16) | 0xDC00)
                if int(hexadecimal, 16) > 127
                else chr(int(hexadecimal, 16))
            )
        if octal is not None:
            value = int(octal, 8) & 0xFF
            return chr(value | 0xDC00) if value > 127 else chr(value)
        if short is not None or long is not None:
            return chr(int(short or long, 16))
        return _SIMPLE.get(simple, simple)

    try:
        # Bytes above 127 travel as the surrogates that `surrogateescape` makes bytes of.
        return _ESCAPE.sub(replace, token[1:-1]).encode(errors="surrogateescape")
    except (ValueError, UnicodeEncodeError) as error:
        raise SchemaError(f"{token[:40]} is no string") from error


class Tokens:
    """Reads tokens one after the other."""

    def __init__(self, text: str) -> None:
        self._tokens = tokenize(text)
        self._index = 0

    @property
    def next(self) -> Token:
        """The token to come."""
        return self._tokens[self._index]

    def after_next(self, distance: int = 1) -> Token:
        """The token behind the one to come, or further behind."""
        return self._tokens[min(self._index + distance, len(self._tokens) - 1)]

    def take(self) -> Token:
        """Go on by one token."""
        token = self.next
        if token.kind != "end":
            self._index += 1
        return token

    def error(self, expected: str) -> SchemaError:
        """That something else was expected here."""
        found = self.next.text or "the end"
        return SchemaError(f"line {self.next.line}: expected {expected}, not {found[:40]!r}")

    def has(self, text: str) -> bool:
        """Take a token if it is this one."""
        if self.next.text == text and self.next.kind in ("symbol", "name"):
            self._index += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Take this token."""
        if not self.has(text):
            raise self.error(repr(text))

    def name(self) -> str:
        """A simple name."""
        if self.next.kind != "name":
            raise self.error("a name")
        return self.take().text

    def full_name(self) -> str:
        """A name with dots, possibly in front."""
        parts = ["."] if self.has(".") else []
        parts.append(self.name())
        while self.has("."):
            parts += [".", self.name()]
        return "".join(parts)

    def integer(self) -> int:
        """A number, possibly negative."""
        sign = -1 if self.has("-") else 1
        if self.next.kind != "int":
            raise self.error("a number")
        return sign * integer_value(self.take().text)

    def string(self) -> bytes:
        """A string; several in a row are one."""
        if self.next.kind != "string":
            raise self.error("a string")
        value = b""
        while self.next.kind == "string":
            value += string_value(self.take().text)
        return value

    def text(self) -> str:
        """A string that is text."""
        try:
            return self.string().decode()
        except UnicodeDecodeError as error:
            raise SchemaError(f"line {self.next.line}: a string is not UTF-8") from error

    def separated(self, read: Callable[[], None]) -> None:
        """One or more things with commas between."""
        read()
        while self.has(","):
            read()


def integer_value(text: str) -> int:
    """The number of a token: decimal, hexadecimal or octal."""
    if len(text) > 30:
        raise SchemaError(f"{text[:30]}… is too large a number")
    if text[:2].lower() == "0x":
        return int(text, 16)
    try:
        return int(text, 8) if text.startswith("0") and len(text) > 1 else int(text)
    except ValueError as error:
        raise SchemaError(f"{text} is no number") from error
