"""What clients count, under the names of Kafka's metrics.

Whoever counts pays for an addition and a look at the clock, once per batch or request rather than per record. Rates,
averages and maxima are those of the last two samples of 30 s, as by Kafka's default.
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
    """What happened in one window of time."""

    __slots__ = ("count", "largest", "start_ms", "total")

    def __init__(self, start_ms: float) -> None:
        self.start_ms = start_ms
        self.count = 0
        self.total = 0.0
        self.largest = -float("inf")


class Measured:
    """Values that are recorded now and then: how many, their sum, and how they were lately."""

    __slots__ = ("_clock_ms", "_current", "_past", "count", "total")

    def __init__(self, clock_ms: Clock) -> None:
        self._clock_ms = clock_ms
        self._current = _Sample(clock_ms())
        self._past: deque[_Sample] = deque(maxlen=SAMPLES - 1)
        self.count = 0
        self.total = 0.0

    def record(self, value: float = 1.0) -> None:
        """One more value."""
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
        """The sum per second, lately."""
        recent = self._recent()
        if not recent:
            return 0.0
        # A young client's rate is that of its life, but not that of its first milliseconds.
        elapsed_ms = max(self._clock_ms() - recent[0].start_ms, WINDOW_MS / 2)
        return sum(each.total for each in recent) / elapsed_ms * 1000

    @property
    def average(self) -> float:
        """The mean of the values, lately; not a number if there are none."""
        recent = self._recent()
        count = sum(each.count for each in recent)
        return sum(each.total for each in recent) / count if count else nan

    @property
    def largest(self) -> float:
        """The largest value, lately; not a number if there are none."""
        return max((each.largest for each in self._recent() if each.count), default=nan)


class Metrics:
    """The metrics of one client, by name; those of a topic or a node are tagged: `byte-rate{topic=orders}`."""

    def __init__(self, clock_ms: Clock = monotonic_ms) -> None:
        self._clock_ms = clock_ms
        self._values: dict[str, Callable[[], float]] = {}
        self._measured: dict[str, Measured] = {}

    def meter(self, name: str, **tags: object) -> Measured:
        """What `<name>-total` and `<name>-rate` tell; the same one when asked again."""
        made = self._get(name, tags)
        self.gauge(f"{name}-total", lambda: made.total, **tags)
        self.gauge(f"{name}-rate", lambda: made.rate, **tags)
        return made

    def distribution(self, name: str, **tags: object) -> Measured:
        """What `<name>-avg` and `<name>-max` tell; the same one when asked again."""
        made = self._get(name, tags)
        self.gauge(f"{name}-avg", lambda: made.average, **tags)
        self.gauge(f"{name}-max", lambda: made.largest, **tags)
        return made

    def gauge(self, name: str, value: Callable[[], float], **tags: object) -> None:
        """A value that is looked up when somebody asks."""
        self._values[_tagged(name, tags)] = value

    def forget(self, **tags: object) -> None:
        """A topic or a node that is no more."""
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
        """All values at this moment; may be asked for on any thread."""
        return {name: float(value()) for name, value in list(self._values.items())}


def _tagged(name: str, tags: dict[str, object]) -> str:
    if not tags:
        return name
    return name + "{" + ",".join(f"{tag}={value}" for tag, value in tags.items()) + "}"
