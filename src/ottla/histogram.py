"""Histograms of durations, for metrics."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

# From the cost of a small request to the wait of a long poll.
SECONDS: Final = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)


class Histogram:
    """Counts of values by upper bound; the last bound is infinite."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...] = SECONDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count a value, once or several times."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    @property
    def count(self) -> int:
        """The number of values."""
        return sum(self.counts)
