"""Reads and writes Java's .properties files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ottla.errors import ConfigError

# Java ends lines at these only; str.splitlines knows more line ends.
_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANK = " \t\f"
_KEY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SPECIAL = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


def load(path: Path) -> dict[str, str]:
    """Read a file; a ConfigError says what is wrong with it and where."""
    try:
        return parse(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def parse(text: str) -> dict[str, str]:
    """Read the text of a file; the last of several lines with one key counts."""
    properties = {}
    for number, line in _logical_lines(text):
        match = _KEY.match(line)
        assert match is not None, "the pattern matches every text"
        key, value = (_unescape(part, number) for part in match.groups())
        properties[key] = value
    return properties


def render(properties: Mapping[str, str]) -> str:
    """The text of a file with these properties."""
    return "".join(
        f"{_escape(key, ' =:#!')}={_escape(value, '')}\n" for key, value in properties.items()
    )


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without comments, joined where a backslash ends one."""
    lines = iter(enumerate(_LINE_END.split(text), start=1))
    for number, natural in lines:
        line = natural.lstrip(_BLANK)
        if line.startswith(("#", "!")):
            continue
        while _continues(line):
            _, following = next(lines, (0, ""))
            line = line[:-1] + following.lstrip(_BLANK)
        if line:
            yield number, line


def _continues(line: str) -> bool:
    """Whether the line ends with a backslash that is not itself escaped."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescape(text: str, line_number: int) -> str:
    def plain(match: re.Match[str]) -> str:
        escaped = match[1]
        if len(escaped) == 5:
            return chr(int(escaped[1:], 16))
        if escaped == "u":
            raise ConfigError(f"line {line_number}: \\u must be followed by four hex digits")
        return _ESCAPED.get(escaped, escaped)

    unescaped = _ESCAPE.sub(plain, text)
    # Java writes characters beyond 16 bits as two escapes: join such pairs.
    return unescaped.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape(text: str, also: str) -> str:
    escaped = "".join(_SPECIAL.get(char, f"\\{char}" if char in also else char) for char in text)
    return f"\\{escaped}" if escaped.startswith(" ") else escaped
