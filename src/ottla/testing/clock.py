"""The clock of a broker under test: it can be stopped, moved and set.

What the broker does by its clock (sessions, transaction timeouts, retention, expiry, delayed answers) happens when the
clock says so. The clocks of clients are their own.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from ottla.durations import Duration, seconds_of
from ottla.errors import ConfigError
from ottla.ports import Clock

# How often delays look whether a test has moved the clock.
CHECK_SECONDS: Final = 0.005
# The end of the year 9999, after which there is no datetime.
LAST_SECOND: Final = 253_402_300_800.0


class MovableClock:
    """Real time until a test stops or moves it. It may be read from any thread.

    `shift` and `set_wall` only change what is read; `ottla.testing.BrokerClock` also has the broker do what is due.
    """

    def __init__(
        self,
        wall_seconds: Callable[[], float] = time.time,
        monotonic_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._real_wall = wall_seconds
        self._real_monotonic = monotonic_seconds
        self._wall_offset = 0.0
        self._monotonic_offset = 0.0
        # What both clocks showed when they were stopped.
        self._stopped: tuple[float, float] | None = None
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        """Wall-clock milliseconds since 1970."""
        return int(self._wall() * 1000)

    def monotonic_seconds(self) -> float:
        """How much time has passed, which setting the wall clock does not change."""
        stopped = self._stopped
        return self._real_monotonic() + self._monotonic_offset if stopped is None else stopped[1]

    def _wall(self) -> float:
        stopped = self._stopped
        return self._real_wall() + self._wall_offset if stopped is None else stopped[0]

    @property
    def is_frozen(self) -> bool:
        return self._stopped is not None

    def freeze(self) -> None:
        """Stops the clock; from now on it only moves when it is moved."""
        with self._lock:
            if self._stopped is None:
                self._stopped = (self._wall(), self.monotonic_seconds())

    def resume(self) -> None:
        """Lets the clock go on from where it stands."""
        with self._lock:
            if self._stopped is not None:
                wall, monotonic = self._stopped
                self._wall_offset = wall - self._real_wall()
                self._monotonic_offset = monotonic - self._real_monotonic()
                self._stopped = None

    def shift(self, seconds: float) -> None:
        """Moves both clocks on."""
        with self._lock:
            if self._stopped is not None:
                wall, monotonic = self._stopped
                self._stopped = (wall + seconds, monotonic + seconds)
            else:
                self._wall_offset += seconds
                self._monotonic_offset += seconds

    def reset(self) -> None:
        """Real time again; how much time has passed is not taken back."""
        self.resume()
        with self._lock:
            self._wall_offset = 0.0

    def set_wall(self, seconds: float) -> None:
        """Sets the wall clock, as an administrator does: no time passes."""
        with self._lock:
            if self._stopped is not None:
                self._stopped = (seconds, self._stopped[1])
            else:
                self._wall_offset = seconds - self._real_wall()


async def wait_by(clock: Clock, seconds: Callable[[], float]) -> None:
    """Waits by a clock that a test may stop and move, as long as is said; a fault that ends takes its delay along."""
    began = clock.monotonic_seconds()
    while clock.monotonic_seconds() < began + seconds():
        await asyncio.sleep(CHECK_SECONDS)


def wall_seconds_of(moment: datetime | str | float) -> float:
    """A moment as seconds since 1970: a datetime with a time zone, ISO 8601 text, or the seconds themselves."""
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError as error:
            raise ConfigError(f"{moment!r} is no time: write 2026-01-31T12:00:00+00:00") from error
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ConfigError("a datetime needs a time zone: datetime(..., tzinfo=UTC)")
        moment = moment.timestamp()
    if type(moment) not in (int, float) or not 0 <= moment < LAST_SECOND:
        raise ConfigError(f"{moment!r} is no time between 1970 and 9999")
    return float(moment)


class BrokerClock:
    """The clock of a broker, in the hands of a test.

    broker.clock.freeze()
    broker.clock.advance("10m")     # sessions and transactions whose time is over have ended when this returns
    """

    def __init__(self, clock: MovableClock, move: Callable[[Callable[[], None]], None]) -> None:
        self._clock = clock
        # Changes the clock on the broker's thread, and has the broker do what is due then.
        self._move = move

    @property
    def now(self) -> datetime:
        """What the broker's wall clock shows."""
        return datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)

    @property
    def is_frozen(self) -> bool:
        """Whether the clock only moves when it is moved."""
        return self._clock.is_frozen

    def freeze(self) -> None:
        """Stops the clock; `advance` and `set` move it, `resume` lets it go on."""
        self._clock.freeze()

    def resume(self) -> None:
        """Lets a stopped clock go on from where it stands."""
        self._clock.resume()

    def reset(self) -> None:
        """Lets the clock go on and show real time. What `advance` ended stays ended."""
        self._clock.reset()

    def advance(self, duration: Duration) -> None:
        """Lets time pass at once; returns when the broker has done all that was due."""
        seconds = seconds_of(duration)
        if self._clock.now_ms() / 1000 + seconds >= LAST_SECOND:
            raise ConfigError(f"a duration of {duration!r} ends after the year 9999")
        self._move(lambda: self._clock.shift(seconds))

    def set(self, moment: datetime | str | float) -> None:
        """Sets the wall clock, forwards or back: retention and timestamps follow, sessions and timeouts do not."""
        seconds = wall_seconds_of(moment)
        self._move(lambda: self._clock.set_wall(seconds))
