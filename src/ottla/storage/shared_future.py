"""The future of a change that several callers await."""

from __future__ import annotations

import asyncio


class SharedFuture(asyncio.Future[None]):
    """One that a caller cancels must not be cancelled for the others."""

    def cancel(self, msg: object = None) -> bool:
        return False


def unwatched_future() -> SharedFuture:
    """One whose failure need not be read by anybody: the engine has acted on it."""
    made = SharedFuture(loop=asyncio.get_running_loop())
    made.add_done_callback(_read_failure)
    return made


def _read_failure(done: asyncio.Future[None]) -> None:
    done.exception()
