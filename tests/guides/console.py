"""Guides that show a terminal: their commands are run, and what they print is compared.

    python -m tests.guides.console docs/guides/command-line.md

writes what the commands print now into the page.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PROMPT = "$ "
ADDRESS = "127.0.0.1:9092"
RUN_SECONDS = 60

# What differs from run to run.
MASKS = (
    (re.compile(r"127\.0\.0\.1:\d+"), ADDRESS),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d([.,]\d+)?(Z|[+-]\d\d:\d\d)?"), "TIME"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r"(?<![\w-])[\w-]{22}(?![\w-])"), "ID"),
    (re.compile(r"\b1[6-9]\d{11}\b"), "MILLISECONDS"),
    (re.compile(r"(crc|CRC)(:? ?)\d+"), r"\1\2CRC"),
    (re.compile(r"/\S*/ottla-data"), "ottla-data"),
    (re.compile(r"[ \t]+"), " "),
    (re.compile(r"\b\d+\.\d+ s\b"), "SECONDS"),
    (re.compile(r"\b\d+(?= -$)", re.MULTILINE), "DURATION"),
)
# Measurements: only what is measured can be compared.
NUMBERS = (re.compile(r"\d+(\.\d+)?(e-?\d+)?"), "N")


class Step(NamedTuple):
    """A command of a page, and what the page says that it prints."""

    command: str
    printed: str

    def masked(self, printed: str) -> list[str]:
        """What has to be the same in every run; records of several partitions come in any order."""
        for pattern, mask in MASKS:
            printed = pattern.sub(mask, printed)
        if "ottla perf" in self.command:
            printed = NUMBERS[0].sub(NUMBERS[1], printed)
        lines = [line.rstrip() for line in printed.splitlines()]
        return sorted(lines) if "ottla consume" in self.command else lines


def steps_of(text: str) -> Iterator[Step]:
    """The commands of a page; a line that ends with a backslash goes on in the next one."""
    for block in BLOCK.findall(text):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            match = re.match(r"((?:[^\n]*\\\n)*[^\n]*)\n(.*)", part, re.DOTALL)
            assert match is not None
            yield Step(match[1], match[2])


def environment_with_ottla(folder: Path) -> dict[str, str]:
    """The environment of a shell that finds the command `ottla`."""
    tools = folder / "bin"
    tools.mkdir()
    script = tools / "ottla"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m ottla "$@"\n', encoding="ascii")
    script.chmod(0o755)
    return {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}


class Terminal:
    """Runs commands in one folder; the first is the broker, which goes on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environment = environment_with_ottla(folder)
        self._work = folder / "empty"
        self._work.mkdir()
        self._broker: subprocess.Popen[str] | None = None

    def run(self, command: str) -> str:
        """What a command prints, remarks last; `ottla serve` is left running."""
        if command.startswith("ottla serve"):
            return self._serve(command)
        done = subprocess.run(
            ["bash", "-c", command],
            capture_output=True,
            text=True,
            cwd=self._work,
            env=self._environment,
            timeout=RUN_SECONDS,
            check=False,
        )
        return done.stdout + done.stderr

    def _serve(self, command: str) -> str:
        log = self._folder / "log"
        with log.open("w") as stderr:
            self._broker = subprocess.Popen(
                ["bash", "-c", f"exec {command} --listen 127.0.0.1:0"],
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                cwd=self._work,
                env=self._environment,
            )
        assert self._broker.stdout is not None
        line = self._broker.stdout.readline()
        assert line.startswith("listening on "), log.read_text(encoding="utf-8")
        self._environment["OTTLA_BOOTSTRAP_SERVER"] = line.split()[-1]
        return log.read_text(encoding="utf-8") + line

    def close(self) -> int:
        """Stops the broker; answers its exit code."""
        if self._broker is None:
            return 0
        self._broker.send_signal(signal.SIGTERM)
        code = self._broker.wait(RUN_SECONDS)
        assert self._broker.stdout is not None
        self._broker.stdout.close()
        return code


@contextmanager
def terminal(folder: Path) -> Iterator[Terminal]:
    opened = Terminal(folder)
    try:
        yield opened
    finally:
        opened.close()


def rewritten(text: str, folder: Path) -> str:
    """The page with what its commands print now."""
    with terminal(folder) as opened:

        def renew(match: re.Match[str]) -> str:
            parts = []
            for step in steps_of(match[0]):
                printed = re.sub(r"127\.0\.0\.1:\d+", ADDRESS, opened.run(step.command))
                parts.append(f"{PROMPT}{step.command}\n{printed}")
            return f"```console\n{''.join(parts)}```"

        return BLOCK.sub(renew, text)


def main(arguments: list[str]) -> int:
    """Rewrites the page that is named."""
    path = Path(arguments[0])
    with tempfile.TemporaryDirectory() as folder:
        path.write_text(rewritten(path.read_text(encoding="utf-8"), Path(folder)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
