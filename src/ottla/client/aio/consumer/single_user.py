"""A consumer serves one task or thread at a time, and one poll."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from ottla.errors import IllegalStateError

# The caller, where that is not the running task. The blocking clients set the thread's number: each of their calls
# runs in a task of its own, also a call that a callback makes on the same thread.
caller: ContextVar[int | None] = ContextVar("ottla_caller", default=None)


class SingleUser:
    """Refuses a second caller while a call is running; the first caller may call again from its callbacks."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._user: int | asyncio.Task[Any] | None = None
        self._depth = 0
        self.before_use: Callable[[int | None], bool] = _is_free
        """Called with the caller's thread before a first call; False if another thread uses the consumer."""

    def __enter__(self) -> None:
        thread = caller.get()
        user = thread or asyncio.current_task()
        if self._user is None and self.before_use(thread):
            self._user = user
        elif self._user != user:
            raise IllegalStateError(
                f"{self._name} is in use by another task or thread: a consumer serves one at a time "
                "(only wakeup() may be called by others)"
            )
        self._depth += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._depth -= 1
        if not self._depth:
            self._user = None


class SinglePoll:
    """A poll, which refuses another one that its own listeners, deserializers and so on begin.

    The inner one would return records before those that the outer one is reading, or end an iteration that it began.
    """

    def __init__(self, user: SingleUser) -> None:
        self._user = user
        self._is_running = False
        self.is_reading: Callable[[], bool] = lambda: False
        """Whether the calling thread reads records outside of a call."""

    def __enter__(self) -> None:
        self._user.__enter__()
        if self._is_running or self.is_reading():
            self._user.__exit__(None, None, None)
            raise IllegalStateError(
                "this poll was called by code that another poll is running (a listener, deserializer, interceptor, "
                "assignor or callback): poll after it has returned"
            )
        self._is_running = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_running = False
        self._user.__exit__(kind, error, trace)


def _is_free(thread: int | None) -> bool:
    del thread
    return True
