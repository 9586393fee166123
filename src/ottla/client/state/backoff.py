"""Exponential backoff with jitter."""

from __future__ import annotations

from dataclasses import dataclass

JITTER = 0.2
GROWTH = 2
# 2 ** 30 times any initial delay is beyond every limit.
_MOST_DOUBLINGS = 30


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that double from `initial_ms` to `max_ms`, 20 % more or less at random, never above it (KIP-580)."""

    initial_ms: float
    max_ms: float

    def delay_ms(self, attempt: int, random_unit: float) -> float:
        """The pause after failure number `attempt` (from 0); `random_unit` is from [0, 1)."""
        growth: int = GROWTH ** min(attempt, _MOST_DOUBLINGS)
        jitter = 1 - JITTER + 2 * JITTER * random_unit
        return min(self.initial_ms * growth * jitter, self.max_ms)
