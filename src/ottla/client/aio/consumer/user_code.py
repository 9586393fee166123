"""Calls of user code: listeners, interceptors, assignors, deserializers, callbacks of commits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from inspect import isawaitable
from typing import Any

Runner = Callable[[Callable[..., Any], tuple[Any, ...]], Awaitable[Any]]

# None means on the loop. The blocking clients set a runner that passes the call to the thread that waits for the
# client, so that heartbeats go on while it runs.
runner: ContextVar[Runner | None] = ContextVar("ottla_user_code_runner", default=None)


async def call_user(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of the program on the right thread; an awaitable result is awaited."""
    run = runner.get()
    result = function(*args) if run is None else await run(function, args)
    return await result if isawaitable(result) else result


def no_user_code() -> None:
    """Skip user code in the running task and the tasks that it starts: the thread that would run it has gone."""
    runner.set(_skip)


async def _skip(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    del function, args
