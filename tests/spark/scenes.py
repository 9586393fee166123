"""Pipelines under Spark for tests of faults: topics, records to go, and runs of the program."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.spark import verdict
from tests.spark.program import CRASH, FAILED
from tests.waiting import in_time

import ottla
from ottla.admin import NewTopic

T = TypeVar("T")

RUN_SECONDS = 400.0
# What Spark says when its own Python processes start too slowly on a busy machine: it waits ten seconds for them.
SLOW_MACHINE = "failed to connect back"


def wait_until(condition: Callable[[], bool], what: str, seconds: float = RUN_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        in_time(deadline, f"waited {seconds:.0f} s for {what}")
        time.sleep(0.05)


def in_spite_of_slow_starts(run: Callable[[], T]) -> T:
    """Do it; once more, at most three times in all, where Spark has not waited for its own processes."""
    left = 3
    while True:
        left -= 1
        try:
            return run()
        except Exception as error:
            if not left or SLOW_MACHINE not in str(error):
                raise


class Run:
    """The program in a process of its own."""

    def __init__(self, settings: dict[str, Any], folder: Path, at: Sequence[Any] | None) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.log = folder / "log"
        settings = {"flags": str(folder), **settings, "stop": str(folder / "stop")}
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        environment.pop(CRASH, None)
        if at is not None:
            environment[CRASH] = json.dumps([*at, str(folder)])
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.program", json.dumps(settings)],
                env=environment,
                stdout=log,
                stderr=log,
            )

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait(self) -> int:
        """Until it ends by itself; its exit code."""
        try:
            return self.process.wait(RUN_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise TimeoutError(f"it does not end: {self.said()[-6000:]}") from None

    def stop(self) -> int:
        """Ask it to stop, and wait."""
        (self.folder / "stop").touch()
        return self.wait()

    def wait_for(self, text: str) -> None:
        """Until it has said that; it must not end before."""

        def is_said() -> bool:
            ended = self.process.poll() is not None
            if text in self.said():
                return True
            assert not ended, f"it ended before it said {text!r}: {self.said()[-6000:]}"
            return False

        wait_until(is_said, repr(text))

    def is_at_step_or_ended(self) -> bool:
        """Whether the commit has come to the step, and done there what it was told, or never will."""
        ended = self.process.poll() is not None
        return (self.folder / "reached").exists() or ended

    def wait_at_step(self) -> None:
        """Until the commit has come to the step."""
        wait_until(self.is_at_step_or_ended, "the step")
        assert (self.folder / "reached").exists(), f"it ended: {self.said()[-6000:]}"

    @property
    def pids(self) -> dict[str, int]:
        """Of the driver's JVM and of the process that commits."""
        found = json.loads((self.folder / "reached").read_text())
        return {name: int(pid) for name, pid in found.items()}

    def wake(self) -> None:
        """Let those go on that were stopped."""
        assert _state(self.pids["committer"]) == "T", "it slept all the time"
        for pid in self.pids.values():
            if _state(pid) == "T":
                os.kill(pid, signal.SIGCONT)

    def wait_for_committer(self) -> None:
        """Until the process that commits is gone."""
        wait_until(
            lambda: _state(self.pids["committer"]) in (None, "Z"), "the end of the committer"
        )

    def clean_up(self) -> None:
        """Leave nothing behind, stopped or not."""
        pids = self.pids.values() if (self.folder / "reached").exists() else []
        for pid in [*pids, self.process.pid]:
            if pid == self.process.pid and self.process.poll() is not None:
                continue
            if "python" in _command(pid) or "java" in _command(pid):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


