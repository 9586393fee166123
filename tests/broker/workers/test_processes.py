"""The processes of `ottla serve --workers`: starting, stopping, dying, and what stays meanwhile."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.broker.processes import ServeProcess
from tests.broker.workers.serving_workers import (
    WAIT_SECONDS,
    ImpatientSupervisor,
    SupervisorWithoutAFork,
    WorkersOfThreads,
    ask_versions,
    connected,
    exchange_versions,
    is_cut,
    is_running,
    serving_workers,
    wait_until_gone,
)
from tests.waiting import in_time

from ottla.storage.local.folder import layout


def test_it_starts_serves_at_every_port_and_stops_cleanly(tmp_path: Path) -> None:
    with serving_workers(tmp_path, 2) as broker:
        started = broker.wait_for("broker_started")
        assert (started["workers"], started["listen"]) == (2, broker.address)
        for address in (broker.address, *broker.addresses().values()):
            assert ask_versions(address)
        pids = [broker.pid_of(1), broker.pid_of(2)]
        assert broker.stop() == 0
        assert not any(map(is_running, pids))
        assert broker.events[-1]["event"] == "broker_stopped"
        for number in (1, 2):
            mark = broker.data / "workers" / str(number) / layout.CLEAN_SHUTDOWN_FILE
            assert mark.exists()


def test_a_killed_worker_serves_again_at_its_port_and_others_are_not_touched(
    tmp_path: Path,
) -> None:
    with serving_workers(tmp_path, 2) as broker, connected(broker.addresses()[2]) as other:
        exchange_versions(other)
        first, second = broker.pid_of(1), broker.pid_of(2)
        address = broker.addresses()[1]
        with connected(address) as lost:
            exchange_versions(lost)
            broker.kill_worker(1)
            assert is_cut(lost)
        # It waits in the queue of the socket, and is not refused.
        assert ask_versions(address)
        broker.wait_for("worker_started", count=2, node=1)
        assert broker.wait_for("worker_ended", node=1)["reason"] == "it was ended by SIGKILL"
        assert broker.pid_of(1) != first
        # The other one has kept its process and its connections.
        assert broker.pid_of(2) == second
        assert exchange_versions(other)
        assert broker.stop() == 0


def test_a_worker_that_dies_again_and_again_is_started_after_pauses(tmp_path: Path) -> None:
    with serving_workers(tmp_path, 2) as broker:
        for number in range(1, 4):
            broker.wait_for("worker_started", count=number, node=1)
            broker.kill_worker(1)
        broker.wait_for("worker_ended", count=3, node=1)
        pauses = [each["seconds"] for each in broker.told("worker_ended", node=1)]
        assert pauses == [0.0, 0.25, 0.5]
        # A stop does not wait for the pause.
        assert broker.stop() == 0


def test_workers_end_with_a_killed_supervisor_and_free_the_folder(tmp_path: Path) -> None:
    with serving_workers(tmp_path, 2) as broker:
        pids = [broker.pid_of(1), broker.pid_of(2)]
        broker.kill()
        wait_until_gone(*pids)
        broker.begin(2)
        assert ask_versions(broker.address)
        assert broker.stop() == 0


def test_a_supervisor_with_threads_starts_interpreters(tmp_path: Path) -> None:
    broker = WorkersOfThreads(tmp_path)
    try:
        broker.begin(2)
        first = broker.pid_of(1)
        command = Path(f"/proc/{first}/cmdline").read_bytes().split(b"\0")
        assert b"ottla.cli.worker" in command
        broker.kill_worker(1)
        broker.wait_for("worker_started", count=2, node=1)
        for address in (broker.address, *broker.addresses().values()):
            assert ask_versions(address)
        pids = [broker.pid_of(1), broker.pid_of(2)]
        broker.kill()
        wait_until_gone(first, *pids)
    finally:
        broker.kill()


def test_ctrl_c_stops_all(tmp_path: Path) -> None:
    with serving_workers(tmp_path, 2) as broker:
        pids = [broker.pid_of(1), broker.pid_of(2)]
        # A terminal sends it to the process group, of which the workers are no part.
        assert len({os.getpgid(each) for each in (broker.pid, *pids)}) == 3
        broker.signal(signal.SIGINT)
        assert broker.wait() == 0
        assert not any(map(is_running, pids))


def test_a_stopped_supervisor_does_not_stop_its_workers(tmp_path: Path) -> None:
    with serving_workers(tmp_path, 2) as broker:
        broker.signal(signal.SIGSTOP)
        try:
            for address in broker.addresses().values():
                assert ask_versions(address)
        finally:
            broker.signal(signal.SIGCONT)
        assert broker.stop() == 0


def test_a_second_broker_on_the_folder_is_refused(tmp_path: Path) -> None:
    with serving_workers(tmp_path, 2) as broker:
        for workers in ("1", "2"):
            other = ServeProcess(tmp_path)
            other.log_path = tmp_path / f"other-{workers}.log"
            words = ["--listen", "127.0.0.1:0", "--data", str(broker.data), "--workers", workers]
            code, log = other.run_to_end(*words)
            assert code == 1
            assert "is in use by another broker" in log
            assert str(broker.pid) in log
        assert ask_versions(broker.address)


def test_the_folder_stays_locked_while_a_worker_lives(tmp_path: Path) -> None:
    with serving_workers(tmp_path, 2) as broker:
        # A stopped process takes no notice of the end of its channel, only of its parent's death.
        worker = broker.pid_of(1)
        os.kill(worker, signal.SIGSTOP)
        supervisor = broker.pid
        broker.signal(signal.SIGKILL)
        broker.wait()
        assert not is_running(supervisor)
        wait_until_gone(worker)
        broker.begin(2)
        assert broker.stop() == 0


def test_a_worker_that_is_asked_to_end_does_so_cleanly_and_is_started_again(tmp_path: Path) -> None:
    with serving_workers(tmp_path, 2) as broker:
        broker.kill_worker(2, signal.SIGTERM)
        assert broker.wait_for("worker_ended", node=2)["reason"] == "it was stopped"
        broker.wait_for("worker_started", count=2, node=2)
        assert not broker.told("recovery_begun")
        assert ask_versions(broker.addresses()[2])
        assert broker.stop() == 0


def test_ports_follow_the_common_one_and_a_taken_one_is_named(tmp_path: Path) -> None:
    with serving_workers(tmp_path, 2) as broker:
        first = int(broker.addresses()[1].rpartition(":")[2])
        other = ServeProcess(tmp_path / "other")
        other.log_path = tmp_path / "other.log"
        # Its worker 1 would listen where that one does.
        words = ["--listen", f"127.0.0.1:{first - 1}", "--data", str(tmp_path / "other")]
        code, log = other.run_to_end(*words, "--workers", "2")
        assert code == 1
        if f"cannot listen on 127.0.0.1:{first - 1}:" not in log:
            assert f"cannot listen on 127.0.0.1:{first}, the port of worker 1:" in log
        assert "--listen HOST:PORT chooses another port" in log
        # Ports that are taken leave no folder.
        assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--workers", "0"], "'0' is no number from 1 to 128, and not auto"),
        (["--workers", "many"], "'many' is no number"),
        (
            ["--workers", "2", "--ephemeral", "--set", "ottla.ephemeral.max.bytes=1000000"],
            "ottla.ephemeral.max.bytes has no effect with --workers",
        ),
        (["--workers", "2", "--listen", "127.0.0.1:65534"], "ends above port 65535"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    tmp_path: Path, words: list[str], reason: str
) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "ottla", "serve", *words],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert process.returncode == 2
    assert reason in process.stderr.splitlines()[-1]
    assert not list(tmp_path.iterdir())


def test_a_worker_that_cannot_serve_is_the_error_of_the_start(tmp_path: Path) -> None:
    with serving_workers(tmp_path, 2) as broker:
        assert broker.stop() == 0
        # A file that no worker can write.
        counter = broker.data / "workers" / "2" / "recovery-point-offset-checkpoint"
        counter.unlink()
        counter.mkdir()
        words = ["--listen", "127.0.0.1:0", "--data", str(broker.data), "--workers", "2"]
        code, log = broker.run_to_end(*words)
        assert code == 1
        assert str(counter) in log.splitlines()[-1]


def test_ephemeral_data_goes_with_the_broker(tmp_path: Path) -> None:
    broker = ServeProcess(tmp_path)
    with_workers = ["--workers", "2", "--log-format", "json"]
    broker.start(*with_workers, engine=["--ephemeral"])
    try:
        (line,) = [each for each in broker.log.splitlines() if "data_is_temporary" in each]
        folder = Path(line.partition('"folder": "')[2].partition('"')[0])
        assert (folder / "workers" / "2").is_dir()
        assert broker.stop() == 0
        assert not folder.exists()
    finally:
        broker.kill()


def test_a_worker_that_hangs_is_killed_and_started_again(tmp_path: Path) -> None:
    broker = ImpatientSupervisor(tmp_path)
    try:
        broker.begin(2)
        os.kill(broker.pid_of(1), signal.SIGSTOP)
        # Meanwhile the other one answers.
        assert ask_versions(broker.addresses()[2])
        broker.wait_for("worker_started", count=2, node=1)
        reason = broker.wait_for("worker_ended", node=1)["reason"]
        assert reason.startswith("it was killed: its loop did not turn for ")
        assert ask_versions(broker.addresses()[1])
        assert broker.stop() == 0
    finally:
        broker.kill()


def test_a_process_that_cannot_be_started_is_tried_again_and_others_are_not_touched(
    tmp_path: Path,
) -> None:
    broker = SupervisorWithoutAFork(tmp_path)
    try:
        broker.begin(2)
        second = broker.pid_of(2)
        broker.kill_worker(1)
        broker.wait_for("worker_started", count=2, node=1)
        reasons = [each["reason"] for each in broker.told("worker_ended", node=1)]
        assert "it could not be started: [Errno 11] Resource temporarily unavailable" in reasons
        assert broker.pid_of(2) == second
        assert ask_versions(broker.addresses()[1])
        assert broker.stop() == 0
    finally:
        broker.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="limits of another process")
def test_a_supervisor_without_free_descriptors_leaves_no_process_and_goes_on(
    tmp_path: Path,
) -> None:
    with serving_workers(tmp_path, 2) as broker:
        used = descriptors_of(broker.pid)
        # Enough for the channel to a new worker, and not for what that has to be told.
        before = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (max(used) + 2, before[1]))
        broker.kill_worker(1)
        failed = broker.wait_for("worker_ended", count=2, node=1)
        assert "Too many open files" in failed["reason"]
        assert ask_versions(broker.addresses()[2])
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, before)
        broker.wait_for("worker_started", count=2, node=1)
        assert ask_versions(broker.addresses()[1])
        assert sorted(broker.children()) == sorted([broker.pid_of(1), broker.pid_of(2)])
        assert len(descriptors_of(broker.pid)) == len(used)
        assert broker.stop() == 0


def test_restarts_leave_no_descriptors_and_processes_behind(tmp_path: Path) -> None:
    with serving_workers(tmp_path, 2) as broker:
        pids = {node_id: broker.pid_of(node_id) for node_id in (1, 2)}
        ask_versions(broker.addresses()[1])
        used = [len(descriptors_of(each)) for each in (broker.pid, *pids.values())]
        for number in range(2, 6):
            # One that is asked to end; a killed one waits longer with each time.
            broker.kill_worker(1, signal.SIGTERM)
            broker.wait_for("worker_started", count=number, node=1)
        assert ask_versions(broker.addresses()[1])
        left = [broker.pid, broker.pid_of(1), broker.pid_of(2)]
        deadline = time.monotonic() + WAIT_SECONDS
        while [len(descriptors_of(each)) for each in left] != used:
            in_time(deadline, f"{used} descriptors have become others")
            time.sleep(0.02)
        assert broker.pid_of(2) == pids[2]
        assert sorted(broker.children()) == sorted(left[1:])
        assert broker.stop() == 0


def descriptors_of(pid: int) -> list[int]:
    return [int(name) for name in os.listdir(f"/proc/{pid}/fd")]


def test_the_log_has_the_node_of_each_worker(tmp_path: Path) -> None:
    broker = ServeProcess(tmp_path)
    broker.start("--workers", "2", "--set", "ottla.ephemeral.max.bytes=1000000")
    try:
        with socket.create_connection(tuple_of(broker.address)) as client:
            client.sendall(b"\x7f\xff\xff\xff")  # a frame that is too large
        deadline = time.monotonic() + WAIT_SECONDS
        while not any("] " in each and "[node " in each for each in broker.log.splitlines()):
            in_time(deadline, broker.log)
            time.sleep(0.02)
        assert broker.stop() == 0
    finally:
        broker.kill()


def tuple_of(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)
