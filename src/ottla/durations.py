"""Durations as programs write them: "200ms", "5m", or a number of seconds."""

from __future__ import annotations

import re
from datetime import timedelta

from ottla.errors import ConfigError

Duration = str | float | timedelta

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_MAX_CHARACTERS = 100
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d)\s*", re.ASCII)


def seconds_of(duration: Duration) -> float:
    """The seconds of a duration: "1h30m", 90, timedelta(seconds=90). A ConfigError if it is none, or negative."""
    if isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif isinstance(duration, str):
        # The pattern takes long for many digits, and holds the interpreter meanwhile.
        parts = _PART.findall(duration) if len(duration) <= _MAX_CHARACTERS else []
        if not parts or _PART.sub("", duration).strip():
            raise ConfigError(
                f'{duration[:_MAX_CHARACTERS]!r} is no duration: write "200ms", "5s", "1h30m" or a number of seconds'
            )
        seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    elif isinstance(duration, bool) or not isinstance(duration, int | float):
        raise ConfigError(f'{duration!r} is no duration: write "5s" or a number of seconds')
    else:
        try:
            seconds = float(duration)
        except OverflowError as error:  # an int of 400 digits
            raise ConfigError("a duration of so many seconds is endless") from error
    if not 0 <= seconds < float("inf"):
        raise ConfigError(f"a duration of {duration!r} is negative or endless")
    return seconds
