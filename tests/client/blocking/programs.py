"""Programs of their own process, for what ends or splits a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

SOURCE = Path(__file__).parents[3] / "src"
END_SECONDS = 20


class Program:
    """A Python program that reports by printing lines."""

    def __init__(self, text: str, *args: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(text), *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )

    def next_line(self) -> str:
        """What it prints next; empty when it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go_on(self) -> None:
        """Gives it the line that it waits for."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def end(self) -> tuple[int, list[str], str]:
        """Its exit code, the lines that were not read and what it wrote to stderr."""
        try:
            out, errors = self.process.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, errors = self.process.communicate()
            raise TimeoutError(f"it did not end; {out=} {errors=}") from None
        return self.process.returncode, out.splitlines(), errors


def run_program(text: str, *args: str) -> list[str]:
    """The lines that a program prints that ends well and has no complaints."""
    code, lines, errors = Program(text, *args).end()
    assert errors == "", errors
    assert code == 0, lines
    return lines
