"""`ottla serve` in a process of its own, under test."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Final, Self

from ottla.config.broker import BrokerConfig, with_embedded_defaults
from ottla.errors import IllegalStateError, OttlaError
from ottla.testing.inspection import Inspection

STOP_SECONDS: Final = 30.0
LISTENING: Final = "listening on "
SHOWN_LOG_CHARACTERS: Final = 2000
# The folder of the package, for the process that is started.
_SOURCES: Final = str(Path(__file__).parents[2])


class ServedBroker(Inspection):
    """A broker as `ottla serve` runs it, for tests of what really happens to a process.

        >>> from ottla.testing import ServedBroker
        >>> import ottla
        >>> with ServedBroker() as broker, ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        ...     sent = producer.send("orders", b"one espresso").result(10)
        ...     broker.kill()
        ...     broker.restart()
        ...     producer.send("orders", b"two teas").result(30).offset
        1

    Faults and the clock are in the hands of tests only with `ottla.testing.Broker`, which runs in their process.
    Without `data_dir` the data is in a temporary folder that goes when the broker stops.
    """

    def __init__(
        self,
        options: Mapping[str, object] | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        listen: str = "127.0.0.1:0",
    ) -> None:
        self._options = with_embedded_defaults(options or {})
        BrokerConfig.read(self._options)  # refuses what the process would refuse
        self._listen = self._first_listen = listen
        self._given_data_dir = None if data_dir is None else Path(data_dir)
        self._folder: Path | None = None
        self._process: subprocess.Popen[str] | None = None
        self._address = ""
        self._is_paused = False

    def start(self) -> Self:
        """Starts the process, and returns when clients can connect."""
        if self._process is not None:
            raise IllegalStateError("the broker is running already")
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="ottla-serve-"))
            atexit.register(self.stop)
        arguments = ["--listen", self._listen, "--data", str(self.data_dir)]
        for name, value in self._options.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            arguments += ["--set", f"{name}={text}"]
        paths = [_SOURCES, *filter(None, [os.environ.get("PYTHONPATH")])]
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ottla", "serve", *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            )
        assert self._process.stdout is not None
        # It says where it listens, or ends, which closes the pipe.
        line = self._process.stdout.readline()
        if not line.startswith(LISTENING):
            failure = self._failure(self._wait())
            if not self._address:
                self.stop()
            raise failure
        self._address = self._listen = line.removeprefix(LISTENING).strip()
        return self

    @property
    def bootstrap_servers(self) -> str:
        """What clients want as `bootstrap.servers`; while it is down, where it will be again."""
        if not self._address:
            raise IllegalStateError(
                "the broker is not running: call start() or use it in a with statement"
            )
        return self._address

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """Whether the process is there; one that is paused is."""
        return self._process is not None and self._process.poll() is None

    @property
    def data_dir(self) -> Path:
        """Where the data is."""
        if self._given_data_dir is not None:
            return self._given_data_dir
        return self._own_folder / "data"

    @property
    def log(self) -> str:
        """What the processes have logged since `start`."""
        return self._log_path.read_text(encoding="utf-8")

    @property
    def _own_folder(self) -> Path:
        if self._folder is None:
            raise IllegalStateError("the broker is not running")
        return self._folder

    @property
    def _log_path(self) -> Path:
        return self._own_folder / "serve.log"

    def _answering_servers(self) -> str:
        self._running()
        if self._is_paused:
            raise IllegalStateError("the broker is paused: call unpause()")
        return self._address

    def _running(self) -> subprocess.Popen[str]:
        process = self._process
        if process is None:
            raise IllegalStateError("the broker is not running")
        if process.poll() is not None:
            raise IllegalStateError(str(self._failure(process.returncode)))
        return process

    def kill(self) -> None:
        """Ends the process with SIGKILL. `restart` starts it again."""
        self._running().kill()
        self._wait()

    def pause(self) -> AbstractContextManager[object]:
        """Stops the process with SIGSTOP: connections stay open, and nothing is answered.

        `unpause`, or the end of a `with` block around it, lets it go on.
        """
        process = self._running()
        if self._is_paused:
            raise IllegalStateError("the broker is paused already")
        process.send_signal(signal.SIGSTOP)
        self._is_paused = True
        ending = ExitStack()
        ending.callback(self.unpause)
        return ending

    def unpause(self) -> None:
        """Lets a paused process go on; nothing happens if it is not paused."""
        if self._is_paused:
            self._running().send_signal(signal.SIGCONT)
            self._is_paused = False

    def restart(self) -> None:
        """Starts it again with the same data at the same address; if it runs, it is stopped cleanly first."""
        if self._folder is None:
            raise IllegalStateError("the broker was never started: call start()")
        if self._process is not None:
            self._terminate()
        self.start()

    def stop(self) -> None:
        """Stops the process cleanly, and removes a temporary folder; nothing happens if it was not started."""
        if self._folder is None:
            return
        try:
            if self._process is not None:
                self._terminate()
        finally:
            atexit.unregister(self.stop)
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder, self._address, self._listen = None, "", self._first_listen

    def _terminate(self) -> None:
        process = self._process
        assert process is not None
        if process.poll() is None:
            self.unpause()
            process.terminate()
        code = self._wait()
        if code not in (0, -signal.SIGKILL):
            raise self._failure(code)

    def _failure(self, code: int) -> OttlaError:
        return OttlaError(f"ottla serve ended with code {code}: {self.log[-SHOWN_LOG_CHARACTERS:]}")

    def _wait(self) -> int:
        """The exit code, once the process has ended; a process that does not end is killed."""
        process, self._process, self._is_paused = self._process, None, False
        assert process is not None
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()
        finally:
            if process.stdout is not None:
                process.stdout.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
