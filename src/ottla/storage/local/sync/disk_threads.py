"""The threads on which a local store waits for its disk."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class StorageThreads(ThreadPoolExecutor):
    """Threads that give way to the calling one when the program ends.

    Python ends the threads of all executors before it calls what was registered with atexit, and from 3.12 on it
    starts no thread then. An embedded broker that was not stopped before is stopped there, and has logs to sync.
    """

    _is_shut = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        try:
            return super().submit(fn, *args, **kwargs)
        except RuntimeError:
            if self._is_shut:
                raise
        done: Future[T] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done

    def shutdown(self, *args: Any, **kwargs: Any) -> None:
        self._is_shut = True
        super().shutdown(*args, **kwargs)
