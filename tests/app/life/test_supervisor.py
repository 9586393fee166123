"""Worker processes under a supervisor, with small programs in the place of apps."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.app.life.processes import Process
from tests.waiting import in_time

SUPERVISOR = """
import logging, sys
from ottla.app.life.health_server import HealthServer
from ottla.app.life.supervisor import Supervisor, WorkerPlan
from ottla.doors.door import Door
from ottla.model import Endpoint
logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
program, workers, watches = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "reload"
supervisor = Supervisor(WorkerPlan(
    command=[sys.executable, program], workers=workers, drain_seconds=5, watches_sources=watches,
    first_files=frozenset([program]),
))
server = HealthServer(Door("--health", Endpoint("127.0.0.1", 0)), supervisor)
server.start()
print("health", server.endpoint, flush=True)
code = supervisor.run()
server.stop()
sys.exit(code)
"""
WORKER = """
import os, signal, sys, threading
from ottla.app.life.app_metrics import AppMetrics
from ottla.app.life.monitor import AppMonitor
from ottla.app.life.worker_link import WorkerEnd
signal.signal(signal.SIGTERM, lambda *_: stop.set())
stop = threading.Event()
link = WorkerEnd.from_environment()
link.start()
link.serve(AppMonitor("shop", AppMetrics(), list), lambda: [__file__])
link.tell_files([__file__])
print("up", os.getpid(), flush=True)
while not stop.wait(0.05):
    pass
print("drained", os.getpid(), flush=True)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(WORKER)
    return path


def supervisor(program: Path, workers: int = 1, mode: str = "stay") -> Process:
    return Process([sys.executable, "-c", SUPERVISOR, str(program), str(workers), mode])


def get(url: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_worker_that_dies_is_replaced_and_all_drain_at_the_end(program: Path) -> None:
    with supervisor(program, workers=2) as running:
        base = "http://" + running.wait_for("health").split()[1]
        first, second = (int(running.wait_for("up").split()[1]) for _ in range(2))
        # Metrics and health are those of both.
        code, body = get(f"{base}/healthz")
        assert code == 200, body
        assert set(json.loads(body)["workers"]) == {"0", "1"}
        families = {
            each.name: each
            for each in text_string_to_metric_families(get(f"{base}/metrics")[1].decode())
        }
        assert families["ottla_app_workers"].samples[0].value == 2
        assert {each.labels["worker"] for each in families["ottla_app_info"].samples} == {"0", "1"}
        # Without listeners that started, none is ready.
        code, body = get(f"{base}/readyz")
        assert code == 503
        assert "worker 0: the app has not started" in json.loads(body)["reasons"]

        os.kill(first, signal.SIGKILL)
        line = running.wait_for("ended with signal SIGKILL")
        assert "another one starts in 0." in line
        third = int(running.wait_for("up").split()[1])
        running.send(signal.SIGTERM)
        assert running.end() == 0
        assert running.has_line("SIGTERM: 2 worker(s) drain, for at most 5 s")
        for pid in (second, third):
            assert running.has_line(f"drained {pid}")
            assert not is_alive(pid)


def test_a_worker_that_is_stopped_is_unhealthy(program: Path) -> None:
    with supervisor(program) as running:
        base = "http://" + running.wait_for("health").split()[1]
        pid = int(running.wait_for("up").split()[1])
        os.kill(pid, signal.SIGSTOP)
        try:
            code, body = get(f"{base}/healthz")
        finally:
            os.kill(pid, signal.SIGCONT)
        assert code == 503
        assert json.loads(body)["reasons"] == ["worker 0 does not answer"]
        running.send(signal.SIGINT)
        assert running.end() == 0


def test_workers_do_not_outlive_a_supervisor_that_is_killed(program: Path) -> None:
    with supervisor(program) as running:
        pid = int(running.wait_for("up").split()[1])
        running.send(signal.SIGKILL)
        running.wait_for(f"drained {pid}")
        deadline = time.monotonic() + 10
        while is_alive(pid):
            in_time(deadline, "the worker lives on")
            time.sleep(0.02)


def test_a_second_signal_kills_workers_that_do_not_end(program: Path) -> None:
    program.write_text(WORKER.replace("lambda *_: stop.set()", "signal.SIG_IGN"))
    with supervisor(program) as running:
        pid = int(running.wait_for("up").split()[1])
        running.send(signal.SIGTERM)
        running.wait_for("drain, for at most")
        running.send(signal.SIGTERM)
        assert running.end() == 1
        assert running.has_line("workers that had not ended were killed")
        assert not is_alive(pid)


def test_a_program_that_cannot_run_ends_the_supervisor(program: Path) -> None:
    program.write_text("raise SystemExit(2)")
    with supervisor(program) as running:
        assert running.end() == 2


def test_a_change_restarts_and_a_broken_program_waits_for_the_next_change(program: Path) -> None:
    with supervisor(program, mode="reload") as running:
        first = running.wait_for("up").split()[1]
        program.write_text("raise SystemExit(2)")
        running.wait_for("program.py has changed: the workers restart")
        running.wait_for("worker 0 waits for a change of the program's files")
        assert running.has_line(f"drained {first}"), "it drains before it restarts"
        program.write_text(WORKER + "\n")
        running.wait_for("program.py has changed")
        running.wait_for("up")
        running.send(signal.SIGTERM)
        assert running.end() == 0
