"""The line between a supervisor and a worker process: reports of the worker, as JSON lines over a socket pair.

The end of the line tells the worker that its supervisor has gone, so that it never outlives it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final

from ottla.app.life.health_routes import HealthSource
from ottla.exposition import Metric, Page
from ottla.histogram import Histogram

# The worker finds the number of its end of the line in this variable of its environment.
LINK_VARIABLE: Final = "OTTLA_APP_WORKER_LINK"
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
_ANSWER_SECONDS: Final = 2.0


class WorkerEnd:
    """The worker's end: answers questions on a thread, also while the app's loop is blocked."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._source: HealthSource | None = None
        self._files: Callable[[], Iterable[str]] = tuple

    @classmethod
    def from_environment(cls) -> WorkerEnd | None:
        """The line of this process, if a supervisor has started it."""
        text = os.environ.pop(LINK_VARIABLE, None)
        if text is None:
            return None
        connection = socket.socket(fileno=int(text))
        # Processes that the app starts must not keep the line open.
        connection.set_inheritable(False)
        return cls(connection)

    def start(self) -> None:
        """Answer from now on."""
        threading.Thread(target=self._serve, name="ottla-app-worker-link", daemon=True).start()

    def serve(self, source: HealthSource, files: Callable[[], Iterable[str]]) -> None:
        """From now on reports have the health of this app."""
        self._source, self._files = source, files

    def tell_files(self, files: Iterable[str]) -> None:
        """Tell the supervisor which files the program has been loaded from."""
        self._send({"files": sorted(files)})

    def _serve(self) -> None:
        with contextlib.suppress(OSError), self._connection.makefile("rb") as questions:
            for _ in questions:
                self._send(self._report())
        # The supervisor has gone: drain, as if it had asked for that.
        os.kill(os.getpid(), signal.SIGTERM)

    def _report(self) -> dict[str, Any]:
        source = self._source
        if source is None:
            return {"report": None}
        return {
            "report": {
                "health": source.health(),
                "readiness": source.readiness(),
                "samples": samples_of(source.page()),
            },
            "files": sorted(self._files()),
        }

    def _send(self, message: dict[str, Any]) -> None:
        line = json.dumps(message).encode() + b"\n"
        with self._lock, contextlib.suppress(OSError):
            self._connection.sendall(line)


class SupervisorEnd:
    """The supervisor's end of the line to one worker."""

    def __init__(self) -> None:
        self._connection, self.workers_end = socket.socketpair()
        self._asking = threading.Lock()
        self._answered = threading.Condition()
        self._reports = 0
        self._report: dict[str, Any] | None = None
        self._files: set[str] = set()
        threading.Thread(target=self._read, name="ottla-app-worker-reports", daemon=True).start()

    def started(self) -> None:
        """The worker has its end now; ours is the only other one."""
        self.workers_end.close()

    @property
    def files(self) -> set[str]:
        """The files of the program, as far as the worker has told."""
        with self._answered:
            return set(self._files)

    def report(self) -> dict[str, Any] | None:
        """Health, readiness and samples now; None if the worker does not answer or has not started its app."""
        with self._asking:
            with self._answered:
                before = self._reports
            try:
                self._connection.sendall(b"report\n")
            except OSError:
                return None
            with self._answered:
                has_answered = self._answered.wait_for(
                    lambda: self._reports > before, _ANSWER_SECONDS
                )
                return self._report if has_answered else None

    def close(self) -> None:
        """Close the line, which ends the worker if it still runs."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError), self._connection.makefile("rb") as lines:
            while (line := lines.readline(MAX_LINE_BYTES)).endswith(b"\n"):
                message = json.loads(line)
                with self._answered:
                    self._files |= set(message.get("files", ()))
                    if "report" in message:
                        self._report = message["report"]
                        self._reports += 1
                        self._answered.notify_all()


def samples_of(page: Page) -> list[Any]:
    """A page as data for JSON."""
    return [[*metric, dict(labels), _plain(value)] for metric, labels, value in page.samples()]


def add_samples(page: Page, samples: Iterable[Any], **labels: str) -> None:
    """Add samples of another process to a page, with more labels."""
    for name, kind, text, own, value in samples:
        page.add(Metric(name, kind, text), _value_of(value), **own, **labels)


def _plain(value: float | Histogram) -> Any:
    if not isinstance(value, Histogram):
        return value
    return {"bounds": list(value.bounds), "counts": list(value.counts), "total": value.total}


def _value_of(plain: Any) -> float | Histogram:
    if not isinstance(plain, dict):
        return float(plain)
    histogram = Histogram(tuple(plain["bounds"]))
    histogram.counts = list(plain["counts"])
    histogram.total = plain["total"]
    return histogram
