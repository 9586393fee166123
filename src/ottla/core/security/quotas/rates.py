"""Rates over windows and token buckets, and how long a client that exceeds them has to wait: Kafka's formulas.

Times are milliseconds of a clock that does not go back.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

MS_PER_SECOND: Final = 1000
# The longest wait that a response can name.
MAX_THROTTLE_MS: Final = 0x7FFFFFFF


class Windows(NamedTuple):
    """The windows over which a rate is measured."""

    number: int
    size_ms: int

    @property
    def span_ms(self) -> int:
        return self.number * self.size_ms

    @property
    def whole_seconds(self) -> float:
        """The length of the windows that are always whole: all but the last one."""
        return (self.number - 1) * self.size_ms / MS_PER_SECOND


class _Sample:
    """What was recorded in one window."""

    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.start_ms = now_ms
        self.last_ms = now_ms
        self.value = 0.0


class WindowedRate:
    """A rate per second over some windows, of which the last one is not over yet (Kafka's Rate of a WindowedSum)."""

    __slots__ = ("_current", "_samples")

    def __init__(self) -> None:
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, windows: Windows, now_ms: int) -> None:
        """Adds to the window of now; a negative value takes back what was recorded."""
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        sample = self._samples[self._current]
        if now_ms - sample.start_ms >= windows.size_ms:
            sample = self._advance(windows, now_ms)
        sample.value += value
        sample.last_ms = now_ms

    def _advance(self, windows: Windows, now_ms: int) -> _Sample:
        # One more than there are windows: the oldest one may have begun before the span that is measured.
        self._current = (self._current + 1) % (windows.number + 1)
        if self._current >= len(self._samples):
            self._current = len(self._samples)
            self._samples.append(_Sample(now_ms))
        else:
            self._samples[self._current].reset(now_ms)
        return self._samples[self._current]

    def _measure(self, windows: Windows, now_ms: int) -> tuple[float, int]:
        """What was recorded, and the time over which it is measured; forgets windows that are over."""
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        span_ms, total, oldest_ms = windows.span_ms, 0.0, now_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= span_ms:
                sample.reset(now_ms)
            total += sample.value
            if sample.start_ms < oldest_ms:
                oldest_ms = sample.start_ms
        elapsed_ms = now_ms - oldest_ms
        missing = windows.number - 1 - elapsed_ms // windows.size_ms
        if missing > 0:
            elapsed_ms += missing * windows.size_ms
        return total, max(elapsed_ms, 1)

    def per_second(self, windows: Windows, now_ms: int) -> float:
        """The rate now."""
        total, measured_ms = self._measure(windows, now_ms)
        return total / (measured_ms / MS_PER_SECOND)

    def measured_ms(self, windows: Windows, now_ms: int) -> int:
        """The time over which the rate is measured: at least all windows but one, even if it began a moment ago."""
        return self._measure(windows, now_ms)[1]

    def throttle_ms(self, limit: float, windows: Windows, now_ms: int) -> int:
        """How long nothing must be recorded until the rate is the limit again; 0 if it is within."""
        total, measured_ms = self._measure(windows, now_ms)
        rate = total / (measured_ms / MS_PER_SECOND)
        if rate <= limit:
            return 0
        return min(_rounded((rate - limit) / limit * measured_ms), MAX_THROTTLE_MS)


class TokenBucket:
    """Tokens that a rate refills, up to what it yields in all windows together; it may be overdrawn once (KIP-599)."""

    __slots__ = ("_tokens", "_updated_ms")

    def __init__(self) -> None:
        self._tokens = 0.0
        self._updated_ms: int | None = None  # None: full

    def take(self, tokens: float, rate: float, windows: Windows, now_ms: int) -> None:
        """Takes tokens, even if there are too few."""
        self._refill(rate, windows, now_ms)
        self._tokens = min(_burst(rate, windows), self._tokens - tokens)

    def throttle_ms(self, rate: float, windows: Windows, now_ms: int) -> int:
        """How long it takes until the bucket is not overdrawn any more; 0 if it is not."""
        self._refill(rate, windows, now_ms)
        if self._tokens >= 0:
            return 0
        return min(_rounded(-self._tokens / rate * MS_PER_SECOND), MAX_THROTTLE_MS)

    def _refill(self, rate: float, windows: Windows, now_ms: int) -> None:
        burst = _burst(rate, windows)
        if self._updated_ms is None:
            self._tokens = burst
        else:
            passed_seconds = (now_ms - self._updated_ms) / MS_PER_SECOND
            self._tokens = min(burst, self._tokens + rate * passed_seconds)
        self._updated_ms = now_ms


def _burst(rate: float, windows: Windows) -> float:
    return windows.number * (windows.size_ms / MS_PER_SECOND) * rate


def _rounded(value: float) -> int:
    """As Java's Math.round: halves go up."""
    if not math.isfinite(value):
        return MAX_THROTTLE_MS
    whole = math.floor(value)
    return whole + 1 if value - whole >= 0.5 else whole
