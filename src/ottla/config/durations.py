"""ISO 8601 durations, as Java's Duration reads them."""

from __future__ import annotations

import re

_DURATION = re.compile(
    r"([-+]?)P(?:([-+]?[0-9]+)D)?"
    r"(T(?:([-+]?[0-9]+)H)?(?:([-+]?[0-9]+)M)?(?:([-+]?)([0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_DAY_MS = 86_400_000
_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000
_NANOS_PER_MS = 1_000_000
_MAX_CHARS = 100


def parse_duration_ms(text: str) -> int:
    """The milliseconds of a duration such as `PT1H30M` or `P2DT0.5S`; a ValueError if it is none."""
    match = _DURATION.fullmatch(text) if len(text) <= _MAX_CHARS else None
    if match is None:
        raise ValueError(f"{text!r} is not an ISO 8601 duration such as PT1H30M or P2D")
    sign, days, clock, hours, minutes, seconds_sign, seconds, fraction = match.groups()
    if not (days or hours or minutes or seconds) or (clock or "").upper() == "T":
        raise ValueError(f"{text!r} is a duration without a number, as in PT1H30M or P2D")
    nanos = int(seconds or 0) * 10**9 + int((fraction or "").ljust(9, "0"))
    whole_ms = (
        int(days or 0) * _DAY_MS + int(hours or 0) * _HOUR_MS + int(minutes or 0) * _MINUTE_MS
    )
    nanos = whole_ms * _NANOS_PER_MS + (-nanos if seconds_sign == "-" else nanos)
    return (-nanos if sign == "-" else nanos) // _NANOS_PER_MS
