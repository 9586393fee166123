"""Time that only counts while the process runs, so that its pauses end no session."""

from __future__ import annotations

from collections.abc import Callable

# `now_ms` has to be called at least this often while the process runs, from when on `watch` was called.
TICK_MS = 1000
# A longer time between two ticks was a pause: a suspended machine, a stopped process, a blocked loop.
PAUSE_MS = 3 * TICK_MS


class Uptime:
    """A monotonic clock that leaves out the times during which no request could be read.

    After such a time the heartbeats of all members are in the socket buffers, and every session would be over before
    they are read.
    """

    def __init__(self, monotonic_seconds: Callable[[], float]) -> None:
        self._monotonic_seconds = monotonic_seconds
        self._paused_ms = 0
        self._last_ms: int | None = None

    def watch(self) -> None:
        """Begins to leave out pauses: from now on the node calls `now_ms` every `TICK_MS`."""
        self._last_ms = self._raw_ms()

    def now_ms(self) -> int:
        raw_ms = self._raw_ms()
        if self._last_ms is not None:
            if raw_ms - self._last_ms > PAUSE_MS:
                self._paused_ms += raw_ms - self._last_ms - TICK_MS
            self._last_ms = raw_ms
        return raw_ms - self._paused_ms

    def _raw_ms(self) -> int:
        return int(self._monotonic_seconds() * 1000)
