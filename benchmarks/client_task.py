"""What a client program is told, and what it measures: it is a process of its own."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

VALUE_BYTES = 100
# How many records between two looks at the clock, and in one call of those that take or give many.
CHUNK = 500
POLL_SECONDS = 10.0
FLUSH_SECONDS = 60.0


class Task(NamedTuple):
    """Where to work, for how long, and how many records there are to be read."""

    bootstrap_server: str
    topic: str
    seconds: float
    records: int


class Done(NamedTuple):
    """What was done, and the processor time of this process meanwhile."""

    records: int
    seconds: float
    cpu_seconds: float


Program = Callable[[Task], Done]


class Stopwatch:
    """Time and processor time since it was made, and whether it is time to stop."""

    def __init__(self, seconds: float) -> None:
        self._cpu = self._cpu_seconds()
        self._started = time.perf_counter()
        self._end = self._started + seconds

    def is_over(self) -> bool:
        return time.perf_counter() >= self._end

    def done(self, records: int) -> Done:
        elapsed = time.perf_counter() - self._started
        return Done(records, elapsed, self._cpu_seconds() - self._cpu)

    @staticmethod
    def _cpu_seconds() -> float:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime


def run_program(programs: Mapping[str, Program]) -> None:
    """The main function of a module of programs; prints a line of JSON."""
    name, bootstrap_server, topic, seconds, records = sys.argv[1:]
    done = programs[name](Task(bootstrap_server, topic, float(seconds), int(records)))
    print(json.dumps(done._asdict()))
