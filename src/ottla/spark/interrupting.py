"""Ctrl-C and SIGTERM wait until Spark's Java has answered.

An exception in the middle of a question leaves an answer that nobody has read on the connection: the next question
gets it, or fails with an error that hides why.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Final, Self

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class HeldSignals:
    """Notes a signal instead of raising it; whoever came first is raised again at the end.

    A second one is not held: nobody should have to wait for a Java that does not answer.
    """

    def __init__(self) -> None:
        self._before: dict[signal.Signals, object] = {}
        self._noted: int | None = None

    @property
    def is_noted(self) -> bool:
        """Whether one came: time to stop."""
        return self._noted is not None

    def __enter__(self) -> Self:
        # Only the main thread gets signals, and may say who handles them.
        if threading.current_thread() is threading.main_thread():
            self._before = {each: signal.signal(each, self._note) for each in _SIGNALS}
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted = number
        self._restore()

    def _restore(self) -> None:
        for each, handler in self._before.items():
            # None is a handler that was not set from Python, and cannot be.
            if handler is not None:
                signal.signal(each, handler)  # type: ignore[arg-type]
        self._before = {}

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()
        if self._noted is not None:
            signal.raise_signal(self._noted)
