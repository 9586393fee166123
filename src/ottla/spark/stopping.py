"""SIGINT and SIGTERM while a pipeline runs: noted, and obeyed between two looks at the query.

A handler that raises would do so in the middle of a conversation with Spark's Java, which cannot go on after that: the
query could not be stopped in order, and its log would fill with the consequences.
"""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any, Final, Self

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_LOOK_SECONDS: Final = 0.1


class Stop:
    """Whether somebody wants the pipeline to stop. A second signal does not wait."""

    def __init__(self) -> None:
        self._number: int | None = None
        self._before: dict[int, Any] = {}

    @property
    def is_wanted(self) -> bool:
        """Whether a signal came."""
        return self._number is not None

    def sleep(self, seconds: float) -> None:
        """Wait, unless a signal comes."""
        # Not for an event: a handler that sets one may have interrupted whoever holds its lock.
        end = time.monotonic() + seconds
        while not self.is_wanted and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_SECONDS))

    def listen(self) -> None:
        """Note signals from now on, also if somebody has installed handlers in between; they are for main threads."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _SIGNALS:
            found = signal.getsignal(number)
            if found != self._note:
                self._before[number] = found
                signal.signal(number, self._note)

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
        self.listen()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()
