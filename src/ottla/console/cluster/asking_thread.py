"""The thread of the poller: its loop, and its own clients, so that thousands of topics hold up no browser."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from ottla.event_loop import new_event_loop

T = TypeVar("T")

STOP_SECONDS: Final = 5.0


class AskingThread:
    """Runs coroutines on a loop of its own, for callers on another loop."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        assert self._loop is not None
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result; `work` is cancelled with the caller."""
        assert self._loop is not None
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def stop(self) -> None:
        """End the loop and wait for the thread; work that goes on is cancelled."""
        if self._loop is None or self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._loop.create_task, self._end())
        await asyncio.to_thread(self._thread.join, STOP_SECONDS)
        self._loop = self._thread = None

    async def _end(self) -> None:
        loop = asyncio.get_running_loop()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        loop.stop()
