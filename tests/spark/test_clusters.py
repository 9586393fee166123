"""The same program on every kind of cluster that pip's Spark brings, and through spark-submit."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tests.spark.pipelines import committed_values
from tests.spark.sessions import needs_spark

import ottla
from ottla import Broker

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(900)]

RUN_SECONDS = 400
COUNT = 300
PROGRAM = """
import sys
from ottla.spark import Json, Pipeline

name, source, sink, checkpoint = sys.argv[1:]
Pipeline(
    name,
    source=source,
    sink=sink,
    values=Json("id LONG"),
    transform=lambda df: df.where("value.id % 3 = 0"),
    trigger="available-now",
    checkpoint=checkpoint,
    source_options={"maxOffsetsPerTrigger": "100"},
).run()
"""


def script(name: str) -> str:
    """One of pip's Spark."""
    import pyspark

    return str(Path(pyspark.__file__).parent / "bin" / name)


def environment(**more: str) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        **more,
    }


class Program:
    """A pipeline in a file, with records to go."""

    def __init__(self, servers: str, name: str, folder: Path) -> None:
        self.servers, self.name, self.folder = servers, name, folder
        self.file = folder / "thirds.py"
        self.file.write_text(PROGRAM, encoding="utf-8")
        with ottla.Producer(bootstrap_servers=servers) as producer:
            producer.send_many(f"{name}-in", [b'{"id": %d}' % number for number in range(COUNT)])

    @property
    def arguments(self) -> list[str]:
        name = self.name
        return [name, f"{name}-in", f"{name}-out", str(self.folder / "checkpoint")]

    def run(self, *command: str) -> None:
        done = subprocess.run(
            command,
            env=environment(OTTLA_BOOTSTRAP_SERVERS=self.servers),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        values = committed_values(self.servers, f"{self.name}-out")
        assert sorted(values) == sorted(b'{"id":%d}' % number for number in range(0, COUNT, 3))

    def run_with_ottla(self, master: str) -> None:
        ottla_command = [sys.executable, "-m", "ottla", "pipeline", "run", str(self.file)]
        self.run(*ottla_command, "--master", master, "--", *self.arguments)


@pytest.fixture
def program(ottla_broker: Broker, ottla_topic: str, tmp_path: Path) -> Program:
    needs_spark()
    return Program(ottla_broker.bootstrap_servers, ottla_topic, tmp_path)


@contextmanager
def process(log: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as file:
        started = subprocess.Popen(
            [script("spark-class"), *command], stdout=file, stderr=file, env=environment()
        )
    try:
        yield started
    finally:
        started.terminate()
        started.wait(60)


def wait_for(log: Path, pattern: str) -> None:
    deadline = time.monotonic() + 120
    while not re.search(pattern, log.read_text(encoding="utf-8", errors="replace")):
        assert time.monotonic() < deadline, log.read_text(encoding="utf-8", errors="replace")
        time.sleep(0.2)


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """A master and two workers; the address of the master."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    deploy = "org.apache.spark.deploy"
    address = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        web = ["--webui-port", "0"]
        place = ["--host", "127.0.0.1", *web]
        log = folder / "master.log"
        stack.enter_context(process(log, f"{deploy}.master.Master", "--port", str(port), *place))
        wait_for(log, "I have been elected leader|New state: ALIVE")
        for number in (1, 2):
            log = folder / f"worker-{number}.log"
            size = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{number}")]
            stack.enter_context(process(log, f"{deploy}.worker.Worker", *size, *place, address))
            wait_for(log, "Successfully registered with master")
        yield address


def test_a_cluster_of_processes_on_this_machine(program: Program) -> None:
    program.run_with_ottla("local-cluster[2,1,1024]")


def test_a_standalone_master_with_two_workers(program: Program, tmp_path: Path) -> None:
    with standalone(tmp_path) as master:
        program.run_with_ottla(master)


def test_spark_submit_runs_the_same_program(program: Program, tmp_path: Path) -> None:
    with standalone(tmp_path) as master:
        submit = [script("spark-submit"), "--master", master]
        program.run(*submit, str(program.file), *program.arguments)
