"""`wakeup`: another thread, or a signal handler, ends the call that waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from ottla.errors import WakeupError

Waiting = Callable[[], AbstractContextManager[object]]
"""Makes a section that a wakeup ends with WakeupError."""


class Wakeups:
    """A wakeup ends the call that waits, or the next one, once."""

    def __init__(self) -> None:
        self._is_requested = False
        self._sections: list[_Section] = []

    def request(self) -> None:
        """End the innermost section that waits; where there is none, the next one, or the next `check`."""
        self._is_requested = True
        if self._sections:
            self._sections[-1].interrupt()

    def check(self) -> None:
        """Raise WakeupError if one is requested."""
        if self._is_requested:
            self._is_requested = False
            raise WakeupError("wakeup() was called")

    def waiting(self) -> AbstractContextManager[object]:
        """A section of a call in which only the network is waited for; no user code runs in it."""
        return _Section(self, self._sections)


class _Section(AbstractContextManager[object]):
    """Cancels what its task waits for, as asyncio's own timeouts do."""

    def __init__(self, wakeups: Wakeups, sections: list[_Section]) -> None:
        self._wakeups = wakeups
        self._sections = sections
        self._is_interrupted = False

    def __enter__(self) -> None:
        self._wakeups.check()
        task = asyncio.current_task()
        assert task is not None
        self._task: asyncio.Task[Any] = task
        # Somebody else may cancel the task at the same time: that goes first.
        self._cancelling = task.cancelling()
        self._sections.append(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._sections.remove(self)
        if not self._is_interrupted:
            return
        is_alone = self._task.uncancel() <= self._cancelling
        if is_alone and isinstance(error, asyncio.CancelledError):
            try:
                self._wakeups.check()
            except WakeupError as woken:
                raise woken from error

    def interrupt(self) -> None:
        if not self._is_interrupted:
            self._is_interrupted = True
            self._task.cancel()
