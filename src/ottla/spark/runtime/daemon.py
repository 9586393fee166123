"""Spark's daemon of Python workers, without tracebacks about connections that Spark itself has closed.

When a query fails or is stopped, Spark closes the connections of running tasks, and at any time those of workers that
were idle for a minute. Over TCP the workers seldom notice. Over a Unix socket their next write fails, and Spark's own
daemon prints that traceback between the lines that tell the reason.
"""

from __future__ import annotations

import gc
import socket
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Final

_CLOSED: Final = (BrokenPipeError, ConnectionResetError)
_DAEMON: Final = "pyspark.daemon"
_SOURCE: Final = "pyspark.sql.streaming.python_streaming_source_runner"

Worker = Callable[[socket.socket, bool], int]


def quiet(worker: Worker) -> Worker:
    """A worker function of Spark's that exits with code 1 when its connection is closed."""

    def call(sock: socket.socket, authenticated: bool) -> int:
        try:
            return worker(sock, authenticated)
        except _CLOSED:
            return 1

    return call


def quieten() -> None:
    """Make this process quiet if Spark has started it with its own daemon.

    Spark does so for processes that plan a query, whatever `spark.python.daemon.module` says, and for a stream's
    source.
    """
    main = sys.modules["__main__"]
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if name == _DAEMON:
        # This process is a fork of the daemon, which calls `worker` next.
        main.worker = quiet(main.worker)  # type: ignore[attr-defined]
    elif name == _SOURCE:
        sys.excepthook = _print_unless_closed


def _print_unless_closed(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if not issubclass(kind, _CLOSED):
        sys.__excepthook__(kind, error, trace)


_is_frozen = False


def freeze_loaded_modules() -> None:
    """At the end of a process's first task, exempt the objects of loaded modules from garbage collection.

    Spark's daemon calls `gc.collect()` after every task and every call of the driver. Without this, that took 60 % of
    the processor time of a pipeline's Python workers.
    """
    global _is_frozen
    if not _is_frozen:
        _is_frozen = True
        gc.freeze()


if __name__ == "__main__":
    # Nothing else is imported: workers are forked from this process.
    from pyspark import daemon

    daemon.worker = quiet(daemon.worker)  # type: ignore[assignment]
    daemon.manager()
