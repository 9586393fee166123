"""The log of `ottla serve`: one line per event, as text or JSON."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from ottla.cli.terminal.output import has_colours, printable

# Keys of a JSON line that are not fields of the event.
RESERVED: Final = ("time", "level", "event", "message", "logger", "trace")

# Events that clients can cause at will: at most LINES of each in SECONDS.
LIMITED: Final = frozenset(
    {"connection_refused", "connection_closed", "connection_broken", "join_refused"}
)
LINES, SECONDS = 100, 10.0

_DIM, _RED, _YELLOW, _PLAIN = "\x1b[2m", "\x1b[31m", "\x1b[33m", "\x1b[0m"


def set_up_logging(
    form: str, level: str, stream: TextIO | None = None, *, node_id: int | None = None
) -> logging.Handler:
    """Write log records to stderr, or to the given stream; those of a worker have the node in them."""
    stream = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        JsonLogFormatter(node_id)
        if form == "json"
        else TextLogFormatter(has_colours(stream), node_id)
    )
    handler.addFilter(RepeatLimit())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level.upper())
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    return handler


def end_logging() -> None:
    """Undoes `set_up_logging`."""
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)


def fields_of(record: logging.LogRecord) -> Mapping[str, Any]:
    """The fields of an event; other log records have none."""
    return record.args if isinstance(record.args, Mapping) else {}


class TextLogFormatter(logging.Formatter):
    """Local time, level and message; the node of a worker is before the message."""

    def __init__(self, is_coloured: bool, node_id: int | None = None) -> None:
        super().__init__()
        self._is_coloured = is_coloured
        self._node = "" if node_id is None else f"[node {node_id}] "

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created).isoformat(" ", "milliseconds")
        level = f"{record.levelname:<7}"
        if self._is_coloured:
            when = f"{_DIM}{when}{_PLAIN}"
            if record.levelno >= logging.WARNING:
                colour = _RED if record.levelno >= logging.ERROR else _YELLOW
                level = f"{colour}{level}{_PLAIN}"
        line = f"{when} {level} {self._node}{printable(record.getMessage())}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonLogFormatter(logging.Formatter):
    """One JSON object per line; the events of a worker have its node, unless they name another."""

    def __init__(self, node_id: int | None = None) -> None:
        super().__init__()
        self._node: Mapping[str, int] = {} if node_id is None else {"node": node_id}

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": when.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", None),
            "message": record.getMessage(),
            "logger": record.name,
            **self._node,
            **fields_of(record),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class RepeatLimit(logging.Filter):
    """Drops events that could fill a disk; the next line of the same event has the number of dropped ones."""

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
