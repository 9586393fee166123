"""`ottla serve --workers` as its operators and clients meet it."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.broker.processes import ServeProcess
from tests.waiting import in_time

WAIT_SECONDS = 30.0

Event = dict[str, Any]
IMPATIENT = """
import sys
from ottla.broker.workers.supervisor import Supervisor
from ottla.cli.main import main
Supervisor.__init__.__kwdefaults__["hang_seconds"] = 2.0
sys.exit(main())
"""
WITH_A_THREAD = """
import sys, threading, time
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
from ottla.cli.main import main
sys.exit(main())
"""
# The third fork is that of a worker that has died.
WITHOUT_A_FORK = """
import errno, itertools, os, sys
from ottla.cli.main import main
forks = itertools.count(1)
def fork(fork=os.fork):
    if next(forks) == 3:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
    return fork()
os.fork = fork
sys.exit(main())
"""


class ServingWorkers(ServeProcess):
    """A supervisor with workers, whose log is JSON."""

    def begin(self, workers: int | str, *arguments: str) -> None:
        self.start("--workers", str(workers), "--log-format", "json", *arguments)

    @property
    def events(self) -> list[Event]:
        *lines, _ = self.log.split("\n")  # the last one may be half written
        return [json.loads(line) for line in lines]

    def told(self, event: str, **fields: Any) -> list[Event]:
        return [
            each
            for each in self.events
            if each["event"] == event and fields.items() <= each.items()
        ]

    def wait_for(self, event: str, count: int = 1, **fields: Any) -> Event:
        """The last of so many events of this name with these fields."""
        deadline = time.monotonic() + WAIT_SECONDS
        while len(found := self.told(event, **fields)) < count:
            in_time(deadline, f"no {event} with {fields} in {self.log}")
            time.sleep(0.02)
        return found[count - 1]

    def children(self) -> list[int]:
        """The processes that the supervisor has started, and their like; on Linux."""
        assert self._process is not None
        tasks = Path(f"/proc/{self._process.pid}/task")
        return [
            int(pid)
            for task in tasks.iterdir()
            for pid in (task / "children").read_text(encoding="ascii").split()
        ]

    def pid_of(self, node_id: int) -> int:
        """The newest process of a node."""
        return int(self.told("worker_started", node=node_id)[-1]["pid"])

    def addresses(self) -> dict[int, str]:
        """Where each node listens alone."""
        found = self.wait_for("workers_listen")["addresses"].split(", ")
        return dict(enumerate(found, start=1))

    def kill_worker(self, node_id: int, number: signal.Signals = signal.SIGKILL) -> None:
        os.kill(self.pid_of(node_id), number)


class ImpatientSupervisor(ServingWorkers):
    """One that waits only two seconds for a sign of life."""

    def _program(self) -> list[str]:
        return ["-c", IMPATIENT]


class SupervisorWithoutAFork(ServingWorkers):
    """One whose third fork the system refuses."""

    def _program(self) -> list[str]:
        return ["-c", WITHOUT_A_FORK]


class WorkersOfThreads(ServingWorkers):
    """A supervisor with another thread: its workers are interpreters of their own, and no forks."""

    def _program(self) -> list[str]:
        return ["-c", WITH_A_THREAD]


@contextmanager
def serving_workers(folder: Path, workers: int | str, *arguments: str) -> Iterator[ServingWorkers]:
    broker = ServingWorkers(folder)
    try:
        broker.begin(workers, *arguments)
        yield broker
    finally:
        broker.kill()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"


def wait_until_gone(*pids: int) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while any(map(is_running, pids)):
        in_time(deadline, f"some of {pids} still run")
        time.sleep(0.02)


def ask_versions(address: str, timeout: float = WAIT_SECONDS) -> bytes:
    """The answer to an ApiVersions request on a connection of its own."""
    with connected(address, timeout) as client:
        return exchange_versions(client)


def connected(address: str, timeout: float = WAIT_SECONDS) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout)


def exchange_versions(client: socket.socket) -> bytes:
    # Length, API key 18, version 0, correlation id 7, client id "t".
    client.sendall(b"\0\0\0\x0b\0\x12\0\0\0\0\0\x07\0\x01t")
    with client.makefile("rb") as stream:
        head = stream.read(4)
        if len(head) < 4:
            raise ConnectionResetError("the broker closed the connection")
        return stream.read(int.from_bytes(head, "big"))


def is_cut(client: socket.socket) -> bool:
    """Whether the other end of an idle connection has gone, as soon as it has."""
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True
