"""The time by which retries become due; tests move it."""

from __future__ import annotations

import time
from collections.abc import Callable

from ottla.durations import Duration, seconds_of


class AppClock:
    """The wall clock, plus what a test has added."""

    def __init__(self) -> None:
        self._added_ms = 0
        self.on_advance: list[Callable[[], None]] = []
        """Called when the clock was moved."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000 + self._added_ms

    def advance(self, duration: Duration) -> None:
        """Let that much time pass at once; call it on the loop of the app."""
        self._added_ms += round(seconds_of(duration) * 1000)
        for told in list(self.on_advance):
            told()
