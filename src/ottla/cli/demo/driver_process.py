"""The driver of the demo's pipeline as a process that can be killed, with all its child processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

_STOP_SECONDS: Final = 60
_KILL_SECONDS: Final = 10


class DriverProcess:
    """`ottla pipeline run` of the demo's pipeline."""

    def __init__(self, folder: Path, address: str) -> None:
        self._folder = folder
        self._address = address
        self.log = folder / "driver.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the driver; it continues where the former one was killed."""
        command = [sys.executable, "-m", "ottla", "pipeline", "run", "ottla.cli.demo.pipeline"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "-b", self._address, "--master", "local[2]"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                start_new_session=True,
            )

    @property
    def has_ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def kill(self) -> None:
        """kill -9 of the driver, its Java and their Python workers at once, as when a machine fails."""
        assert self._process is not None
        # The driver and Java at once; then the workers, which have process groups of their own.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for pid in _session(self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(_KILL_SECONDS)

    def stop(self) -> None:
        """SIGTERM; kill -9 if the driver does not end."""
        if self._process is None or self.has_ended:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def log_tail(self) -> str:
        """The end of its log."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        return text[-3000:]


def _session(leader: int) -> list[int]:
    """The processes of a session, whatever their parents are."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,sid="], capture_output=True, text=True, check=True
    )
    pairs = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
    return [pid for pid, session in pairs if session == leader]
