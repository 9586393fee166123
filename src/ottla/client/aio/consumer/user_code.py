"""Where the consumer's user code runs: listeners, interceptors, assignors, commit callbacks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from inspect import isawaitable
from typing import Any

Runner = Callable[[Callable[..., Any], tuple[Any, ...]], Awaitable[Any]]

# None: here, on the loop. The blocking clients set one that hands the call to the thread that waits for the client, so
# that heartbeats go on while it runs.
runner: ContextVar[Runner | None] = ContextVar("ottla_user_code_runner", default=None)


async def call_user(function: Callable[..., Any], *args: Any) -> Any:
    """Runs user code where it belongs; what it returns is awaited if it can be."""
    run = runner.get()
    result = function(*args) if run is None else await run(function, args)
    return await result if isawaitable(result) else result


def no_user_code() -> None:
    """Has the running task, and those that it starts, call none: its place is gone."""
    runner.set(_skip)


async def _skip(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    del function, args
