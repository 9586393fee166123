"""The newest events of the log, in memory: what is logged is stored as it is, and made text when it is asked for."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, Final, NamedTuple

MAX_EVENTS: Final = 2_000
# Events that clients cause at will must not push out all others.
MAX_EVENTS_PER_NAME: Final = 500
MAX_TEXT_CHARS: Final = 2_000
MAX_FIELDS: Final = 32
# A plain record of `logging` is an event without a name.
NAMELESS: Final = ""


class StoredEvent(NamedTuple):
    """An event as it was logged; `fields` are the objects themselves."""

    sequence: int
    at_seconds: float
    level: int
    logger: str
    name: str
    text: str
    fields: Any
    trace: str | None

    def as_json(self) -> dict[str, object]:
        """What is told about the event, of limited size."""
        told: dict[str, object] = {
            "sequence": self.sequence,
            "at_ms": round(self.at_seconds * 1000),
            "level": logging.getLevelName(self.level).lower(),
            "name": self.name or None,
            "sentence": _cut(self._sentence()),
            "fields": self._told_fields(),
            "logger": self.logger,
        }
        if self.trace is not None:
            told["trace"] = self.trace
        return told

    def _sentence(self) -> str:
        if not self.fields:
            return self.text
        try:
            return str(self.text % self.fields)
        except (TypeError, ValueError, KeyError):
            return self.text

    def _told_fields(self) -> dict[str, object]:
        if not isinstance(self.fields, Mapping):
            return {}
        named = list(self.fields.items())[:MAX_FIELDS]
        return {str(name): _plain(value) for name, value in named}


class EventRing(logging.Handler):
    """A handler of `logging` that keeps the newest events."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = count(1)
        self._newest = 0
        self._events: OrderedDict[int, StoredEvent] = OrderedDict()
        self._by_name: dict[str, deque[int]] = {}
        self._attached: list[logging.Logger] = []

    def attach(self, loggers: Iterable[str]) -> None:
        """Keep from now on what these loggers, and those below them, log."""
        for name in loggers:
            found = logging.getLogger(name)
            found.addHandler(self)
            self._attached.append(found)

    def detach(self) -> None:
        """Keep nothing more."""
        for attached in self._attached:
            attached.removeHandler(self)
        self._attached.clear()
        self.close()

    @property
    def newest(self) -> int:
        """The number of the last event; 0 if there was none."""
        return self._newest

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one; `logging` holds the handler's lock."""
        number = self._newest = next(self._numbers)
        name = getattr(record, "event", None) or NAMELESS
        # Of an exception only the text: its frames would keep alive whatever they had to do with.
        trace = None if record.exc_info is None else _cut_front(_trace(record))
        self._events[number] = StoredEvent(
            number,
            record.created,
            record.levelno,
            record.name,
            name,
            str(record.msg),
            record.args,
            trace,
        )
        same = self._by_name.get(name)
        if same is None:
            same = self._by_name[name] = deque()
        same.append(number)
        if len(same) > MAX_EVENTS_PER_NAME:
            del self._events[same.popleft()]
        elif len(self._events) > MAX_EVENTS:
            _, oldest = self._events.popitem(last=False)
            of_its_name = self._by_name[oldest.name]
            of_its_name.popleft()
            if not of_its_name:
                del self._by_name[oldest.name]

    def after(self, sequence: int, limit: int) -> list[StoredEvent]:
        """The newest events behind a number, at most `limit`, the oldest first."""
        with self._locked():
            found: list[StoredEvent] = []
            for number in reversed(self._events):
                if number <= sequence or len(found) >= limit:
                    break
                found.append(self._events[number])
        found.reverse()
        return found

    def _locked(self) -> Any:
        assert self.lock is not None
        return self.lock


def detach_all() -> None:
    """Keep nothing more in rings that a fork has of its parent."""
    for name in ("ottla", "ottla.broker", "ottla.storage"):
        found = logging.getLogger(name)
        for handler in [each for each in found.handlers if isinstance(each, EventRing)]:
            found.removeHandler(handler)


def _trace(record: logging.LogRecord) -> str:
    return logging.Formatter().formatException(record.exc_info)  # type: ignore[arg-type]


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT_CHARS else f"{text[: MAX_TEXT_CHARS - 1]}…"


def _cut_front(text: str) -> str:
    """The end of a traceback says the most."""
    return text if len(text) <= MAX_TEXT_CHARS else f"…{text[1 - MAX_TEXT_CHARS :]}"


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    return _cut(str(value))
