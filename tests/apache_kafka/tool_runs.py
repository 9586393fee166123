"""Runs of Kafka's tools, many in one process: a process for each would take most of the time."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.apache_kafka.programs import java

RUNNER = Path(__file__).with_name("ToolRunner.java")
RUN_SECONDS = 120.0


class ToolRun(NamedTuple):
    """What a tool printed, and its exit code."""

    output: str
    exit_code: int


def run_tools(jars: Sequence[Path], commands: Sequence[Sequence[str]]) -> list[ToolRun]:
    """Runs commands, each a class and its arguments, one after the other, with the jars of these folders."""
    class_path = Path("/*:".join(map(str, jars)))
    done = subprocess.run(
        java(class_path, str(RUNNER)),
        input="".join("\t".join(command) + "\n" for command in commands),
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *parts, rest = done.stdout.split("\u0001")
    assert len(parts) == len(commands), done.stdout + done.stderr
    outputs = [parts[0], *(each.split("\n", 1)[1] for each in parts[1:])]
    codes = [int(each.split("\n", 1)[0]) for each in [*parts[1:], rest]]
    return [ToolRun(*each) for each in zip(outputs, codes, strict=True)]
