"""How long requests took lately: by this a request is found to be late, and another one tried."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from typing import Final

_KEPT: Final = 128


class RecentLatencies:
    """The durations of the last requests that succeeded."""

    def __init__(self, kept: int = _KEPT) -> None:
        self._in_order: deque[float] = deque()
        self._sorted: list[float] = []
        self._kept = kept

    def add(self, seconds: float) -> None:
        if len(self._in_order) == self._kept:
            oldest = self._in_order.popleft()
            del self._sorted[bisect_left(self._sorted, oldest)]
        self._in_order.append(seconds)
        insort(self._sorted, seconds)

    @property
    def count(self) -> int:
        return len(self._sorted)

    def percentile(self, share: float) -> float | None:
        """The duration that this share (0.5: half) did not exceed; None if there was no request."""
        if not self._sorted:
            return None
        return self._sorted[min(int(share * len(self._sorted)), len(self._sorted) - 1)]
