"""SIGINT and SIGTERM while a pipeline runs: noted, and obeyed between two looks at the query.

A handler that raises would do so in the middle of a conversation with Spark's Java, which cannot go on after that: the
query could not be stopped in order, and its log would fill with the consequences.
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
    """Whether somebody wants the pipeline to stop. A second signal does not wait."""

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
        """As `is_wanted`; whoever wants to know is told, once, and not in the handler."""
        if self.is_wanted and not self._is_told:
            self._is_told = True
            # Whoever read it may have gone with the same Ctrl-C: stopping matters more.
            with suppress(OSError):
                self._tell()
        return self.is_wanted

    def sleep(self, seconds: float) -> None:
        """Wait, unless a signal comes."""
        # Not for an event: a handler that sets one may have interrupted whoever holds its lock.
        end = time.monotonic() + seconds
        while not self.is_wanted and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_SECONDS))

    def shield(self, work: Callable[[], T]) -> T:
        """Do what would install a handler of its own in a thread, where it cannot; a second signal ends the waiting."""
        done: Future[T] = Future()

        def try_it() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=try_it, name="shielded", daemon=True).start()
        # Not without a limit: a signal that comes just before a thread begins to wait does not wake it.
        while not wait([done], _LOOK_SECONDS).done:
            self.notice()
        return done.result()

    def obey(self) -> None:
        """Do what the signal does where nobody notes it: Ctrl-C raises KeyboardInterrupt."""
        self._restore()
        if self._number is not None:
            signal.raise_signal(self._number)

    def _note(self, number: int, frame: FrameType | None) -> None:
        is_second = self.is_wanted
        self._number = number
        if is_second:
            self.obey()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            # One that Python did not install cannot be installed by it.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._before.clear()

    def __enter__(self) -> Self:
        # Handlers are for main threads.
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()
