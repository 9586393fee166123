"""Continuing when an engine is done, which may be at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from ottla.ports.errors import ReadPendingError

T = TypeVar("T")


async def settled(outcome: asyncio.Future[T] | T) -> T:
    """The result of an engine's call, once it is there."""
    return await outcome if isinstance(outcome, asyncio.Future) else outcome


async def when_read(read: Callable[[], T]) -> T:
    """The result of an engine's read, which is made again when the engine has fetched what it needs."""
    while True:
        try:
            return read()
        except ReadPendingError as pending:
            done = pending.done
        await asyncio.wait([done])


def after(
    outcome: asyncio.Future[None] | None, follow: Callable[[], asyncio.Future[None] | None]
) -> asyncio.Future[None] | None:
    """Calls `follow` when an engine is done: now if it is. The first failure is raised, or fails the future."""
    if outcome is None:
        return follow()
    result: asyncio.Future[None] = outcome.get_loop().create_future()

    def go_on(done: asyncio.Future[None]) -> None:
        if result.done():
            return
        error = _failure_of(done)
        if error is None:
            try:
                following = follow()
            except Exception as failure:
                error = failure
            else:
                if following is not None:
                    following.add_done_callback(end)
                    return
        _end(result, error)

    def end(done: asyncio.Future[None]) -> None:
        if not result.done():
            _end(result, _failure_of(done))

    outcome.add_done_callback(go_on)
    return result


def _failure_of(done: asyncio.Future[None]) -> BaseException | None:
    return asyncio.CancelledError() if done.cancelled() else done.exception()


def _end(result: asyncio.Future[None], error: BaseException | None) -> None:
    if error is None:
        result.set_result(None)
    elif isinstance(error, asyncio.CancelledError):
        result.cancel()
    else:
        result.set_exception(error)