def _state(pid: int) -> str | None:
    """What the kernel says of a process: T is stopped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return None


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


@dataclass
class Scene:
    """A pipeline from topics into a topic, perhaps of another cluster."""

    servers: str
    name: str
    folder: Path
    source_servers: str = ""
    sources: list[str] = field(default_factory=list)
    shape: verdict.Shape = verdict.copied
    checkpoints: list[str] = field(default_factory=lambda: ["checkpoint"])
    count: int = 0
    runs: list[Run] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.source_servers = self.source_servers or self.servers
        self.sources = self.sources or [f"{self.name}-in"]

    @property
    def sink(self) -> str:
        return f"{self.name}-out"

    def create(self) -> None:
        with ottla.Admin(bootstrap_servers=self.source_servers) as admin:
            admin.create_topics([NewTopic(topic, 2) for topic in self.sources])
        with ottla.Admin(bootstrap_servers=self.servers) as admin:
            admin.create_topics([NewTopic(self.sink, 2)])

    def feed(self, count: int) -> None:
        """More records at each source; some of an aborted transaction, which leave gaps."""
        options = {"bootstrap.servers": self.source_servers}
        with ottla.Producer({**options, "transactional.id": f"{self.name}-feed"}) as producer:
            producer.init_transactions()
            for is_kept in (True, False):
                producer.begin_transaction()
                for number in range(self.count, self.count + count):
                    for topic in self.sources:
                        producer.send(topic, b"%d" % number, partition=number % 2)
                producer.flush()
                if is_kept:
                    producer.commit_transaction()
                else:
                    producer.abort_transaction()
        self.count += count

    # Runs

    def start(self, at: Sequence[Any] | None = None, **more: Any) -> Run:
        """The program; `at` is (step, visit, deed)."""
        settings = {
            "servers": self.servers,
            "source_servers": self.source_servers,
            "sources": self.sources,
            "sink": self.sink,
            "pipeline": self.name,
            "checkpoint": str(self.folder / self.checkpoints[-1]),
            **more,
        }
        run = Run(settings, self.folder / f"run-{len(self.runs)}", at)
        self.runs.append(run)
        return run

    def finish(self, **more: Any) -> Run:
        """Run to the end of the sources."""
        for _ in range(3):
            run = self.start(**more)
            code = run.wait()
            if SLOW_MACHINE not in run.said():
                break
        assert code == 0, run.said()[-6000:]
        return run

    def fail(self, **more: Any) -> str:
        """Run until the query fails; what it says."""
        for _ in range(3):
            run = self.start(**more)
            code = run.wait()
            if SLOW_MACHINE not in run.said():
                break
        assert code == FAILED, run.said()[-6000:]
        return run.said()

    def crash(self, point: str, visit: int, deed: str, **more: Any) -> Run:
        """Run until that step, in the micro-batch that is the `visit`th from here."""
        before = self._committed()
        for _ in range(3):
            # A run that a slow machine has ended may have committed some: nobody comes by their steps again.
            left = max(1, visit - (self._committed() - before))
            run = self.start((point, left, deed), **more)
            wait_until(run.is_at_step_or_ended, "the step")
            if SLOW_MACHINE not in run.said():
                break
        run.wait_at_step()
        if deed in ("die", "go on", "sleep"):
            assert run.wait() != 0, run.said()
        if deed in ("die", "go on"):
            run.wait_for_committer()
        return run

    def _committed(self) -> int:
        """How many micro-batches the query of the newest checkpoint has committed."""
        marker = self.checked.marker()
        mine = verdict.query_of(self.folder / self.checkpoints[-1])
        return marker.batch + 1 if marker is not None and marker.query == mine else 0

    def clean_up(self) -> None:
        for run in self.runs:
            run.clean_up()

    # What is true

    @property
    def checked(self) -> verdict.Checked:
        folders = [self.folder / each for each in self.checkpoints]
        sources = [] if self.shape is verdict.rated else self.sources
        return verdict.Checked(
            *(self.name, self.servers, self.sink, self.source_servers, sources, folders, self.shape)
        )

    def check_whole(self) -> int:
        return self.checked.check_whole()

    def check_done(self) -> int:
        return self.checked.check_done()

    def output_count(self) -> int:
        return len(verdict.records(self.servers, [self.sink]))
