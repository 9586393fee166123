"""`ottla serve` as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import ottla

START_SECONDS = 30
STOP_SECONDS = 30
SOURCES = str(Path(ottla.__file__).parents[1])
WITHOUT_UVLOOP = """
import sys
sys.modules["uvloop"] = None
from ottla.cli.main import main
sys.exit(main())
"""


class ServeProcess:
    """A broker to start, measure, stop and kill; what it logs is in `log`."""

    def __init__(self, folder: Path) -> None:
        self.loop_kind = "uvloop"
        self.data = folder / "data"
        self.log_path = folder / "serve.log"
        self.address = ""
        self._process: subprocess.Popen[str] | None = None

    def start(
        self,
        *arguments: str,
        engine: Sequence[str] | None = None,
        listen: str = "127.0.0.1:0",
    ) -> None:
        """Starts and waits until clients can connect."""
        where = ["--data", str(self.data)] if engine is None else list(engine)
        self._process = self._run("--listen", listen, *where, *arguments)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("listening on "), self.log
        self.address = line.removeprefix("listening on ").strip()

    def run_to_end(self, *arguments: str) -> tuple[int, str]:
        """Runs a broker that is expected to give up; its exit code and what it said."""
        process = self._run(*arguments)
        code = process.wait(START_SECONDS)
        assert process.stdout is not None
        process.stdout.close()
        return code, self.log

    def _program(self) -> list[str]:
        return ["-m", "ottla"] if self.loop_kind == "uvloop" else ["-c", WITHOUT_UVLOOP]

    def _run(self, *arguments: str) -> subprocess.Popen[str]:
        paths = [SOURCES, *filter(None, [os.environ.get("PYTHONPATH")])]
        with self.log_path.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, *self._program(), "serve", *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            )

    @property
    def log(self) -> str:
        return self.log_path.read_text(encoding="utf-8")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def resident_bytes(self) -> int:
        """The memory that the process has of its own; what it maps of files is the system's to take back."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        (line,) = [line for line in status.splitlines() if line.startswith("RssAnon:")]
        return int(line.split()[1]) * 1024

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self) -> int:
        """The exit code, once it has ended."""
        assert self._process is not None
        code = self._process.wait(STOP_SECONDS)
        if self._process.stdout is not None:
            self._process.stdout.close()
        return code

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self.wait()
