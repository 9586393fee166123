"""`ottla serve` as a process that is killed and started again, always on the same port."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla.broker.crashpoints import CrashPoint

START_SECONDS = 30.0
# Below the ports that the system gives to clients, and a share for each worker of a test run: nobody takes a port while
# its broker is down.
FIRST_PORT, WORKER_PORTS, SHARES = 12_000, 2_250, 8


def first_of_free_ports(count: int) -> int:
    """The first of several ports in a row that nobody listens on."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    own = FIRST_PORT + worker % SHARES * WORKER_PORTS
    while True:
        first = random.SystemRandom().randrange(own, own + WORKER_PORTS - count)
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first


def free_port() -> int:
    """A port that nobody listens on."""
    return first_of_free_ports(1)


def fault_rng() -> random.Random:
    """The randomness of a test; the seed is printed, and OTTLA_FAULT_SEED sets it."""
    seed = int(os.environ.get("OTTLA_FAULT_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"OTTLA_FAULT_SEED={seed}")
    return random.Random(seed)


class BrokerProcess:
    """A broker with its data in a folder; the process is ours, and it is always reaped."""

    def __init__(self, folder: Path, **options: object) -> None:
        self.data = folder / "data"
        self.log = folder / "broker.log"
        self.address = f"127.0.0.1:{free_port()}"
        self.starts = 0
        # Where the next start is to kill itself, and at the how many-th time that it gets there.
        self.crash_at: tuple[CrashPoint, int] | None = None
        self._options = [f"{name.replace('_', '.')}={value}" for name, value in options.items()]
        self._process: subprocess.Popen[str] | None = None

    def launch(self) -> None:
        """Starts the process and does not wait until it serves."""
        assert self._process is None, "one at a time"
        command = [sys.executable, "-m", *self._program(), "serve", "--listen", self.address]
        command += ["--data", str(self.data)]
        for option in self._options:
            command += ["--set", option]
        command += self._arguments()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self.starts += 1

    def _program(self) -> list[str]:
        if self.crash_at is None:
            return ["ottla"]
        (point, count), self.crash_at = self.crash_at, None
        return ["ottla.testing.crash_injection", point.name, str(count)]

    def _arguments(self) -> list[str]:
        """What else the command line has."""
        return []

    def start(self) -> float:
        """Starts and waits for the `listening on` line; answers the seconds that took."""
        began = time.monotonic()
        self.launch()
        assert self._process is not None
        assert self._process.stdout is not None
        watchdog = threading.Timer(START_SECONDS, self._process.kill)
        watchdog.start()
        line = self._process.stdout.readline()
        watchdog.cancel()
        watchdog.join()
        if line.strip() != f"listening on {self.address}":
            self.kill()
            raise AssertionError(f"the broker did not start: {line!r}\n{self.log_text()[-4000:]}")
        return time.monotonic() - began

    def kill(self) -> None:
        """kill -9, at whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._reap()

    def has_crashed(self) -> bool:
        """Whether the process has killed itself; it is reaped then."""
        assert self._process is not None
        if self._process.poll() is None:
            return False
        code = self._reap()
        assert code == -signal.SIGKILL, f"it ended with {code}\n{self.log_text()[-4000:]}"
        return True

    def stop(self) -> int:
        """SIGTERM; answers the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._reap()

    def _reap(self) -> int:
        assert self._process is not None
        process, self._process = self._process, None
        try:
            return process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            if process.stdout is not None:
                process.stdout.close()

    def log_text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            print(self.log_text()[-6000:])
        self.kill()
