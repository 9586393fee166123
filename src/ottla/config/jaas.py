"""Parses sasl.jaas.config: one login module with its options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ottla.errors import ConfigError

FLAGS = ("required", "requisite", "sufficient", "optional")
EXAMPLE = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="alice" password="secret";'
)

# Tokens as Java's StreamTokenizer finds them: blanks and comments are skipped.
_TOKEN = re.compile(
    r"""(?P<skipped>\s+|/\*.*?\*/|/[^\n\r]*)"""
    r"""|(?P<quote>["'])(?P<quoted>(?:\\.|(?!(?P=quote))[^\\\n\r])*)(?P=quote)"""
    r"""|(?P<word>[\w.$\-]+)"""
    r"""|(?P<mark>[=;])""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasEntry(NamedTuple):
    """A login module and its options."""

    module: str
    flag: str
    options: Mapping[str, str]


class _Token(NamedTuple):
    text: str
    is_mark: bool


def parse_jaas(text: str, example: str = EXAMPLE) -> JaasEntry:
    """Read `MODULE FLAG NAME=VALUE …;`; a ConfigError shows the example, and never the values."""
    try:
        return _parse(text)
    except _JaasError as error:
        raise ConfigError(
            f"sasl.jaas.config is not valid: {error.args[0]}; it looks like {example}"
        ) from None


class _JaasError(Exception):
    """Why the text is not valid."""


def _parse(text: str) -> JaasEntry:
    tokens = list(_tokens(text))
    if not tokens:
        raise _JaasError("it is empty")
    if tokens[-1] != _Token(";", is_mark=True):
        raise _JaasError("it does not end with a semicolon")
    if tokens.count(_Token(";", is_mark=True)) > 1:
        raise _JaasError("it names more than one login module")
    words, rest = tokens[:2], tokens[2:-1]
    if len(words) < 2 or any(token.is_mark for token in words):
        raise _JaasError("it must begin with a login module and a flag")
    module, flag = (token.text for token in words)
    if flag.lower() not in FLAGS:
        raise _JaasError(f"after {module} must come one of {', '.join(FLAGS)}")
    return JaasEntry(module, flag.lower(), _options(rest))


def _options(tokens: list[_Token]) -> dict[str, str]:
    options: dict[str, str] = {}
    for start in range(0, len(tokens), 3):
        name, *rest = tokens[start : start + 3]
        if name.is_mark or [token.is_mark for token in rest] != [True, False]:
            raise _JaasError("options are written NAME=VALUE, values with blanks in double quotes")
        options[name.text] = rest[1].text
    return options


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _JaasError(f"the character at {position} is not expected: quote values")
        position = match.end()
        if match["quote"]:
            yield _Token(_ESCAPE.sub(_unescaped, match["quoted"]), is_mark=False)
        elif match["word"]:
            yield _Token(match["word"], is_mark=False)
        elif match["mark"]:
            yield _Token(match["mark"], is_mark=True)


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _ESCAPED.get(escaped, escaped)
