"""Points in time and lengths of time, as people write them."""

from __future__ import annotations

import argparse
import re
import time
from typing import Final

_UNITS_MS: Final = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])", re.IGNORECASE)
# As Java's Duration.parse has it, which Kafka's tools take: P1DT2H3M4.5S.
_ISO: Final = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)


def duration_ms(text: str) -> int:
    """A length of time: 500ms, 90s, 10m, 1h30m, 2d, or as ISO 8601 has it, PT1H30M."""
    iso = _ISO.fullmatch(text)
    if iso is not None and any(iso.groups()):
        units = ("d", "h", "m", "s")
        parts = [(n, unit) for n, unit in zip(iso.groups(), units, strict=True) if n]
    else:
        parts = _PART.findall(text)
        if not parts or "".join(number + unit for number, unit in parts) != text:
            raise argparse.ArgumentTypeError(
                f"{text!r} is no length of time: write 500ms, 90s, 10m, 1h30m or PT1H30M"
            )
    return int(sum(float(number) * _UNITS_MS[unit.lower()] for number, unit in parts))


def moment_ms(text: str) -> int:
    """A point in time, in milliseconds since 1970: a date and time, such a number, or how long ago it was."""
    if text.isdecimal():
        return int(text)
    now_ms = time.time_ns() // 1_000_000
    if text == "now":
        return now_ms
    try:
        return max(0, now_ms - duration_ms(text))
    except argparse.ArgumentTypeError:
        return datetime_ms(text)


def datetime_ms(text: str) -> int:
    """A date and time as ISO 8601 has it, 2026-11-15T17:00:00.000+01:00; UTC where no zone is given, as in Kafka."""
    from datetime import UTC, datetime

    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no point in time: write 2026-11-15T17:00:00, 10m (ago) or milliseconds since 1970"
        ) from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return round(found.timestamp() * 1000)
