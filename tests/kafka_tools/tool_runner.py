"""Kafka's command line tools, many of them in one JVM."""

from __future__ import annotations

import base64
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).with_name("ToolDriver.java")
SECONDS = 300


class Outcome(NamedTuple):
    """The exit code of a tool, or "hangs", and what it printed."""

    code: str
    text: str


def class_path(*folders: Path) -> str:
    """Every jar of the folders once: two of the same name would be reported by the logging library."""
    jars = {jar.name: str(jar) for folder in folders for jar in sorted(folder.glob("*.jar"))}
    return ":".join(jars.values())


def run_tools(path: str, commands: Sequence[Sequence[str]]) -> list[Outcome]:
    """What the tools answer, one after the other; a command is the class of a tool and its arguments."""
    if shutil.which("javac") is None:
        pytest.skip("Kafka's tools need javac, which is not installed")
    done = subprocess.run(
        # One compiler thread and the plain collector: it shares two cores with the tests.
        [
            *("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m"),
            *("-cp", path, str(SOURCE)),
        ],
        input="".join("\t".join(command) + "\n" for command in commands),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )
    outcomes = []
    for line in done.stdout.splitlines():
        code, _, data = line.partition(" ")
        outcomes.append(Outcome(code, base64.b64decode(data).decode()))
    assert outcomes or not commands, done.stderr
    return outcomes
