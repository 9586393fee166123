"""The command in processes of its own, against a broker that runs for real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ottla import Broker

RUN_SECONDS = 60


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
    with Broker() as broker:
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
