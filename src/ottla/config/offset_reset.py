"""The values of auto.offset.reset."""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from ottla.errors import ConfigError

_BY_DURATION = "by_duration:"
_DURATION_MAX_CHARS = 100
_DURATION = re.compile(
    r"([-+]?)P(?:([-+]?[0-9]+)D)?"
    r"(T(?:([-+]?[0-9]+)H)?(?:([-+]?[0-9]+)M)?(?:([-+]?)([0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_DAY_MS = 86_400_000
_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000
_NANOS_PER_MS = 1_000_000


class OffsetResetKind(Enum):
    """Where a consumer starts to read a partition without a committed offset."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"
    BY_DURATION = "by_duration"


_RESETS = {kind.value: kind for kind in OffsetResetKind}
# Other names of the same values in librdkafka.
_LIBRDKAFKA_NAMES = {
    "smallest": "earliest",
    "beginning": "earliest",
    "largest": "latest",
    "end": "latest",
    "error": "none",
}


class OffsetReset(NamedTuple):
    """A value of auto.offset.reset; `duration_ms` belongs to BY_DURATION."""

    kind: OffsetResetKind
    duration_ms: int = 0

    @classmethod
    def parse(cls, text: str) -> OffsetReset:
        """Read `earliest`, `latest`, `none` or `by_duration:` with an ISO 8601 duration."""
        try:
            if text.startswith(_BY_DURATION):
                duration_ms = parse_duration_ms(text.removeprefix(_BY_DURATION))
                if duration_ms < 0:
                    raise ValueError(f"{text!r} goes back a negative time")
                return cls(OffsetResetKind.BY_DURATION, duration_ms)
            if text == OffsetResetKind.BY_DURATION.value:
                raise ValueError(f"{text!r} has no duration")
            return cls(_RESETS[text])
        except ValueError as error:
            raise cls._refusal(text, f" ({error})") from error
        except KeyError:
            meant = _LIBRDKAFKA_NAMES.get(text)
            raise cls._refusal(text, "" if meant is None else f"; you mean {meant}") from None

    @staticmethod
    def _refusal(text: str, why: str) -> ConfigError:
        return ConfigError(
            f"auto.offset.reset={text!r} is not valid: it must be earliest, latest, none or "
            f"by_duration:PnDTnHnMn.nS, as in by_duration:PT1H{why}"
        )


def parse_duration_ms(text: str) -> int:
    """The milliseconds of an ISO 8601 duration, such as `PT1H30M` or `P2DT0.5S`, as Java's Duration reads it."""
    match = _DURATION.fullmatch(text) if len(text) <= _DURATION_MAX_CHARS else None
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
