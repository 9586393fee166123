"""The parent of Python workers: which failures of theirs are nobody's business."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from ottla.spark.runtime import daemon
from ottla.spark.runtime.session import DAEMON_SETTING, socket_settings


@pytest.mark.parametrize("kind", [BrokenPipeError, ConnectionResetError])
def test_a_connection_that_spark_closed_ends_a_worker_quietly(kind: type[Exception]) -> None:
    def fail(sock: socket.socket, authenticated: bool) -> int:
        raise kind

    with socket.socket() as connection:
        assert daemon.quiet(fail)(connection, True) == 1


def test_other_failures_and_exit_codes_are_told() -> None:
    def fail(sock: socket.socket, authenticated: bool) -> int:
        raise LookupError("of the worker")

    with socket.socket() as connection:
        with pytest.raises(LookupError, match="of the worker"):
            daemon.quiet(fail)(connection, True)
        assert daemon.quiet(lambda sock, authenticated: 7)(connection, True) == 7


def test_workers_are_forked_from_a_process_without_threads_of_libraries() -> None:
    program = "import ottla.spark.runtime.daemon, sys; print(sorted({'pyarrow', 'numpy'} & sys.modules.keys()))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def complaints(module: str, folder: Path, worker: str = "pyspark.worker", word: bytes = b"") -> str:
    """What is on stderr when the daemon has a worker whose connection is closed, as Spark does it.

    At once, or when the worker has answered a word.
    """
    with subprocess.Popen(
        [sys.executable, "-m", module, worker],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]),
            "PYTHON_UNIX_DOMAIN_ENABLED": "true",
            "PYTHON_WORKER_FACTORY_SOCK_DIR": str(folder),
            "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "true",
            "SPARK_REUSE_WORKER": "1",
        },
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        (length,) = struct.unpack("!i", process.stdout.read(4))
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(process.stdout.read(length).decode())
            (worker_id,) = struct.unpack("!i", connection.recv(4))
            if word:
                connection.sendall(word)
                assert connection.recv(1) == b"!"
        wait_until_gone(worker_id)
        process.stdin.close()
        return process.stderr.read().decode()


def wait_until_gone(process: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return
        time.sleep(0.02)
    raise TimeoutError(f"process {process} is still there")


@pytest.fixture
def folder() -> Iterator[Path]:
    """One with a short name, as those of sockets have to be."""
    made = Path(tempfile.mkdtemp(prefix="ottla-"))
    yield made
    shutil.rmtree(made)


def test_the_daemon_of_our_sessions_is_quiet_where_sparks_own_is_not(folder: Path) -> None:
    assert complaints(socket_settings()[DAEMON_SETTING], folder) == ""
    assert "BrokenPipeError" in complaints("pyspark.daemon", folder)


PLANNER = """
def main(infile, outfile):
    if infile.read(1) == b"o":
        import ottla.spark.datasource
    outfile.write(b"!")
"""


def test_a_process_that_plans_is_quiet_when_spark_has_let_go_of_it(folder: Path) -> None:
    """Spark starts it through its own daemon, and closes it when it was idle for a minute."""
    (folder / "pyspark_planner.py").write_text(PLANNER, encoding="utf-8")
    assert complaints("pyspark.daemon", folder, "pyspark_planner", b"o") == ""
    assert "BrokenPipeError" in complaints("pyspark.daemon", folder, "pyspark_planner", b"x")


SOURCE = """
import sys
from pyspark.sql.streaming import python_streaming_source_runner
sys.modules["__main__"].__spec__ = python_streaming_source_runner.__spec__
import ottla.spark.datasource
raise {error}
"""


@pytest.mark.parametrize(
    ("error", "told"), [("BrokenPipeError", False), ("LookupError('of the source')", True)]
)
def test_a_source_is_quiet_when_java_is_gone(error: str, told: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SOURCE.format(error=error)], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert (error.partition("(")[0] in done.stderr) == told == bool(done.stderr)
