"""The results of commands: tables for people, JSON or YAML for programs."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TextIO

Row = Mapping[str, Any]

ABSENT: Final = "-"
_CLEAR: Final = "\x1b[H\x1b[2J\x1b[3J"
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_UNBROKEN: Final = 1 << 30
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


class Column(NamedTuple):
    """A column of a table: its title, and its key in a row."""

    title: str
    key: str


def columns(**titles: str) -> tuple[Column, ...]:
    """Columns by key, as `columns(group="GROUP", lag="LAG")`."""
    return tuple(Column(title, key) for key, title in titles.items())


class Output:
    """Prints the results of a command in one format."""

    def __init__(self, form: str, stream: TextIO | None = None) -> None:
        self.form = form
        self._stream = sys.stdout if stream is None else stream
        self._has_colours = has_colours(self._stream)
        # JSON can escape every character in ASCII.
        self.is_ascii = (self._stream.encoding or "utf-8").lower().replace("-", "") != "utf8"
        if isinstance(self._stream, io.TextIOWrapper) and self._stream.errors == "strict":
            # Characters that the encoding lacks are written as escapes.
            self._stream.reconfigure(errors="backslashreplace")

    @property
    def is_table(self) -> bool:
        """Whether the output is for people."""
        return self.form == "table"

    def rows(self, shape: Sequence[Column], rows: Sequence[Row]) -> None:
        """Print rows of one kind: JSON and YAML get all keys, tables only the columns."""
        if self.is_table:
            self.lines(table(shape, rows, is_bold=self._has_colours) if rows else [])
        else:
            self.data(list(rows))

    def data(self, value: Any) -> None:
        """Print a value as JSON or YAML."""
        if self.form == "yaml":
            self.lines([yaml_text(value, is_ascii=self.is_ascii)])
        else:
            self.lines([json.dumps(value, indent=2, ensure_ascii=self.is_ascii, default=str)])

    def lines(self, lines: Iterable[str]) -> None:
        """Print lines of text."""
        for line in lines:
            self._stream.write(line + "\n")
        self._stream.flush()


def has_colours(stream: TextIO) -> bool:
    """Whether the stream is a terminal with colours (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def say(text: str) -> None:
    """Print a remark to stderr, apart from the results."""
    print(text, file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """The text with control characters escaped: names that clients choose may contain some."""
    return _CONTROL.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def cell(value: Any) -> str:
    """The text of a value in a table."""
    if value is None or value == "":
        return ABSENT
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return printable(",".join(map(str, value))) or ABSENT
    return printable(str(value))


def table(shape: Sequence[Column], rows: Sequence[Row], *, is_bold: bool = False) -> list[str]:
    """The lines of a table with aligned columns."""
    cells = [[cell(row.get(column.key)) for column in shape] for row in rows]
    titles = [column.title for column in shape]
    widths = [max(map(len, each)) for each in zip(titles, *cells, strict=True)]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in [titles, *cells]
    ]
    if is_bold:
        lines[0] = f"{_BOLD}{lines[0]}{_PLAIN}"
    return lines


def yaml_text(value: Any, *, is_ascii: bool) -> str:
    """A value as YAML in block style, without the last line end."""
    import yaml

    # Through JSON, so that both formats have the same types, and YAML has no aliases.
    plain = json.loads(json.dumps(value, default=str))
    text: str = yaml.dump(
        plain,
        Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper),
        allow_unicode=not is_ascii,
        sort_keys=False,
        width=_UNBROKEN,
    )
    return text.removesuffix("\n").removesuffix("\n...")


def repeat(again_seconds: float | None, show: Callable[[], int]) -> int:
    """Call `show` once, or every `again_seconds` until Ctrl-C on a cleared screen."""
    if again_seconds is None:
        return show()
    while True:
        if sys.stdout.isatty():
            sys.stdout.write(_CLEAR)
        show()
        time.sleep(again_seconds)
