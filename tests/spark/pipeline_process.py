"""`ottla pipeline run` as a process that tests kill, stop and watch."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.spark.pipelines import committed_values
from tests.waiting import in_time

import ottla
from ottla.admin import NewTopic

WAIT_SECONDS = 180.0
PROGRAM = """
import sys

from ottla.spark import Json, Pipeline

name, source, sink, checkpoint, trigger = sys.argv[1:]
Pipeline(
    name,
    source=source,
    sink=sink,
    values=Json("id LONG"),
    transform=lambda df: df.where("value.id % 3 = 0"),
    trigger=trigger,
    checkpoint=checkpoint,
    source_options={
        "maxOffsetsPerTrigger": "100",
        "kafka.default.api.timeout.ms": "5000",
        "kafka.request.timeout.ms": "5000",
    },
    sink_options=SINK_OPTIONS,
).run()
"""


def environment(**more: str) -> dict[str, str]:
    """What Spark's processes need to find this Python and its packages; variables without a value are left out."""
    wanted = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        **more,
    }
    return {name: value for name, value in wanted.items() if value}


def until(is_so: Callable[[], bool], what: str, seconds: float = WAIT_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        in_time(deadline, what)
        time.sleep(0.1)


def parents() -> list[tuple[int, ...]]:
    """All processes, each with its parent."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
    )
    return [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]


def is_java(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "java"
    except OSError:
        return False


class PipelineProcess:
    """A program with a pipeline: every third of the numbers that come in goes out."""

    def __init__(
        self, servers: str, name: str, folder: Path, sink_options: dict[str, str] | None = None
    ) -> None:
        self.servers, self.name, self.folder = servers, name, folder
        self.checkpoint = str(folder / "checkpoint")
        self.file = folder / "thirds.py"
        text = PROGRAM.replace("SINK_OPTIONS", repr(sink_options or {}))
        self.file.write_text(text, encoding="utf-8")
        self.log = folder / "driver.log"
        self.count = 0
        self._process: subprocess.Popen[bytes] | None = None
        with ottla.Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(f"{name}-in", 2), NewTopic(f"{name}-out", 2)])

    def feed(self, count: int) -> None:
        with ottla.Producer(bootstrap_servers=self.servers) as producer:
            numbers = range(self.count, self.count + count)
            producer.send_many(f"{self.name}-in", [b'{"id": %d}' % number for number in numbers])
        self.count += count

    def arguments(self, trigger: str = "0 seconds") -> list[str]:
        """Of the program."""
        return [self.name, f"{self.name}-in", f"{self.name}-out", self.checkpoint, trigger]

    # The process

    def start(self, *options: str, **variables: str) -> None:
        """`ottla pipeline run`, without an end."""
        command = [sys.executable, "-m", "ottla", "pipeline", "run", str(self.file)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "-b", self.servers, *options, "--", *self.arguments()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=environment(**variables),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def pids(self) -> list[int]:
        """The driver, its Java and their Python workers."""
        return descendants(self.pid, parents())

    def java(self) -> int:
        """Spark's Java."""
        (found,) = [pid for pid in self.pids() if is_java(pid)]
        return found

    def kill(self) -> None:
        """kill -9 of everything at once."""
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.wait()

    def send(self, number: signal.Signals) -> None:
        """To the process alone, as supervisors send it."""
        os.kill(self.pid, number)

    def send_to_group(self, number: signal.Signals) -> None:
        """To all of its group, as terminals send Ctrl-C."""
        os.killpg(self.pid, number)

    @property
    def has_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def wait(self) -> int:
        """Until it ends; its exit code."""
        assert self._process is not None
        return self._process.wait(WAIT_SECONDS)

    def end(self) -> None:
        """Whatever a failed test left."""
        if self._process is not None and not self.has_ended:
            self.kill()

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    # What comes out

    def values(self) -> Counter[bytes]:
        return Counter(committed_values(self.servers, f"{self.name}-out"))

    def expected(self) -> Counter[bytes]:
        return Counter(b'{"id":%d}' % number for number in range(0, self.count, 3))

    def until_out(self, count: int) -> None:
        """Until so many records are committed."""
        deadline = time.monotonic() + WAIT_SECONDS
        while self.values().total() < count:
            assert not self.has_ended, self.said()
            in_time(deadline, self.said())
            time.sleep(0.1)

    def check_exactly_once(self) -> None:
        self.until_out(self.expected().total())
        assert self.values() == self.expected()

    def check_nothing_twice(self) -> None:
        """What is there so far is right."""
        assert self.values() <= self.expected()


def descendants(root: int, parents: list[tuple[int, ...]]) -> list[int]:
    """A process and all that it and its children started, of pairs (process, parent)."""
    found = [root]
    for pid in found:
        found.extend(child for child, parent in parents if parent == pid)
    return found
