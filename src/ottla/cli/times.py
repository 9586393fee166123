"""Times and durations as users type them."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Final

from ottla.cli.errors import UsageError

_UNIT_MS: Final = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
# Kafka's times are 64-bit numbers.
_LATEST_MS: Final = (1 << 63) - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SHORT: Final = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhdw]))+")
_SHORT_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
# ISO 8601, without years and months, which have no fixed length.
_ISO: Final = re.compile(
    r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)
_ISO_MS: Final = tuple(_UNIT_MS[unit] for unit in "wdhms")
_ADVICE: Final = (
    "write milliseconds since 1970, a date as 2026-01-31T12:00:00 (UTC unless it says otherwise), "
    "or how long ago, as 15m, 2h or P1DT12H"
)


def current_ms() -> int:
    """The current time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def moment_ms(text: str, now_ms: int) -> int:
    """Milliseconds since 1970 of a number of them, a date with or without a time, or a duration before now."""
    text = text.strip()
    if text.isdecimal():
        number = float(text)
        if number >= _LATEST_MS:
            raise UsageError(f"{text!r} is too late", _ADVICE)
        return int(text)
    if text == "now":
        return now_ms
    ago_ms = _duration_ms(text.removesuffix(" ago").strip().lstrip("-"))
    if ago_ms is not None:
        return now_ms - ago_ms
    at = _date_ms(text)
    if at is None:
        raise UsageError(f"{text!r} is not a time", _ADVICE)
    return at


def date_ms(text: str) -> int:
    """Milliseconds since 1970 of a date, in UTC unless it has a time zone, as in Kafka's tools."""
    found = _date_ms(text)
    if found is None:
        raise UsageError(f"{text!r} is not a date", "write it as 2026-01-31T12:00:00")
    return found


def duration_ms(text: str) -> int:
    """Milliseconds of 15m, 1h30m, 2d or, as in Kafka's tools, P1DT12H."""
    found = _duration_ms(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is not a duration", "write it as 15m, 1h30m, 2d or P1DT12H")
    return found


def _date_ms(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _duration_ms(text: str) -> int | None:
    found = _exact_duration_ms(text)
    if found is not None and found >= _LATEST_MS:
        raise UsageError(f"{text!r} is too long", "write it as 15m, 1h30m, 2d or P1DT12H")
    return None if found is None else int(found)


def _exact_duration_ms(text: str) -> float | None:
    if _SHORT.fullmatch(text):
        return sum(float(count) * _UNIT_MS[unit] for count, unit in _SHORT_PART.findall(text))
    found = _ISO.fullmatch(text)
    if found is None or not any(found.groups()):
        return None
    counts = (float(count or 0) for count in found.groups())
    return sum(count * unit_ms for count, unit_ms in zip(counts, _ISO_MS, strict=True))
