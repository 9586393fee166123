"""`ottla serve` as a process that can be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final

from ottla.errors import OttlaError

_WAIT_SECONDS: Final = 30


class BrokerProcess:
    """A broker with its data in a folder, or in the storage that options name; it keeps its address over restarts."""

    def __init__(
        self, folder: str, name: str = "broker", storage: Sequence[str] | None = None
    ) -> None:
        self._storage = storage or ["--data", os.path.join(folder, "data")]
        self.address = "127.0.0.1:0"
        self._log = os.path.join(folder, f"{name}.log")
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> float:
        """Start and wait until clients can connect; returns the seconds that took."""
        began = time.monotonic()
        command = [sys.executable, "-m", "ottla", "serve", "--listen", self.address]
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [*command, *self._storage],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C reaches only the parent
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("listening on "):
            with open(self._log, encoding="utf-8") as log_text:
                raise OttlaError(f"the broker did not start: {log_text.read()[-2000:]}")
        self.address = line.removeprefix("listening on ").strip()
        return time.monotonic() - began

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._process.kill()
        self._end()

    def pause(self) -> None:
        """SIGSTOP: the process stands still, as on a machine that sleeps."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    @property
    def is_running(self) -> bool:
        """Whether the process was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> int:
        """Send SIGTERM; returns the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._end()

    def _end(self) -> int:
        assert self._process is not None
        code = self._process.wait(_WAIT_SECONDS)
        if self._process.stdout is not None:
            self._process.stdout.close()
        return code
