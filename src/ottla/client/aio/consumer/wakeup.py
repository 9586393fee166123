"""Wakes a call that waits: for a change that a poll has to look at, or for `Consumer.wakeup`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from ottla.errors import WakeupError

Interruptible = Callable[[], AbstractContextManager[object]]
"""Opens a section that a wakeup interrupts with WakeupError."""


class Wakeups:
    """A wakeup interrupts one call: the one that waits, or else the next one that could wait."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        """Set when a waiting poll has to look at the state of the consumer again."""
        self._is_requested = False
        self._sections: list[_Section] = []

    def request(self) -> None:
        """Interrupt the innermost open section; if none is open, the next one, or the next `check`."""
        self._is_requested = True
        self.changed.set()
        if self._sections:
            self._sections[-1].interrupt()

    def check(self) -> None:
        """Raise WakeupError if a wakeup was requested."""
        if self._is_requested:
            self._is_requested = False
            raise WakeupError("wakeup() was called")

    def interruptible(self) -> AbstractContextManager[object]:
        """A section of a call that waits for the network only: no user code may run in it."""
        return _Section(self, self._sections)


class _Section(AbstractContextManager[object]):
    """Cancels what its task waits for, as `asyncio.timeout` does."""

    def __init__(self, wakeups: Wakeups, sections: list[_Section]) -> None:
        self._wakeups = wakeups
        self._sections = sections
        self._is_interrupted = False

    def __enter__(self) -> None:
        self._wakeups.check()
        task = asyncio.current_task()
        assert task is not None
        self._task: asyncio.Task[Any] = task
        # If the program cancels the task at the same time, the cancellation wins.
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
