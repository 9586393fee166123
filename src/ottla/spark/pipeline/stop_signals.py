"""SIGINT and SIGTERM while a pipeline runs: recorded by the handler, obeyed between two looks at the query.

A handler that raises could interrupt a call to Spark's Java in the middle, and that connection is unusable afterwards:
the query could not be stopped in order.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Final, Self, TypeVar

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_LOOK_SECONDS: Final = 0.1

T = TypeVar("T")


class Stop:
    """Records a signal to stop the pipeline. A second signal takes effect at once."""

    def __init__(self, tell: Callable[[], None] = lambda: None) -> None:
        self._tell = tell
        self._is_told = False
        self._number: int | None = None
        self._before: dict[int, Any] = {}

    @property
    def is_wanted(self) -> bool:
        """Whether a signal came."""
        return self._number is not None

    def notice(self) -> bool:
        """As `is_wanted`; the first time it calls `tell`, which must not be called in the handler."""
        if self.is_wanted and not self._is_told:
            self._is_told = True
            # The reader of our output may have ended with the same Ctrl-C.
            with suppress(OSError):
                self._tell()
        return self.is_wanted

    def sleep(self, seconds: float) -> None:
        """Wait, unless a signal comes."""
        # Not with an Event: a handler that sets one may have interrupted the thread that holds its lock.
        end = time.monotonic() + seconds
        while not self.is_wanted and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_SECONDS))

    def shield(self, work: Callable[[], T]) -> T:
        """Run work that would install a signal handler in a thread, where it cannot; a second signal ends the wait."""
        done: Future[T] = Future()

        def try_it() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=try_it, name="shielded", daemon=True).start()
        # With a timeout: a signal that comes just before the thread begins to wait does not wake it.
        while not wait([done], _LOOK_SECONDS).done:
            self.notice()
        return done.result()

    def obey(self) -> None:
        """Restore the handlers and raise the recorded signal: Ctrl-C becomes a KeyboardInterrupt."""
        self._restore()
        if self._number is not None:
            signal.raise_signal(self._number)

    def _record(self, number: int, frame: FrameType | None) -> None:
        is_second = self.is_wanted
        self._number = number
        if is_second:
            self.obey()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            # None stands for a handler that was not installed from Python and cannot be restored.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._before.clear()

    def __enter__(self) -> Self:
        # Python allows handlers only in the main thread.
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._before[number] = signal.signal(number, self._record)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()
