"""The thread with the event loop of a blocking client, and how calls get there and back.

A call starts a coroutine on the loop and reads a queue: user code to run on the calling thread (a trampoline: it may
call the client again, and heartbeats go on meanwhile), and in the end the result.

A program that forks must create clients afterwards: threads do not survive a fork, so every call on a client that the
child inherited is refused. The child touches neither the sockets nor the loops of its parent's clients.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
import time
import warnings
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from contextvars import Context
from queue import Empty, SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar

from ottla.client.aio.consumer import single_user, user_code
from ottla.client.interruptible_wait import slices
from ottla.errors import IllegalStateError, TimedOutError
from ottla.event_loop import new_event_loop

logger = logging.getLogger(__name__)

T = TypeVar("T")
Abandon = Callable[[], Awaitable[object]]

# How long the end of the program waits for clients that were not closed.
EXIT_SECONDS = 2.0
# How long an interrupted call waits until the coroutine that it cancelled has cleaned up.
CANCEL_SECONDS = 1.0

FORKED = (
    "{name} was created in another process, and its thread did not survive the fork: "
    "create clients after the fork"
)
CLOSED = "{name} is closed"
DIED = "{name} has lost its thread, which ended with {error!r}: close it and create another"


class _UserCall(NamedTuple):
    """User code that the calling thread has to run."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    answer: asyncio.Future[Any]


