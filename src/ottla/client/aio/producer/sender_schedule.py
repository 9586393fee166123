"""When the sender makes its next pass: soon after it was woken, or at a time that the last pass named."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from ottla.client.state.producer.partition_queue import FOREVER

log = logging.getLogger("ottla.client")

MakePass = Callable[[float], float]
"""Given the time in milliseconds, does what can be done now; returns when the next pass is due at the latest."""


class SenderSchedule:
    """Calls `make_pass` on the loop, once for all wake-ups since the last call."""

    def __init__(self, make_pass: MakePass) -> None:
        self._make_pass = make_pass
        self._loop = asyncio.get_running_loop()
        self._is_scheduled = False
        self._is_woken = False
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = FOREVER

    def now_ms(self) -> float:
        """The loop's time."""
        return self._loop.time() * 1000

    def wake(self) -> None:
        """Make a pass soon; on the loop."""
        if not self._is_scheduled and not self._is_closed:
            self._is_scheduled = True
            self._loop.call_soon(self._run)

    def wake_threadsafe(self) -> None:
        """Make a pass soon; from any thread."""
        # The pass clears the flag before it looks at the accumulator: a record that was appended before is seen.
        if not self._is_woken:
            self._is_woken = True
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._run)

    def close(self) -> None:
        """Make no more passes."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _run(self) -> None:
        self._is_scheduled = False
        self._is_woken = False
        if self._is_closed:
            return
        try:
            self._set_timer(self._make_pass(self.now_ms()))
        except Exception:
            log.exception("a pass of the sender failed")

    def _set_timer(self, at_ms: float) -> None:
        if self._timer is not None:
            # An earlier timer will do: its pass sets the next one.
            if self._timer_ms <= at_ms:
                return
            self._timer.cancel()
            self._timer = None
        self._timer_ms = at_ms
        if at_ms < FOREVER:
            self._timer = self._loop.call_at(at_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        # The loop may call a timer a little early; then the pass sets another.
        self._timer = None
        self.wake()
