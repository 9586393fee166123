"""The log of `ottla serve`: one line per event, for people or as JSON for programs."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from ottla.cli.terminal.output import has_colours, printable

# What a JSON line has beside the fields of its event.
RESERVED: Final = ("time", "level", "event", "message", "logger", "trace")

# What clients can cause as often as they like: of each, so many lines in so many seconds.
LIMITED: Final = frozenset(
    {"connection_refused", "connection_closed", "connection_broken", "join_refused"}
)
LINES, SECONDS = 100, 10.0

_DIM, _RED, _YELLOW, _PLAIN = "\x1b[2m", "\x1b[31m", "\x1b[33m", "\x1b[0m"


def begin(form: str, level: str, stream: TextIO | None = None) -> logging.Handler:
    """From now on what the broker tells goes to stderr, or to the stream that is given."""
    stream = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        JsonLogFormatter() if form == "json" else TextLogFormatter(has_colours(stream))
    )
    handler.addFilter(RepeatLimit())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level.upper())
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    return handler


def fields_of(record: logging.LogRecord) -> Mapping[str, Any]:
    """The fields of an event; what is told in another way has none."""
    return record.args if isinstance(record.args, Mapping) else {}


class TextLogFormatter(logging.Formatter):
    """Time, level and sentence; the time is the local one."""

    def __init__(self, is_coloured: bool) -> None:
        super().__init__()
        self._is_coloured = is_coloured

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created).isoformat(" ", "milliseconds")
        level = f"{record.levelname:<7}"
        if self._is_coloured:
            when = f"{_DIM}{when}{_PLAIN}"
            if record.levelno >= logging.WARNING:
                colour = _RED if record.levelno >= logging.ERROR else _YELLOW
                level = f"{colour}{level}{_PLAIN}"
        line = f"{when} {level} {printable(record.getMessage())}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonLogFormatter(logging.Formatter):
    """One object per line."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": when.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", None),
            "message": record.getMessage(),
            "logger": record.name,
            **fields_of(record),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class RepeatLimit(logging.Filter):
    """Leaves out what would fill a disk; how much that was is told when the time is over."""

    def __init__(self, monotonic_seconds: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = monotonic_seconds
        self._since: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        event = getattr(record, "event", None)
        if event not in LIMITED:
            return True
        now = self._now()
        since, count = self._since.get(event, (now, 0))
        left_out = 0
        if now - since >= SECONDS:
            since, left_out, count = now, max(count - LINES, 0), 0
        self._since[event] = (since, count + 1)
        if left_out:
            record.msg = f"{record.msg} (%(left_out)d more like this were left out before)"
            record.args = {**fields_of(record), "left_out": left_out}
        return count < LINES
