"""Waits of threads that Ctrl-C can end.

The handler of a signal runs when the interpreter next checks for signals. A signal that arrives after the last check
and before the operating system's wait begins does not end the wait, nor does one that the kernel delivers to another
thread. So a waiting thread wakes periodically, and the interpreter checks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

LOOK_SECONDS: Final = 0.25


def slices(timeout_seconds: float | None) -> Iterator[float]:
    """How long to wait, again and again until the time is over; at least once, and for ever without a timeout."""
    if timeout_seconds is None:
        while True:
            yield LOOK_SECONDS
    deadline = time.monotonic() + timeout_seconds
    yield min(LOOK_SECONDS, max(0.0, timeout_seconds))
    while (left := deadline - time.monotonic()) > 0:
        yield min(LOOK_SECONDS, left)
