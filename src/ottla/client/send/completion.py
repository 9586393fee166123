"""Something that completes once, and wakes the threads, tasks and callbacks that wait for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from threading import Event, Lock
from typing import Final

from ottla.client.interruptible_wait import slices

log = logging.getLogger("ottla.client")

Callback = Callable[[], object]

CALLBACK_FAILURES: Final = (Exception, SystemExit)
"""Exceptions of a user's callback that are caught; a sys.exit() would end the thread that serves all other records."""

# Guards the callbacks of all completions: waiting is rare, and a lock for each batch is not cheap.
_callbacks_lock = Lock()


class Completion:
    """Not done, then done for ever; safe in any thread."""

    __slots__ = ("_callbacks", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        self._callbacks: list[Callback] | None = None

    def when_done(self, callback: Callback) -> bool:
        """Call it once this is done, on the thread that completes it; False if it is done already."""
        with _callbacks_lock:
            if self.is_done:
                return False
            if self._callbacks is None:
                self._callbacks = []
            self._callbacks.append(callback)
            return True

    def wait(self, timeout_seconds: float | None) -> bool:
        """Block the calling thread until this is done; False if the time was not enough."""
        if self.is_done:
            return True
        event = Event()
        if not self.when_done(event.set):
            return True
        try:
            return any(event.wait(seconds) for seconds in slices(timeout_seconds))
        finally:
            self._forget(event.set)

    async def wait_async(self) -> None:
        """Wait on the running loop, whichever thread completes this."""
        if self.is_done:
            return
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()

        def wake() -> None:
            loop.call_soon_threadsafe(_set, waiter)

        if self.when_done(wake):
            try:
                await waiter
            finally:
                self._forget(wake)

    def complete(self) -> None:
        """Become done, and run the callbacks."""
        with _callbacks_lock:
            self.is_done = True
            callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():
            try:
                callback()
            except CALLBACK_FAILURES:
                log.exception("a callback failed")

    def _forget(self, callback: Callback) -> None:
        with _callbacks_lock:
            if self._callbacks is not None and callback in self._callbacks:
                self._callbacks.remove(callback)


def _set(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
