"""`ottla demo cluster`: what it needs, what it says, and what it leaves behind."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spark.sessions import needs_spark
from tests.waiting import in_time

from ottla.cli.demo import cluster_demo, storage_servers
from ottla.cli.main import main

RUN_SECONDS = 280


def needs_servers() -> None:
    try:
        storage_servers.find_postgres()
        storage_servers.find_weed()
    except Exception as error:
        pytest.skip(str(error))


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the demo makes its folder; another user can enter it, since PostgreSQL does not run as root."""
    folder = Path(tempfile.mkdtemp(prefix="ottla-test-"))
    folder.chmod(0o711)
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def processes_of(folder: Path) -> list[str]:
    """Command lines of processes that work in a folder."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "args="], capture_output=True, text=True, check=True
    )
    return [line for line in listed.stdout.splitlines() if str(folder) in line]


def test_missing_servers_are_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needs_spark()
    which = shutil.which
    monkeypatch.setattr(
        shutil, "which", lambda name, **more: None if name == "initdb" else which(name, **more)
    )
    monkeypatch.setattr(storage_servers, "find_spec", lambda name: None)
    monkeypatch.setattr(storage_servers, "MACHINE_FOLDER", temporary)
    assert main(["demo", "cluster"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("ottla: the demo needs PostgreSQL")
    assert line.endswith("pip install 'ottla[demo-cluster]'")
    assert list(temporary.iterdir()) == []


def test_a_demo_that_fails_leaves_no_process_and_no_file(
    monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    needs_spark()
    needs_servers()

    def interrupt(self: object, *arguments: object) -> None:
        assert len(processes_of(temporary)) > 2
        raise KeyboardInterrupt

    monkeypatch.setattr(cluster_demo.ClusterDemo, "_create_topics", interrupt)
    assert main(["demo", "cluster"]) == 130
    assert processes_of(temporary) == []
    assert list(temporary.iterdir()) == []


@pytest.mark.campaign
def test_ctrl_c_in_the_middle_ends_everything(temporary: Path) -> None:
    needs_spark()
    needs_servers()
    with subprocess.Popen(
        [sys.executable, "-m", "ottla", "demo", "cluster"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    ) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "orders done" in line:
                break
        demo.send_signal(signal.SIGINT)
        demo.stdout.read()
        assert demo.wait(120) == 130
    deadline = time.monotonic() + 20
    while processes_of(temporary):
        in_time(deadline)
        time.sleep(0.1)
    assert list(temporary.iterdir()) == []


@pytest.mark.campaign
@pytest.mark.timeout(300)
def test_the_demo_loses_and_doubles_nothing_though_brokers_fail() -> None:
    needs_spark()
    needs_servers()
    done = subprocess.run(
        [sys.executable, "-m", "ottla", "demo", "cluster", "--records", "15000"],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = dict(line.split(None, 1) for line in done.stdout.splitlines())
    assert "kill -9" in done.stdout
    assert "SIGSTOP" in done.stdout
    assert lines["in"] == "15,000 orders"
    assert lines["out"].startswith("15,000 receipts")
    assert (lines["lost"], lines["duplicated"]) == ("0", "0")
    committed = re.match(r"(\d+) transactions", lines["committed"])
    assert committed is not None
    assert int(committed[1]) >= 3
    assert lines["verdict"].startswith("exactly once")
