"""A clock that counts while the machine sleeps, for deadlines of leases."""

from __future__ import annotations

import time


def boot_seconds() -> float:
    """Seconds of a clock that is never set, and is not stopped by a suspension where the system has such a clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)
