"""Spark's parent of Python workers, quiet about connections that Spark itself has closed.

When a query fails or is stopped, Spark closes the connections of tasks that are still at work, and at any time those
of processes that have had nothing to do for a minute. Through TCP they seldom notice. Through a socket of the file
system their next word fails, and Spark's own daemon writes that traceback among the lines of whoever tells the reason.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Final

_GONE: Final = (BrokenPipeError, ConnectionResetError)
_DAEMON: Final = "pyspark.daemon"
_SOURCE: Final = "pyspark.sql.streaming.python_streaming_source_runner"

Worker = Callable[[socket.socket, bool], int]


def quiet(worker: Worker) -> Worker:
    """A worker of Spark's, whose exit code is 1 if nobody listens to it any more."""

    def call(sock: socket.socket, authenticated: bool) -> int:
        try:
            return worker(sock, authenticated)
        except _GONE:
            return 1

    return call


def quieten() -> None:
    """Make this process quiet, if Spark has started it in its own way.

    That is how it starts those that plan a query, whatever `spark.python.daemon.module` says, and a stream's source.
    """
    main = sys.modules["__main__"]
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if name == _DAEMON:
        # A fork of the daemon: what it does next.
        main.worker = quiet(main.worker)  # type: ignore[attr-defined]
    elif name == _SOURCE:
        sys.excepthook = _tell


def _tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, _GONE):
        sys.__excepthook__(kind, error, trace)


if __name__ == "__main__":
    # Nothing else is imported: workers are forked from this process.
    from pyspark import daemon

    daemon.worker = quiet(daemon.worker)  # type: ignore[assignment]
    daemon.manager()
