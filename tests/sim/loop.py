"""An event loop whose time is virtual: when nothing is ready it jumps to the next timer.

Everything that runs on it is a function of what was scheduled: there is no selector, no thread, no real clock.
What a node schedules carries the node in its context (`OWNER`); when the node dies, none of it runs any more.
"""

from __future__ import annotations

import asyncio
import heapq
import inspect
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, TypeVarTuple

if TYPE_CHECKING:
    # A type checker takes the methods that a simulation has no use for, sockets and the like, for missing.
    from asyncio import BaseEventLoop as _Loop
else:
    from asyncio import AbstractEventLoop as _Loop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

MAX_STEPS = 2_000_000
# What is done on a thread takes so long.
THREAD_SECONDS = 0.003


class Owner:
    """Somebody whose timers, tasks and callbacks end with it; they run in its context."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alive = True
        self.frozen_until = 0.0
        # What became due while it stood still: it runs afterwards, in this order and before anything newer.
        self.held: deque[asyncio.Handle] = deque()
        self.context = copy_context()
        self.context.run(OWNER.set, self)

    def freeze_until(self, when: float) -> None:
        """Stands still until then; if it does already, until the later of the two."""
        self.frozen_until = max(self.frozen_until, when)

    def __repr__(self) -> str:
        return self.name


OWNER: ContextVar[Owner | None] = ContextVar("owner", default=None)


class NodeDiedError(BaseException):
    """Ends what a node is doing at the moment of its death; no code of the broker catches it."""


class NothingLeftToDoError(AssertionError):
    """Somebody waits, and there is no timer that could ever wake them."""


class VirtualLoop(_Loop):
    """Runs callbacks in the order in which they were scheduled, timers in the order of their times."""

    def __init__(self) -> None:
        self._now = 0.0
        self._ready: deque[tuple[Owner | None, asyncio.Handle]] = deque()
        self._timers: list[tuple[float, int, Owner | None, asyncio.Handle]] = []
        self._timer_count = 0
        self._tasks: list[asyncio.Task[Any]] = []
        self._is_closed = False
        self._is_running = False
        self._aborted: Exception | None = None
        self.steps = 0
        self.failures: list[str] = []  # callbacks that raised, which asyncio would only log

    def time(self) -> float:
        return self._now

    # Scheduling: asyncio's own classes call these.

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append((_owner_of(context), handle))
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._timer_count += 1
        heapq.heappush(self._timers, (when, self._timer_count, _owner_of(context), handle))
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A cancelled timer stays in its place and is skipped there."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        # A name of our own: asyncio's default counts the tasks of the whole process.
        task: asyncio.Task[T] = asyncio.Task(
            coro, loop=self, name=str(name or f"task-{len(self._tasks)}"), context=context
        )
        self._tasks.append(task)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        # Without a handle it is about something that was garbage collected, whenever that was.
        if "handle" in context and not isinstance(context.get("exception"), NodeDiedError):
            self.failures.append(f"{context['message']}: {context.get('exception')!r}")

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._is_running

    def is_closed(self) -> bool:
        return self._is_closed

    # Threads would make a run depend on more than its seed.

    def run_in_executor(
        self, executor: Any, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Runs what is for a thread a little later, between two callbacks."""
        done: asyncio.Future[T] = self.create_future()

        def work() -> None:
            if done.done():
                return
            try:
                done.set_result(func(*args))
            except Exception as error:
                done.set_exception(error)

        self.call_later(THREAD_SECONDS, work)
        return done

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> NoReturn:
        raise RuntimeError("a simulation has no threads")

    # Running.

    def run_until_complete(self, future: Any) -> Any:
        awaited = asyncio.ensure_future(future, loop=self)
        self._is_running = True
        events._set_running_loop(self)
        try:
            while not awaited.done() and self._aborted is None:
                self._step()
        finally:
            self._is_running = False
            events._set_running_loop(None)
        if self._aborted is not None:
            raise self._aborted
        return awaited.result()

    def abort(self, error: Exception) -> None:
        """Ends the run after the current callback, whoever may catch what it raises."""
        self._aborted = self._aborted or error

    def _step(self) -> None:
        """Runs the callback that is next."""
        owner, handle = self._ready.popleft() if self._ready else self._next_timer()
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise AssertionError(f"after {MAX_STEPS} callbacks there is no end in sight")
        if handle.cancelled() or (owner is not None and not owner.is_alive):
            return
        if owner is not None and (owner.held or owner.frozen_until > self._now):
            if not owner.held:
                self.call_at(owner.frozen_until, self._thaw, owner, context=Context())
            owner.held.append(handle)
            return
        handle._run()

    def _thaw(self, owner: Owner) -> None:
        """Has run what became due while its owner stood still, unless it was stopped again in between."""
        if owner.frozen_until > self._now:
            self.call_at(owner.frozen_until, self._thaw, owner, context=Context())
            return
        held, owner.held = owner.held, deque()
        self._ready.extendleft((owner, handle) for handle in reversed(held))

    def _next_timer(self) -> tuple[Owner | None, asyncio.Handle]:
        timers = self._timers
        while timers:
            when, _, owner, handle = heapq.heappop(timers)
            if not handle.cancelled():
                self._now = max(self._now, when)
                return owner, handle
        raise NothingLeftToDoError("nothing is scheduled, and somebody waits")

    def close(self) -> None:
        """Drops whatever has not run; coroutines are ended so that nobody wonders about them later."""
        self._is_closed = True
        self._ready.clear()
        self._timers.clear()
        for task in self._tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                _end(task.get_coro())


def _end(coroutine: Any) -> None:
    """Closes a coroutine, and those that it was given: a done callback does that for one that has not begun."""
    if not inspect.iscoroutine(coroutine):
        return
    frame = coroutine.cr_frame
    given = [] if frame is None else [*frame.f_locals.values()]
    del frame
    with suppress(BaseException):
        coroutine.close()
    for each in given:
        if inspect.iscoroutine(each):
            with suppress(BaseException):
                each.close()


def _owner_of(context: Context | None) -> Owner | None:
    return OWNER.get() if context is None else context.get(OWNER)
