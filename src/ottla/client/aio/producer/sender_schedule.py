"""When the sender makes a pass: soon after it was woken, from whichever thread, and when a time has come."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from ottla.client.state.producer.partition_queue import FOREVER

log = logging.getLogger("ottla.client")

MakePass = Callable[[float], float]
"""Does what can be done at a time in milliseconds; says when it wants to be called at the latest."""


class Passes:
    """Calls a function on the loop, once for all that happened since it was called last."""

    def __init__(self, make_pass: MakePass) -> None:
        self.count = 0
        self._make_pass = make_pass
        self._loop = asyncio.get_running_loop()
        self._is_scheduled = False
        self._is_woken = False
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = FOREVER

    def now_ms(self) -> float:
        """The time of the loop, by which everything here goes."""
        return self._loop.time() * 1000

    def wake(self) -> None:
        """Make a pass soon; on the loop."""
        if not self._is_scheduled and not self._is_closed:
            self._is_scheduled = True
            self._loop.call_soon(self._run)

    def wake_from_anywhere(self) -> None:
        """Make a pass soon; from any thread."""
        # The pass clears the mark before it looks: what was appended before this look is seen by it.
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
        self.count += 1
        try:
            self._set_timer(self._make_pass(self.now_ms()))
        except Exception:
            log.exception("the sender failed; it goes on")

    def _set_timer(self, at_ms: float) -> None:
        if self._timer is not None:
            # One that is early enough does: it looks again.
            if self._timer_ms <= at_ms:
                return
            self._timer.cancel()
            self._timer = None
        self._timer_ms = at_ms
        if at_ms < FOREVER:
            self._timer = self._loop.call_at(at_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        # Timers of a loop may be a little early; then the pass sets another.
        self._timer = None
        self.wake()
