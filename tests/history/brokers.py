"""The broker of a run as a process: one node (`ottla serve`), or three that leaders move between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from tests.faults.processes import first_of_free_ports
from tests.history.proxy import Route

import ottla
from ottla.broker.crashpoints import CrashPoint
from ottla.model import Endpoint
from ottla.testing.crash_injection import DIED_AT

ROOT = Path(__file__).parents[2]
SOURCES = Path(ottla.__file__).parents[1]
# Clients that spin while there is no broker leave it little of two cores to start on.
START_SECONDS = 90.0
# What a death at a crash point is called in reports.
DIED = "died "

SWEEP_MS = 1_000
OPTIONS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": SWEEP_MS,
    "transaction.state.log.num.partitions": 5,
    "offsets.topic.num.partitions": 5,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1_000,
    # Small segments and snapshots after every restart: recovery has something to do.
    "log.segment.bytes": 65_536,
}


def environment() -> dict[str, str]:
    """That of every process of a run: it finds `ottla` and `tests`."""
    paths = [str(SOURCES), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


class BrokerProcess:
    """A broker to kill, to stop for a while and to start again; its clients connect to the proxy."""

    node_count = 1
    # What the process is that was started.
    started = "broker"

    def __init__(self, folder: Path) -> None:
        ports = first_of_free_ports(2 * self.node_count)
        self.routes = [
            Route(
                Endpoint("127.0.0.1", ports + self.node_count + number),
                Endpoint("127.0.0.1", ports + number),
            )
            for number in range(self.node_count)
        ]
        self.log_path = folder / "broker.log"
        self.data = folder / "data"
        self.starts = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """What clients are given: the proxy."""
        return ",".join(str(route.listen) for route in self.routes)

    @property
    def direct_addresses(self) -> list[str]:
        """The broker itself, past the proxy."""
        return [str(route.broker) for route in self.routes]

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _module(self, crash: tuple[CrashPoint, int] | None) -> list[str]:
        """What is run, up to `serve`."""
        if crash is None:
            return ["ottla"]
        return ["ottla.testing.crash_injection", crash[0].name, str(crash[1])]

    def _command(self, crash: tuple[CrashPoint, int] | None) -> list[str]:
        (route,) = self.routes
        options = [part for item in OPTIONS.items() for part in ("--set", f"{item[0]}={item[1]}")]
        return [
            *(sys.executable, "-m", *self._module(crash), "serve", "--data", str(self.data)),
            *("--listen", str(route.broker), "--advertise", str(route.listen), *options),
        ]

    def start(self, crash: tuple[CrashPoint, int] | None = None) -> None:
        """Starts, to die at a crash point if one is given; returns when it listens or is dead."""
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(crash),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment(),
                cwd=ROOT,
            )
        self.starts += 1
        assert self._process.stdout is not None
        watchdog = threading.Timer(START_SECONDS, self._process.kill)
        watchdog.start()
        line = self._process.stdout.readline()
        watchdog.cancel()
        if not line.startswith("listening on ") and crash is None:
            log_text = self.log_path.read_text(encoding="utf-8")
            raise AssertionError(f"the broker did not start: {line!r}\n{log_text[-3000:]}")

    def kill(self) -> None:
        """kill -9, at whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                # What could not be written to a dead process is tried once more by close.
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()
            self._process = None

    def finish(self) -> None:
        """Checks what else has to be right at the end of a run, when no client is left."""

    def end(self) -> None:
        """Leaves nothing behind that runs."""
        self.kill()

    def counts(self) -> dict[str, int]:
        """What else has happened how often."""
        return {}

    def freeze(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT later."""
        process = self._process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        process.send_signal(signal.SIGCONT)


class WorkerProcesses(BrokerProcess):
    """A supervisor and two workers; crash points are those of each process of a worker."""

    node_count = 3  # the common port, and one for each worker
    worker_count = 2
    started = "supervisor"

    @property
    def bootstrap_servers(self) -> str:
        return str(self.routes[0].listen)

    @property
    def direct_addresses(self) -> list[str]:
        return [str(route.broker) for route in self.routes[1:]]

    def _module(self, crash: tuple[CrashPoint, int] | None) -> list[str]:
        return ["tests.history.workers", *_crash_arguments(crash)]

    def _command(self, crash: tuple[CrashPoint, int] | None) -> list[str]:
        first = self.routes[0]
        options = [part for item in OPTIONS.items() for part in ("--set", f"{item[0]}={item[1]}")]
        return [
            *(sys.executable, "-m", *self._module(crash), "serve", "--data", str(self.data)),
            *("--listen", str(first.broker), "--advertise", str(first.listen)),
            *("--workers", str(self.worker_count), *options),
        ]

    def counts(self) -> dict[str, int]:
        log = self.log_path.read_text(encoding="utf-8")
        deaths = {
            f"{DIED}{point.name}": count
            for point in CrashPoint
            if (count := log.count(f"{DIED_AT}{point.name}\n"))
        }
        return {
            "worker starts": log.count(" serves, as process "),
            "workers taken for hung": log.count("its loop did not turn for "),
            **deaths,
        }

    @property
    def supervisor(self) -> int:
        """The process id of the supervisor."""
        assert self._process is not None
        return self._process.pid

    def workers(self) -> list[int]:
        """The process ids of the workers that run now."""
        path = Path(f"/proc/{self.supervisor}/task/{self.supervisor}/children")
        return [int(pid) for pid in path.read_text(encoding="ascii").split()]


class MutantProcess(BrokerProcess):
    """A broker with a bug (`tests.history.mutants`)."""

    mutant = ""

    def _module(self, crash: tuple[CrashPoint, int] | None) -> list[str]:
        return ["tests.history.mutants", self.mutant, *_crash_arguments(crash)]


class MutantWorkers(WorkerProcesses):
    """A supervisor and workers, each with the bug."""

    mutant = ""

    def _module(self, crash: tuple[CrashPoint, int] | None) -> list[str]:
        return ["tests.history.mutants", self.mutant, *_crash_arguments(crash)]


def _crash_arguments(crash: tuple[CrashPoint, int] | None) -> list[str]:
    return [] if crash is None else [crash[0].name, str(crash[1])]


class ThreeNodes(BrokerProcess):
    """Three nodes in one process (`tests.history.nodes`), which is told what to do line by line."""

    node_count = 3

    def _command(self, crash: tuple[CrashPoint, int] | None) -> list[str]:
        first = self.routes[0]
        settings = {
            "listen": str(first.broker),
            "advertise": str(first.listen),
            "data_dir": str(self.data),
            "options": OPTIONS,
            "crash": None if crash is None else [crash[0].name, crash[1]],
        }
        return [sys.executable, "-m", "tests.history.nodes", json.dumps(settings)]

    def tell(self, *command: str | int) -> str:
        """Has the process do something; what it says, or that it is dead."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return "dead"
        try:
            process.stdin.write(json.dumps(command) + "\n")
            process.stdin.flush()
        except OSError:
            return "dead"
        return process.stdout.readline().strip() or "dead"
