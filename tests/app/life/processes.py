"""Processes that tests start, whose lines they wait for."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

ROOT = Path(__file__).parents[3]
PATIENCE_SECONDS = 30.0


class Process:
    """A process whose output of both streams is read line by line."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        paths = [str(ROOT / "src"), str(ROOT)]
        self.lines: list[str] = []
        self._arrived: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._popen = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(paths),
                "PYTHONDONTWRITEBYTECODE": "1",
                # Workers share one pipe: unbuffered, they would mix the words of their lines.
                "PYTHONUNBUFFERED": "",
                **(environment or {}),
            },
        )
        assert self._popen.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._popen.stdout,), daemon=True)
        self._reader.start()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            self._arrived.put(line.rstrip("\n"))
        self._arrived.put(None)

    @property
    def pid(self) -> int:
        return self._popen.pid

    def wait_for(self, *texts: str) -> str:
        """The next line that has all texts."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                line = self._arrived.get(timeout=max(deadline - time.monotonic(), 0))
            except queue.Empty:
                raise TimeoutError(f"no line with {texts}: {self.lines}") from None
            if line is None:
                raise AssertionError(f"it ended without a line with {texts}: {self.lines}")
            self.lines.append(line)
            if all(text in line for text in texts):
                return line

    def send(self, number: signal.Signals) -> None:
        self._popen.send_signal(number)

    def end(self) -> int:
        """Wait for the end; the exit code."""
        code = self._popen.wait(PATIENCE_SECONDS)
        self._reader.join(PATIENCE_SECONDS)
        while (line := self._arrived.get()) is not None:
            self.lines.append(line)
        return code

    def has_line(self, *texts: str) -> bool:
        return any(all(text in line for text in texts) for line in self.lines)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._popen.poll() is None:
            self._popen.kill()
            self._popen.wait()
        self._reader.join(PATIENCE_SECONDS)
        assert self._popen.stdout is not None
        self._popen.stdout.close()


def ottla(*words: str, folder: Path | None = None, **environment: str) -> Process:
    """The `ottla` command in a process."""
    return Process(
        [sys.executable, "-W", "error", "-m", "ottla", *words],
        folder=folder,
        environment=environment,
    )
