"""`ottla test-broker` as a test in another language starts it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.testing.control_client import ask

import ottla

SECONDS = 30


@contextmanager
def started(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """The process, where it listens, and the address of its control API."""
    with subprocess.Popen(
        [sys.executable, "-m", "ottla", "test-broker", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            listening, control = process.stdout.readline(), process.stdout.readline()
            assert listening.startswith("listening on "), process.communicate()
            assert control.startswith("control on http://127.0.0.1:")
            yield process, listening.split()[-1], control.split()[-1]
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal_stops_it(number: signal.Signals) -> None:
    options = ("--set", "num.partitions=2", "--nodes", "2", "--as-version", "3.6")
    with started(*options) as (process, servers, url):
        with ottla.Producer(bootstrap_servers=servers) as producer:
            producer.send("orders", b"tea").result(SECONDS)
            assert len(producer.partitions_for("orders")) == 2
        assert ask(url, "GET", "/").data["nodes"] == [1, 2]
        assert {
            each["version"] for each in ask(url, "GET", "/requests?api=Produce").data["requests"]
        } == {9}
        ask(url, "POST", "/pause")
        process.send_signal(number)
        out, errors = process.communicate(timeout=SECONDS)
        assert (process.returncode, out, errors) == (0, "", "")


def test_it_ends_with_its_parent_if_that_is_wished() -> None:
    with started("--stop-with-stdin") as (process, _, _):
        assert process.poll() is None
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(SECONDS) == 0
    with started("--stop-with-stdin") as (process, _, _):
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=SECONDS)
        assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["--control", "0.0.0.0:0"],
            "asks for no password: write 127.0.0.1, or add --allow-remote",
        ),
        (["--control", "9093"], "'9093' has no host: write HOST:PORT"),
        (["--set", "num.partitions"], "has no value: write --set NAME=VALUE"),
        (["--set", "num.partition=2"], "num.partition"),
        (["--as-version", "3.7"], "'3.7' is not a known release: there are 2.8, 3.0, 3.3, 3.6"),
        (["--nodes", "0"], "0 is less than 1"),
    ],
)
def test_bad_arguments_are_refused(arguments: list[str], expected: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ottla", "test-broker", *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 2
    assert expected in done.stderr


def test_remote_control_can_be_allowed() -> None:
    command = [sys.executable, "-m", "ottla", "test-broker", "--control", "0.0.0.0:0"]
    with subprocess.Popen(
        [*command, "--allow-remote-control"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            assert process.stdout.readline().startswith("control on http://0.0.0.0:")
        finally:
            process.terminate()
