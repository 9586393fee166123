"""Runs `ottla serve` so that it kills itself at a crash point.

    python -m ottla.testing.crash_injection BEFORE_PREPARE_APPEND 3 serve --data DIR

dies by SIGKILL when it reaches that point for the third time.
"""

from __future__ import annotations

import os
import signal
import sys

from ottla.broker import crashpoints
from ottla.broker.crashpoints import CrashPoint


def crash_at(wanted: CrashPoint, count: int) -> None:
    """Kill this process when it reaches the point for the `count`th time."""
    left = count

    def listen(point: CrashPoint) -> None:
        nonlocal left
        if point is wanted:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    crashpoints.listener = listen


def main(arguments: list[str]) -> int:
    from ottla.cli.main import main as ottla

    name, count, *rest = arguments
    crash_at(CrashPoint[name], int(count))
    return ottla(rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
