"""The command in a process that a test talks to while it runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from tests.broker.requests import eventually

END_SECONDS = 30


class Running:
    """A process of the command; what it writes is read line by line."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    @property
    def stdin(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin

    def line(self) -> bytes:
        """The next line of stdout; waits for it."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end_by(self, number: signal.Signals) -> tuple[int, str]:
        """Send a signal: the exit code, and what there is on stderr."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=END_SECONDS)
        return self.process.returncode, errors.decode()


@contextmanager
def running(servers: str, *arguments: str) -> Iterator[Running]:
    """`ottla …` with pipes, which ends with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OTTLA_BOOTSTRAP_SERVER": servers},
    )
    try:
        with process:
            try:
                yield Running(process)
            finally:
                process.kill()
    finally:
        process.wait()


__all__ = ["Running", "eventually", "running"]
