"""When periodic work was done last, and how long it took."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ottla.ports import Clock


class WorkRounds:
    """Counts the rounds of one kind of work."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.count = 0
        self.is_at_work = False
        self.last_began_ms: int | None = None
        self.last_seconds: float | None = None
        """Of the last round that has ended."""

    @contextmanager
    def round(self) -> Iterator[None]:
        """One round, whether it succeeds or not."""
        began = self._clock.monotonic_seconds()
        self.last_began_ms = self._clock.now_ms()
        self.is_at_work = True
        try:
            yield
        finally:
            self.is_at_work = False
            self.count += 1
            self.last_seconds = self._clock.monotonic_seconds() - began
