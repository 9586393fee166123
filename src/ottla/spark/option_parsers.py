"""Parsers of option values. A ValueError says what the value has to be."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import MappingProxyType
from typing import Final

_DURATION: Final = re.compile(r"(\d+)\s*([a-z]*)")
_UNITS_MS: Final = MappingProxyType(
    {"us": 0.001, "": 1}
    | dict.fromkeys(("ms", "millisecond", "milliseconds"), 1)
    | dict.fromkeys(("s", "second", "seconds"), 1000)
    | dict.fromkeys(("m", "min", "minute", "minutes"), 60_000)
    | dict.fromkeys(("h", "hour", "hours"), 3_600_000)
    | dict.fromkeys(("d", "day", "days"), 86_400_000)
)


def text(given: str) -> str:
    """Text that is not empty."""
    if not given.strip():
        raise ValueError("text that is not empty")
    return given.strip()


def names(given: str) -> tuple[str, ...]:
    """Comma-separated names, each once."""
    found = tuple(dict.fromkeys(each.strip() for each in given.split(",") if each.strip()))
    if not found:
        raise ValueError("names with commas between them")
    return found


def flag(given: str) -> bool:
    """true or false, in any case."""
    try:
        return {"true": True, "false": False}[given.strip().lower()]
    except KeyError:
        raise ValueError("true or false") from None


def whole_number(least: int) -> Callable[[str], int]:
    """A parser of integers from `least` on."""

    def parse(given: str) -> int:
        try:
            number = int(given)
        except ValueError:
            number = least - 1
        if not least <= number < 1 << 63:
            raise ValueError(f"a whole number of at least {least}")
        return number

    return parse


def duration_ms(given: str) -> int:
    """A duration as Spark writes it: 15m, 30s, 100ms; milliseconds without a unit."""
    match = _DURATION.fullmatch(given.strip().lower())
    if match is None or match[2] not in _UNITS_MS:
        raise ValueError("a time with a unit (us, ms, s, m, min, h, d), as in 15m")
    return int(int(match[1]) * _UNITS_MS[match[2]])


def choice(*choices: str) -> Callable[[str], str]:
    """A parser of one of these words, in any case."""

    def parse(given: str) -> str:
        word = given.strip().lower()
        if word not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return word

    return parse
