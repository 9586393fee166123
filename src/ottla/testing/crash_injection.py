"""Runs `ottla serve` so that it kills itself at a crash point.

    python -m ottla.testing.crash_injection BEFORE_PREPARE_APPEND 3 serve --data DIR

dies by SIGKILL when it reaches that point for the third time, after a line on stderr that says so. With `--workers`
every process of a worker does. With `once` before the name of the point, the processes count together, so that one of
them dies, once:

    python -m ottla.testing.crash_injection once AFTER_MARKERS_SENT 3 serve --data DIR --workers 2
"""

from __future__ import annotations

import mmap
import os
import signal
import struct
import sys

from ottla.broker import crashpoints
from ottla.broker.crashpoints import CrashPoint

ONCE = "once"
DIED_AT = "died at the crash point "
_COUNT = struct.Struct("q")


def crash_at(wanted: CrashPoint, count: int) -> None:
    """Kill this process when it reaches the point for the `count`th time; each of its forks counts anew."""
    left = count

    def listen(point: CrashPoint) -> None:
        nonlocal left
        if point is wanted:
            left -= 1
            if left == 0:
                _die(point)

    crashpoints.listener = listen


def crash_once_at(wanted: CrashPoint, count: int) -> None:
    """Kill this process, or that of its forks which reaches the point when all have done so `count` times."""
    shared = mmap.mmap(-1, _COUNT.size)
    _COUNT.pack_into(shared, 0, count)

    def listen(point: CrashPoint) -> None:
        if point is wanted:
            (left,) = _COUNT.unpack_from(shared)
            _COUNT.pack_into(shared, 0, left - 1)
            if left == 1:
                _die(point)

    crashpoints.listener = listen


def _die(point: CrashPoint) -> None:
    os.write(sys.stderr.fileno(), f"{DIED_AT}{point.name}\n".encode())
    os.kill(os.getpid(), signal.SIGKILL)


def main(arguments: list[str]) -> int:
    from ottla.cli.main import main as ottla

    arm = crash_at
    if arguments[0] == ONCE:
        arm, arguments = crash_once_at, arguments[1:]
    name, count, *rest = arguments
    arm(CrashPoint[name], int(count))
    return ottla(rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
