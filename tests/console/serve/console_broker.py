"""`ottla serve --console` as a process, and the process that serves its console."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import httpx
from tests.broker.processes import ServeProcess
from tests.waiting import in_time

SECONDS = 30.0
CONSOLE_AT = "console at "


class ConsoleBroker(ServeProcess):
    """A broker with a console, on free ports unless they are given."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.url = ""

    def start_with_console(self, *arguments: str, console: str = "127.0.0.1:0") -> None:
        """Starts and waits until browsers can connect."""
        self.start("--console", console, *arguments)
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith(CONSOLE_AT), (line, self.log)
        self.url = line.removeprefix(CONSOLE_AT).strip()

    def get(self, path: str, **options: Any) -> httpx.Response:
        """What the console answers; connections wait while it is started again."""
        return httpx.get(f"{self.url}{path}", trust_env=False, timeout=SECONDS, **options)

    def console_pid(self) -> int:
        """The process that serves the console now."""
        (pid,) = children_of(self.pid)
        return pid

    def next_console_pid(self, before: int) -> int:
        """The process that comes after another."""
        deadline = time.monotonic() + SECONDS
        while not (found := [pid for pid in children_of(self.pid) if pid != before]):
            in_time(deadline, "another process of the console")
            time.sleep(0.02)
        return found[0]


def children_of(pid: int) -> list[int]:
    """The processes that a process has started, but for those that have ended."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if int(parent) == pid and state != "Z":
                found.append(int(folder.name))
    return found


def wait_for_end(pid: int, seconds: float) -> None:
    """Returns as soon as a process has ended."""
    deadline = time.monotonic() + seconds
    while is_there(pid):
        in_time(deadline, f"the end of process {pid}")
        time.sleep(0.01)


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def is_stopped(pid: int) -> bool:
    """Whether a process got SIGSTOP."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def stop_process(pid: int) -> None:
    """SIGSTOP, from which a process answers nothing."""
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + SECONDS
    while not is_stopped(pid):
        in_time(deadline, "the process to stop")
        time.sleep(0.01)
