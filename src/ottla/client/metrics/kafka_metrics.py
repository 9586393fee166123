"""Metrics by Kafka's names: totals, rates, averages and maxima.

Recording a value costs an addition and a look at the clock, and happens per batch or request, not per record. Rates,
averages and maxima cover the last two samples of 30 s, as by Kafka's defaults.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from math import nan

Clock = Callable[[], float]

WINDOW_MS = 30_000
SAMPLES = 2


def monotonic_ms() -> float:
    """The clock of metrics."""
    return time.monotonic() * 1000


class _Sample:
    """The values of one window of time."""

    __slots__ = ("count", "largest", "start_ms", "total")

    def __init__(self, start_ms: float) -> None:
        self.start_ms = start_ms
        self.count = 0
        self.total = 0.0
        self.largest = -float("inf")


class Measured:
    """Recorded values: their count and sum, and rate, average and maximum of the last windows."""

    __slots__ = ("_clock_ms", "_current", "_past", "count", "total")

    def __init__(self, clock_ms: Clock) -> None:
        self._clock_ms = clock_ms
        self._current = _Sample(clock_ms())
        self._past: deque[_Sample] = deque(maxlen=SAMPLES - 1)
        self.count = 0
        self.total = 0.0

    def record(self, value: float = 1.0) -> None:
        """Record a value."""
        now_ms = self._clock_ms()
        sample = self._current
        if now_ms - sample.start_ms >= WINDOW_MS:
            self._past.append(sample)
            sample = self._current = _Sample(now_ms)
        sample.count += 1
        sample.total += value
        if value > sample.largest:
            sample.largest = value
        self.count += 1
        self.total += value

    def _recent(self) -> list[_Sample]:
        oldest_ms = self._clock_ms() - WINDOW_MS * SAMPLES
        kept = (*self._past, self._current)
        return [each for each in kept if each.start_ms > oldest_ms]

    @property
    def rate(self) -> float:
        """The recent sum per second."""
        recent = self._recent()
        if not recent:
            return 0.0
        # At least half a window, so that the first milliseconds of a client do not show huge rates.
        elapsed_ms = max(self._clock_ms() - recent[0].start_ms, WINDOW_MS / 2)
        return sum(each.total for each in recent) / elapsed_ms * 1000

    @property
    def average(self) -> float:
        """The mean of the recent values; NaN if there are none."""
        recent = self._recent()
        count = sum(each.count for each in recent)
        return sum(each.total for each in recent) / count if count else nan

    @property
    def largest(self) -> float:
        """The largest recent value; NaN if there are none."""
        return max((each.largest for each in self._recent() if each.count), default=nan)


class Metrics:
    """The metrics of one client, by name and tags: `byte-rate{topic=orders}`."""

    def __init__(self, clock_ms: Clock = monotonic_ms) -> None:
        self._clock_ms = clock_ms
        self._values: dict[str, Callable[[], float]] = {}
        self._measured: dict[str, Measured] = {}

    def meter(self, name: str, **tags: object) -> Measured:
        """A value with `<name>-total` and `<name>-rate`; the same object for the same name."""
        made = self._get(name, tags)
        self.gauge(f"{name}-total", lambda: made.total, **tags)
        self.gauge(f"{name}-rate", lambda: made.rate, **tags)
        return made

    def distribution(self, name: str, **tags: object) -> Measured:
        """A value with `<name>-avg` and `<name>-max`; the same object for the same name."""
        made = self._get(name, tags)
        self.gauge(f"{name}-avg", lambda: made.average, **tags)
        self.gauge(f"{name}-max", lambda: made.largest, **tags)
        return made

    def gauge(self, name: str, value: Callable[[], float], **tags: object) -> None:
        """A value that is computed by `snapshot`."""
        self._values[_tagged(name, tags)] = value

    def forget(self, **tags: object) -> None:
        """Remove the metrics with these tags."""
        ending = _tagged("", tags)
        for known in (self._values, self._measured):
            for name in [name for name in known if name.endswith(ending)]:
                del known[name]

    def _get(self, name: str, tags: dict[str, object]) -> Measured:
        key = _tagged(name, tags)
        if key not in self._measured:
            self._measured[key] = Measured(self._clock_ms)
        return self._measured[key]

    def snapshot(self) -> dict[str, float]:
        """All values at this moment; may be called on any thread."""
        return {name: float(value()) for name, value in list(self._values.items())}


def _tagged(name: str, tags: dict[str, object]) -> str:
    if not tags:
        return name
    return name + "{" + ",".join(f"{tag}={value}" for tag, value in tags.items()) + "}"
