"""One caller at a time: a consumer is not for several tasks or threads at once."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from ottla.errors import IllegalStateError

# Who calls, where that is not the running task: the blocking face sets the number of the thread, for
# which each call runs in a task of its own, also a call out of a callback.
caller: ContextVar[int | None] = ContextVar("ottla_caller", default=None)


def check_loop(own: asyncio.AbstractEventLoop, name: str) -> None:
    """Refuse calls from elsewhere than the loop on which a client was made: all that it waits for is there."""
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    if here is not own:
        raise IllegalStateError(
            f"{name} belongs to the event loop on which it was made: make another on this one, or use the "
            "blocking client, which threads may share if it is a producer"
        )


class SingleUser:
    """Refuses a second caller while there is one; the first may call again from its callbacks."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._user: int | asyncio.Task[Any] | None = None
        self._depth = 0

    def __enter__(self) -> None:
        user = caller.get() or asyncio.current_task()
        if self._user is None:
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