class _Call(Generic[T]):
    """A coroutine on the loop that a thread waits for."""

    def __init__(
        self,
        running: _Running,
        coroutine: Coroutine[Any, Any, T],
        unclaimed: Callable[[T], object] | None,
    ) -> None:
        self._running = running
        self._loop = running.loop
        self._coroutine = coroutine
        self._unclaimed = unclaimed
        self._caller = threading.get_ident()
        self._task: asyncio.Task[T] | None = None
        self._ended: weakref.ref[asyncio.Task[T]] | None = None
        # None: the task has ended. A SimpleQueue may be used from signal handlers, and Ctrl-C ends a wait for it.
        self._inbox: SimpleQueue[_UserCall | None] = SimpleQueue()
        self._is_over = False
        # Whether the loop may have been asked to start it.
        self.is_start_requested = False

    def _start(self) -> None:
        """On the loop: start the coroutine; its user code is sent back to the calling thread."""
        if self._is_over:
            self._coroutine.close()
            self._inbox.put(None)
            return
        context = Context()
        context.run(user_code.runner.set, self._run_user_code)
        context.run(single_user.caller.set, self._caller)
        self._task = self._loop.create_task(self._coroutine, context=context)
        self._running.calls.add(self._task)
        self._task.add_done_callback(self._running.calls.discard)
        self._task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[T]) -> None:
        if self._is_over:
            self._dispose(task)
        self._is_over = True
        # While the program ends only daemon threads are left: they would print the error to stderr.
        if not (self._running.is_exiting and task.cancelled()):
            self._inbox.put(None)

    def _dispose(self, task: asyncio.Task[T]) -> None:
        """The calling thread has gone: hand the result to `unclaimed`."""
        unclaimed, self._unclaimed = self._unclaimed, None
        if not task.cancelled() and task.exception() is None and unclaimed is not None:
            unclaimed(task.result())

    async def _run_user_code(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if self._is_over:
            # Interrupted, and cleaning up: the calling thread runs no more user code.
            raise asyncio.CancelledError
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._inbox.put(_UserCall(function, args, answer))
        return await answer

    def wait(self, timeout_seconds: float | None) -> T:
        """On the calling thread: have the coroutine started, and run its user code until it has ended."""
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        try:
            # Inside the try: the coroutine has to be cancelled if an interrupt comes right after it was started.
            self._request_start()
            while (call := self._next(deadline)) is not None:
                self._run_here(call)
            task = self._task
            assert task is not None
            # The task refers to this call, also by tasks that it has started: its result must not stay until the
            # garbage collector runs. An interrupt still finds it, while this frame is there.
            self._ended = weakref.ref(task)
            self._task = None
            failure = None if task.cancelled() else task.exception()
            if failure is None and not task.cancelled():
                # The interpreter handles signals after each call: an interrupt is raised in here, or in the caller.
                return task.result()
        except BaseException as error:
            self._cancel()
            if isinstance(error, Empty):
                message = f"{self._running.name} had no result within {timeout_seconds} s"
                raise TimedOutError(message=message) from None
            raise
        del task  # an exception refers to this frame, which must not refer to the exception
        if failure is None:
            why = f"{self._running.name} was closed while this call waited"
            raise IllegalStateError(self._running.death or why)
        try:
            raise failure
        finally:
            del failure

    def _request_start(self) -> None:
        self.is_start_requested = True
        try:
            self._loop.call_soon_threadsafe(self._start)
        except RuntimeError:
            self._coroutine.close()
            raise IllegalStateError(CLOSED.format(name=self._running.name)) from None

    def _next(self, deadline: float | None) -> _UserCall | None:
        left = None if deadline is None else deadline - time.monotonic()
        for seconds in slices(left):
            # Not `suppress`: an interrupt inside it would have Empty as its context.
            try:
                return self._inbox.get(timeout=seconds)
            except Empty:
                pass
        raise Empty

    def _run_here(self, call: _UserCall) -> None:
        try:
            result = call.function(*call.args)
        except Exception as error:
            self._answer(call.answer, None, error)
        else:
            self._answer(call.answer, result, None)

    def _answer(self, answer: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
        def set_answer() -> None:
            if answer.done():  # cancelled meanwhile, because the client was closed
                return
            if isinstance(error, StopIteration):
                # A future refuses it, because a coroutine that raised it would seem to have returned.
                answer.set_exception(RuntimeError("user code raised StopIteration"))
            elif error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(result)

        self._loop.call_soon_threadsafe(set_answer)

    def _cancel(self) -> None:
        """After Ctrl-C: cancel the coroutine, and wait a moment until it has cleaned up for the next call."""
        self._is_over = True
        # Held by the loop from here on: another interrupt may end the frame that holds it.
        ended = None if self._ended is None else self._ended()

        def cancel() -> None:
            task = self._task or ended
            if task is None:  # `_start` has not run yet, or never will
                self._coroutine.close()
                self._inbox.put(None)
            elif not task.cancel():  # it has ended before
                self._dispose(task)
                self._inbox.put(None)

        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(cancel)
            deadline = time.monotonic() + CANCEL_SECONDS
            with suppress(Empty):
                while self._inbox.get(timeout=max(0.0, deadline - time.monotonic())) is not None:
                    pass  # user code that had not begun is dropped


class _Running:
    """A loop and its thread; without a reference to the client, so that an unused client can be collected."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.loop = new_event_loop()
        self.is_exiting = False
        self.refusal: str | None = None  # why calls are refused
        self.abandon: Abandon | None = None
        self.calls: set[asyncio.Task[Any]] = set()  # tasks that threads wait for
        self.death: str | None = None  # why the thread has ended by itself
        self.on_death: Callable[[str], object] | None = None
        self._is_stopping = False
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.loop.run_forever()
            if not self._is_stopping:
                self._die(RuntimeError("the loop was stopped from outside"))
        except BaseException as error:
            # SystemExit or KeyboardInterrupt in a callback of the user: nothing else would report it.
            self._die(error)
        finally:
            _open.pop(id(self), None)
            self.loop.close()

    def _die(self, error: BaseException) -> None:
        """The loop has ended without `stop`: close the client as one that was forgotten; calls get the reason."""
        self.refusal = self.death = DIED.format(name=self.name, error=error)
        logger.error("%s", self.refusal)
        if self.on_death is not None:
            self.on_death(self.refusal)
        self._is_stopping = True
        for abandon in (self.abandon, None):
            try:
                self._stopping = self.loop.create_task(self._stop_dead(abandon))
                self.loop.run_forever()
                return
            except BaseException as again:
                logger.warning("%s did not end cleanly: %r", self.name, again)

    def call_soon(self, function: Callable[..., object], *args: Any) -> None:
        """Run a function on the loop; does nothing once the loop has ended."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(function, *args)

    def stop(self) -> None:
        """On any thread, without waiting: end the loop's tasks, the loop and the thread."""
        self.call_soon(self._begin_stop, None)

    def stop_forgotten(self) -> None:
        """As `stop`, but `abandon` first: for a client that was not closed."""
        self.call_soon(self._begin_stop, self.abandon)

    def _begin_stop(self, abandon: Abandon | None) -> None:
        if not self._is_stopping:
            self._is_stopping = True
            self._stopping = self.loop.create_task(self._stop(abandon))

    async def _stop_dead(self, abandon: Abandon | None) -> None:
        # Calls end first, with an error: a consumer that is in use could not be closed.
        calls = list(self.calls)
        for task in calls:
            task.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await self._stop(abandon)

    async def _stop(self, abandon: Abandon | None) -> None:
        try:
            if abandon is not None:
                async with asyncio.timeout(EXIT_SECONDS):
                    if self.is_exiting:
                        # Only daemon threads wait now, which get no result: their calls must not delay the end.
                        await _cancel_and_wait(self.calls)
                    await abandon()
        except Exception as error:
            logger.warning("%s did not close cleanly: %r", self.name, error)
        await _cancel_and_wait(asyncio.all_tasks() - {self._stopping})
        await self.loop.shutdown_asyncgens()
        self.loop.stop()


async def _cancel_and_wait(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait until they have ended."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)


class LoopThread:
    """The loop thread of one client."""

    def __init__(self, name: str) -> None:
        self._running = running = _Running(name)
        _open[id(running)] = running
        _register_exit()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._running.loop

    @property
    def ident(self) -> int | None:
        """The identifier of the thread."""
        return self._running.thread.ident

    @property
    def refusal(self) -> str | None:
        """Why calls are refused: the client is closed, or this is a child of the process that made it."""
        return self._running.refusal

    def check(self) -> None:
        """Raise if calls are refused."""
        if self._running.refusal is not None:
            if self._running.is_exiting:
                _let_program_end()
            raise IllegalStateError(self._running.refusal)

    def on_abandon(self, abandon: Abandon) -> None:
        """Called on the loop, with 2 s to run, when the program ends or the client is collected without `close`.

        It must not refer to the blocking client, or that would never be collected.
        """
        self._running.abandon = abandon

    def on_death(self, callback: Callable[[str], object]) -> None:
        """Called on the thread if it ends by itself; like `on_abandon`, it must not refer to the blocking client."""
        self._running.on_death = callback

    def run(
        self,
        coroutine: Coroutine[Any, Any, T],
        timeout_seconds: float | None = None,
        *,
        unclaimed: Callable[[T], object] | None = None,
    ) -> T:
        """Run a coroutine on the loop and wait; its user code (`call_user`) runs on the calling thread.

        An exception on the calling thread (Ctrl-C, the timeout) cancels the coroutine and leaves the client usable. If
        the coroutine has ended already, `unclaimed` is called with its result, on the loop.
        """
        running = self._running
        if running.refusal is not None or threading.get_ident() == running.thread.ident:
            coroutine.close()
            self.check()
            raise IllegalStateError(self._own_thread())
        call = _Call(running, coroutine, unclaimed)
        try:
            return call.wait(timeout_seconds)
        finally:
            if not call.is_start_requested:  # interrupted before the loop knew of it
                coroutine.close()

    def _own_thread(self) -> str:
        return (
            f"a callback of {self._running.name} waits for the client that runs it: "
            "do it on another thread, or after the callback"
        )

    def call_soon(self, function: Callable[..., object], *args: Any) -> None:
        """Run a function on the loop, without waiting; from any thread and from signal handlers.

        Does nothing once the client is closed.
        """
        if self._running.refusal is None:
            self._running.call_soon(function, *args)

    def close(
        self,
        closing: Callable[[], Coroutine[Any, Any, object]] | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        """Run `closing` as `run` does, then end the thread; later calls are refused, another close does nothing."""
        running = self._running
        if running.refusal is not None:
            return
        if threading.get_ident() == running.thread.ident:
            # As in Java, a callback may close its client; it cannot wait for the thread that runs it.
            running.refusal = CLOSED.format(name=running.name)
            running.stop_forgotten()
            return
        stop = running.stop_forgotten
        try:
            if closing is not None:
                self.run(closing(), timeout_seconds)
            stop = running.stop
        finally:
            # If closing failed or was interrupted, the client ends as one that was forgotten.
            running.refusal = CLOSED.format(name=running.name)
            stop()
            running.thread.join(EXIT_SECONDS)

    def __del__(self, _warn: Callable[..., None] = warnings.warn) -> None:
        running: _Running | None = getattr(self, "_running", None)
        if running is None or running.refusal is not None or running.is_exiting:
            return
        running.refusal = CLOSED.format(name=running.name)
        running.stop_forgotten()
        _warn(f"unclosed {running.name}", ResourceWarning, source=self)


# Clients whose threads run, by id: they are closed at the end of the program.
_open: dict[int, _Running] = {}
# A child process keeps its parent's loops alive: collecting one would change the parent's epoll set.
_inherited: list[_Running] = []
_is_registered = False


def _register_exit() -> None:
    # Late, so that it runs before what the program registered earlier, such as the stop of an embedded broker.
    global _is_registered
    if not _is_registered:
        _is_registered = True
        atexit.register(_close_all)


def _let_program_end() -> None:
    """Block daemon threads while the program ends: they would print an error to stderr."""
    thread = threading.current_thread()
    # Not the loop threads of other clients, which have to close; and not for ever: a thread may be joined.
    if thread.daemon and all(thread is not running.thread for running in list(_open.values())):
        time.sleep(EXIT_SECONDS)


def _close_all() -> None:
    """At the end of the program: close all open clients at the same time, within EXIT_SECONDS."""
    waiting = list(_open.values())
    for running in waiting:
        running.is_exiting = True
        running.refusal = CLOSED.format(name=running.name)
        running.stop_forgotten()
    deadline = time.monotonic() + EXIT_SECONDS
    for running in waiting:
        running.thread.join(max(0.0, deadline - time.monotonic()))


def _forget_after_fork() -> None:
    for running in _open.values():
        running.refusal = FORKED.format(name=running.name)
        _inherited.append(running)
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
