"""The command in processes of its own, against a broker that runs for real."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import pytest
from tests.apache_kafka.conftest import kafka_address, kafka_jars
from tests.lasting import LASTING

from ottla import Broker

__all__ = ["kafka_address", "kafka_jars"]

T = TypeVar("T")

RUN_SECONDS = 60
SOON_SECONDS = 15


class Result(NamedTuple):
    """How a run of the command ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def data(self) -> Any:
        """What it printed as JSON."""
        return json.loads(self.out)

    @property
    def table(self) -> list[dict[str, str]]:
        """The rows of a table by title; no cell may have two blanks in a row."""
        head, *rows = ([each.strip() for each in line.split("  ") if each] for line in self.lines)
        return [dict(zip(head, row, strict=True)) for row in rows]


Ottla = Callable[..., Result]


@pytest.fixture(scope="session")
def cli_broker() -> Iterator[Broker]:
    with Broker(LASTING) as broker:
        yield broker


@pytest.fixture
def ottla(cli_broker: Broker, tmp_path: Path) -> Ottla:
    """Runs `ottla …` in an empty folder, where OTTLA_BOOTSTRAP_SERVER says where the broker is."""

    def run(*arguments: str, stdin: str = "", **variables: str) -> Result:
        environment = {**os.environ, "OTTLA_BOOTSTRAP_SERVER": cli_broker.bootstrap_servers}
        done = subprocess.run(
            [sys.executable, "-m", "ottla", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            cwd=tmp_path,
            env=environment | variables,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def inside(
    cli_broker: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Ottla:
    """As `ottla`, but in this process: much quicker, where a process of its own would show nothing more."""
    from ottla.cli.main import main

    def run(*arguments: str, stdin: str | BinaryIO = "", **variables: str) -> Result:
        environment = {"OTTLA_BOOTSTRAP_SERVER": cli_broker.bootstrap_servers} | variables
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        stream = io.BytesIO(stdin.encode()) if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
        monkeypatch.chdir(tmp_path)
        capsys.readouterr()
        try:
            code = main(arguments)
        except SystemExit as left:
            code = int(left.code or 0)
        return Result(code, *capsys.readouterr())

    return run


@pytest.fixture(params=["ottla", "kafka"])
def anywhere(request: pytest.FixtureRequest) -> Ottla:
    """A process each against our broker; and the same against Apache Kafka, in this process."""
    if request.param == "ottla":
        run: Ottla = request.getfixturevalue("ottla")
        return run
    inside: Ottla = request.getfixturevalue("inside")
    return partial(inside, OTTLA_BOOTSTRAP_SERVER=request.getfixturevalue("kafka_address"))


@pytest.fixture(params=["ottla", "kafka"])
def inside_anywhere(request: pytest.FixtureRequest, inside: Ottla) -> Ottla:
    """As `anywhere`, but in this process against our broker too: much quicker."""
    if request.param == "ottla":
        return inside
    return partial(inside, OTTLA_BOOTSTRAP_SERVER=request.getfixturevalue("kafka_address"))


def soon(check: Callable[[], T]) -> T:
    """Asserts what a cluster may need a moment for: Kafka's brokers learn of a change after it is answered."""
    until = time.monotonic() + SOON_SECONDS
    while True:
        try:
            return check()
        except (AssertionError, ValueError):
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
