"""Threads for handlers that are plain functions.

There are as many as calls at the same time: workers limit those. A handler that hangs keeps its thread, and no other
handler waits for it; the threads are daemons, so that it cannot keep the program from ending either.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple

_IDLE_SECONDS: Final = 10.0
_HERE: Final = threading.local()


def is_handler_thread() -> bool:
    """Whether this is a thread of a plain handler, outside of any event loop that the handler runs itself."""
    if not getattr(_HERE, "is_handler", False):
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return True
    return False


class _Call(NamedTuple):
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    context: Context
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]


class HandlerThreads:
    """Runs functions in threads, with the context variables of the caller."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._started = 0

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What the function returns. If this is cancelled, the thread goes on, and its result is dropped."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        call = _Call(function, arguments, copy_context(), loop, answer)
        with self._lock:
            if self._idle:
                self._idle -= 1
                is_taken = True
            else:
                self._started += 1
                is_taken = False
        if is_taken:
            self._calls.put(call)
        else:
            name = f"{self._name}-handler-{self._started}"
            threading.Thread(target=self._work, args=(call,), name=name, daemon=True).start()
        return await answer

    def _work(self, call: _Call | None) -> None:
        _HERE.is_handler = True
        while call is not None:
            _run(call)
            with self._lock:
                self._idle += 1
            call = self._next()

    def _next(self) -> _Call | None:
        while True:
            try:
                return self._calls.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self._lock:
                    # A caller that has counted on this thread puts its call in a moment.
                    if self._idle > 0 and self._calls.empty():
                        self._idle -= 1
                        return None


def _run(call: _Call) -> None:
    try:
        result = call.context.run(call.function, *call.arguments)
    except BaseException as error:
        _answer(call, None, error)
    else:
        _answer(call, result, None)


def _answer(call: _Call, result: Any, error: BaseException | None) -> None:
    def set_answer() -> None:
        if call.answer.done():
            return
        if isinstance(error, StopIteration):
            # A future refuses it.
            call.answer.set_exception(RuntimeError("the handler raised StopIteration"))
        elif error is not None:
            call.answer.set_exception(error)
        else:
            call.answer.set_result(result)

    with suppress(RuntimeError):  # the loop has been closed: no caller waits any more
        call.loop.call_soon_threadsafe(set_answer)
