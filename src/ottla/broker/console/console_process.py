"""The console's process, from its start to its end.

A thread waits for what the process says and for its end. So it does not matter which loop the broker has, and on which
thread, and a process that hangs is found out.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from ottla.broker.console.child_settings import ChildSettings

COMMAND: Final = (sys.executable, "-P", "-m", "ottla.cli.console.child")
# The folder of the package, for the process that is started.
_SOURCES: Final = str(Path(__file__).parents[3])
START_SECONDS: Final = 60.0
# The process says that often that its loop turns, and is killed when it has said nothing for so long.
ALIVE_SECONDS: Final = 5.0
HANG_SECONDS: Final = 60.0
STOP_SECONDS: Final = 2.0
MAX_LINE_BYTES: Final = 1 << 16

READY: Final = "ready"
FAILED: Final = "failed"
REFUSED: Final = "refused"
ALIVE: Final = "alive"


class ConsoleProcess:
    """One process; used on the broker's loop."""

    def __init__(self, settings: ChildSettings, told: Callable[[str, str], None]) -> None:
        """`told` gets what the process says: READY, or FAILED or REFUSED with the reason."""
        self._settings = settings
        self._told = told
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ending = False
        self.has_started: asyncio.Future[None] = self._loop.create_future()
        """Done when the process has its copies of the file descriptors, or could not be started."""
        self.ended: asyncio.Future[str] = self._loop.create_future()
        """Why it ended."""

    def start(self) -> None:
        """Start it; what became of it is told by `ended`."""
        threading.Thread(target=self._run, name="ottla-console-process", daemon=True).start()

    async def stop(self) -> None:
        """End it in order; one that does not end is killed."""
        self._signal(signal.SIGTERM)
        await asyncio.wait([self.ended], timeout=STOP_SECONDS)
        if not self.ended.done():
            self.kill()
            await asyncio.wait([self.ended], timeout=STOP_SECONDS)

    def kill(self) -> None:
        """End it at once."""
        self._signal(signal.SIGKILL)

    @property
    def pid(self) -> int | None:
        """Its id; None before it was started."""
        return None if self._process is None else self._process.pid

    def _signal(self, number: signal.Signals) -> None:
        with self._lock:
            self._is_ending = True
            if self._process is not None:
                self._process.send_signal(number)

    # On the thread

    def _run(self) -> None:
        reason = "it could not be started"
        try:
            process = self._start()
            reason = self._watch(process)
        except OSError as error:
            reason = f"{reason}: {error}"
        finally:
            self._on_loop(self._note_start)
            self._on_loop(lambda: self.ended.set_result(reason))

    def _note_start(self) -> None:
        if not self.has_started.done():
            self.has_started.set_result(None)

    def _start(self) -> subprocess.Popen[bytes]:
        settings = self._settings
        paths = [_SOURCES, *filter(None, [os.environ.get("PYTHONPATH")])]
        # Who stops it before it has started closes file descriptors afterwards, whose numbers are used here.
        with self._lock:
            if self._is_ending:
                raise InterruptedError("it was stopped")
            process = self._process = subprocess.Popen(
                COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=(settings.channel, settings.listening),
                # Ctrl-C reaches only the broker, which then ends the console in order.
                process_group=0,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            )
        self._on_loop(self._note_start)
        return process

    def _watch(self, process: subprocess.Popen[bytes]) -> str:
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdout:
            with suppress(OSError), process.stdin:
                process.stdin.write(self._settings.encode())
            problem = self._read(process.stdout.fileno())
        if problem is not None:
            process.kill()
        try:
            code = process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        return problem or _ending(code)

    def _read(self, stdout: int) -> str | None:
        """Read what the process says until it ends; returns why it has to be killed, if it has to."""
        poller = select.poll()
        poller.register(stdout, select.POLLIN)
        said = b""
        limit_seconds = START_SECONDS
        while True:
            # The second look is for a machine that was stopped: both processes go on at the same time.
            if not poller.poll(limit_seconds * 1000) and not poller.poll(ALIVE_SECONDS * 2 * 1000):
                return f"it did not answer for {limit_seconds:.0f} seconds"
            data = os.read(stdout, MAX_LINE_BYTES)
            if not data:
                return None
            *lines, said = (said + data).split(b"\n")
            for line in lines:
                if not self._take(line):
                    return "it said what no console says"
                limit_seconds = HANG_SECONDS
            if len(said) > MAX_LINE_BYTES:
                return "it said too much"

    def _take(self, line: bytes) -> bool:
        try:
            kind, text = json.loads(line)
        except ValueError:
            return False
        if kind in (READY, FAILED, REFUSED):
            self._on_loop(lambda: self._told(kind, str(text)))
        return kind in (READY, FAILED, REFUSED, ALIVE)

    def _on_loop(self, call: Callable[[], object]) -> None:
        # The loop may have been closed meanwhile.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)


def message(kind: str, text: str = "") -> bytes:
    """What the process says."""
    parts: Sequence[str] = (kind, text)
    return json.dumps(parts).encode() + b"\n"


def _ending(code: int) -> str:
    if code >= 0:
        return f"it ended with code {code}"
    try:
        return f"it was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"it was ended by signal {-code}"
