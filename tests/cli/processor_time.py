"""What a command costs, whatever else the machine does and however fast it is."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable

RUNS = 3


def assert_cheap(run: Callable[[], bool], seconds: float, *, bare_starts: int) -> None:
    """Sees that a run needs little processor time, or no more than so many starts of Python with nothing to do."""
    used = _processor_seconds(run)
    if used >= seconds:
        bare = _processor_seconds(_start_python)
        assert used < bare_starts * bare, f"it needs {used:.3f} s, and Python alone {bare:.3f} s"


def _start_python() -> bool:
    return subprocess.run([sys.executable, "-c", "pass"], check=False).returncode == 0


def _processor_seconds(run: Callable[[], bool]) -> float:
    """Of the processes that a run waits for; the least of several runs."""
    found = []
    for _ in range(RUNS):
        before = _of_children()
        assert run()
        found.append(_of_children() - before)
    return min(found)


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
