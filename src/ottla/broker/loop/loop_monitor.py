"""Times that the event loop was held: the metric `ottla_loop_held_seconds_max`, the event `loop_held` (ADR 0033), and
what the console draws (ADR 0058).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.events import EventLog

logger = EventLog(__name__)

# The period of the timer that measures; a hold may have begun up to one period earlier than measured.
PERIOD_SECONDS: Final = 0.02
# When clients have sent nothing for a while: a processor that sleeps is seldom woken for nothing.
QUIET_PERIOD_SECONDS: Final = 0.1
QUIET_AFTER_SECONDS: Final = 1.0
# The metric is the worst of this window and the one before: a scrape per window misses nothing.
WINDOW_SECONDS: Final = 60.0
LOGGED_SECONDS: Final = 0.1
LOG_INTERVAL_SECONDS: Final = 10.0
# The worst of each interval of the last hour, and the newest holds that were longer than usual.
INTERVAL_SECONDS: Final = 10.0
KEPT_INTERVALS: Final = 360
KEPT_HOLD_SECONDS: Final = 0.02
KEPT_HOLDS: Final = 200


class Hold(NamedTuple):
    """How long the loop was held; `at` is when that was noticed, or the end of the interval whose worst it is."""

    at: float
    seconds: float


class LoopHolds:
    """The longest times that a loop was held, and when they are logged; callers pass the time in."""

    def __init__(self, now: float) -> None:
        self._window_end = now + WINDOW_SECONDS
        self._worst = self._worst_before = 0.0
        self._log_after = now
        self._unlogged: list[float] = []
        self._interval_end = now + INTERVAL_SECONDS
        self._worst_of_interval = 0.0
        self._intervals: deque[Hold] = deque(maxlen=KEPT_INTERVALS)
        self.long_ones: deque[Hold] = deque(maxlen=KEPT_HOLDS)
        """The newest that were longer than usual, the oldest first."""

    def add(self, held: float, now: float) -> None:
        """Records a time, and logs it if it was long."""
        self._turn_window(now)
        self._end_intervals(now)
        self._worst = max(self._worst, held)
        self._worst_of_interval = max(self._worst_of_interval, held)
        if held >= KEPT_HOLD_SECONDS:
            self.long_ones.append(Hold(now, held))
        if held >= LOGGED_SECONDS:
            self._unlogged.append(held)
        if self._unlogged and now >= self._log_after:
            self._log_after = now + LOG_INTERVAL_SECONDS
            self._log()

    def worst(self, now: float) -> float:
        """The worst of the last one to two windows."""
        self._turn_window(now)
        return max(self._worst, self._worst_before)

    def intervals(self, now: float) -> list[Hold]:
        """The worst of each interval of the last hour, the oldest first; the last one has not ended."""
        self._end_intervals(now)
        return [*self._intervals, Hold(now, self._worst_of_interval)]

    def _end_intervals(self, now: float) -> None:
        # After a pause of the machine only the last hour counts.
        missed = int((now - self._interval_end) / INTERVAL_SECONDS) - KEPT_INTERVALS
        if missed > 0:
            self._interval_end += missed * INTERVAL_SECONDS
        while now >= self._interval_end:
            self._intervals.append(Hold(self._interval_end, self._worst_of_interval))
            self._worst_of_interval = 0.0
            self._interval_end += INTERVAL_SECONDS

    def _turn_window(self, now: float) -> None:
        if now < self._window_end:
            return
        is_next = now < self._window_end + WINDOW_SECONDS
        self._worst_before = self._worst if is_next else 0.0
        self._worst = 0.0
        self._window_end = now + WINDOW_SECONDS

    def _log(self) -> None:
        logger.warning(
            "loop_held",
            "the event loop was held for %(seconds).3f s, %(times)d time(s) beyond %(limit_ms)d ms "
            "since the last such line: all clients waited",
            seconds=round(max(self._unlogged), 3),
            times=len(self._unlogged),
            limit_ms=round(LOGGED_SECONDS * 1000),
        )
        self._unlogged.clear()


class LoopMonitor:
    """Watches the loop that it is started on: a timer that is late was held up by callbacks.

    The time in which the thread waited for a processor does not count: that is the load of the machine.
    """

    def __init__(self, received_bytes: Callable[[], int]) -> None:
        """`received_bytes` returns the number of bytes that clients have sent so far."""
        self._received_bytes = received_bytes
        self._last_received_bytes = 0
        self._quiet_from = 0.0
        self.holds = LoopHolds(time.monotonic())
        self._processor_wait: ProcessorWait | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = self._waited = 0.0

    @property
    def held_seconds_max(self) -> float:
        """The longest that the loop was held in the last one to two minutes."""
        return self.holds.worst(time.monotonic())

    def start(self) -> None:
        """Begins, on the running loop."""
        self._processor_wait = ProcessorWait()
        self._schedule(asyncio.get_running_loop())

    def stop(self) -> None:
        """Ends; what was found stays."""
        if self._timer is not None and self._processor_wait is not None:
            self._timer.cancel()
            self._processor_wait.close()
            self._timer = self._processor_wait = None

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self._processor_wait is not None
        now = time.monotonic()
        received_bytes = self._received_bytes()
        if received_bytes != self._last_received_bytes:
            self._last_received_bytes = received_bytes
            self._quiet_from = now + QUIET_AFTER_SECONDS
        period = PERIOD_SECONDS if now < self._quiet_from else QUIET_PERIOD_SECONDS
        self._waited = self._processor_wait.seconds()
        self._due = now + period
        self._timer = loop.call_later(period, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self._processor_wait is not None
        now = time.monotonic()
        late = now - self._due
        if late > 0.0:
            waited = self._processor_wait.seconds() - self._waited
            self.holds.add(max(late - waited, 0.0), now)
        self._schedule(loop)


class ProcessorWait:
    """The time in which this thread was ready to run and had no processor; 0 where the system does not report it."""

    def __init__(self) -> None:
        self._file: int | None
        try:
            # The file is of the thread that opens it, whichever thread reads it.
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = None

    def seconds(self) -> float:
        if self._file is None:
            return 0.0
        # Nanoseconds on a processor, nanoseconds of waiting for one, how often it was given one.
        return int(os.pread(self._file, 64, 0).split()[1]) / 1e9

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
