"""Time and identifiers, which tests and the simulator replace."""

from __future__ import annotations

import uuid
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall-clock milliseconds since the epoch."""
        ...

    def monotonic_seconds(self) -> float:
        """Seconds of a clock that is never set: only differences have a meaning."""
        ...


def monotonic_ms(clock: Clock) -> int:
    """Time for waits and intervals, in milliseconds: they would not end if the wall clock were set back."""
    return int(clock.monotonic_seconds() * 1000)


class Ids(Protocol):
    def topic_id(self) -> uuid.UUID: ...

    def member_id(self) -> uuid.UUID:
        """The unique part of a group member's id."""
        ...

    def session_id(self) -> int:
        """A random positive 31-bit number."""
        ...
