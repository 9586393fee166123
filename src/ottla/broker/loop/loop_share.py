"""The event loop's time, shared out: long work goes on in slices of a few milliseconds.

One slice of long work is done in a turn of the loop; in between the loop serves other requests. Long work queues for
its next slice, so that no client gets more of the loop by asking for more at once. Short work has time of its own in
each turn, so that it does not wait behind long work: work that begins in this turn, and frames that did not fit into
the turn in which they arrived, which have a queue of their own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

T = TypeVar("T")

# How long work goes on before the loop serves other requests.
SLICE_SECONDS: Final = 0.005
# So many steps of a generator are taken at once, before it is known whether it will be long: a few of them whatever
# they take, the others for so long at most.
FIRST_STEPS: Final = 64
UNTIMED_STEPS: Final = 4
FIRST_SECONDS: Final = 0.001
# The same while frames are queued, which should not wait long.
CROWDED_SECONDS: Final = 0.00025
# How long the frames of all connections are handled that arrived in one turn of the loop, and as long queued ones: of
# those each connection has one frame handled, and queues again with the rest.
TURN_SECONDS: Final = 0.02
# Of so many connections one frame each is handled before their time is taken: a connection that is alone, or one of a
# few, does not have the clock read.
UNTIMED_FRAMES: Final = 8
# So many large requests are decoded at a time; others wait as the bytes in which they arrived.
LARGE_REQUESTS: Final = 4


def at_once(steps: Generator[None, None, T]) -> T:
    """Runs a generator without pauses, and returns its result: for work that is known to be short."""
    try:
        while True:
            next(steps)
    except StopIteration as done:
        result: T = done.value
        return result


class LoopShare:
    """Hands out slices of one event loop."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now  # in seconds
        self._short_calls: deque[Callable[[], None]] = deque()
        self._pauses: deque[asyncio.Future[None]] = deque()  # work that waits for its next slice
        self._serves_soon = False
        self._thread = asyncio.Lock()
        self._new_work_end = 0.0  # in this turn of the loop; 0 before there was any
        self._frames_end = 0.0  # as well
        self._frames_are_timed = False  # in this turn of the loop
        self._untimed_frames = 0
        self._large_requests = 0
        self._waiting_requests: deque[asyncio.Future[None]] = deque()

    # Slices.

    def call_next(self, work: Callable[[], None]) -> None:
        """Calls a short function in a later turn of the loop, after those that were queued before it."""
        self._short_calls.append(work)
        self._serve_soon()

    async def pause(self) -> None:
        """Lets the loop serve other requests."""
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pauses.append(mine)
        self._serve_soon()
        await mine

    def _serve_soon(self) -> None:
        if not self._serves_soon:
            self._serves_soon = True
            asyncio.get_running_loop().call_soon(self._serve)

    def _serve(self) -> None:
        """Continues queued work: short calls for a while, and one slice of long work."""
        self._serves_soon = False
        try:
            while self._pauses:
                first = self._pauses.popleft()
                if not first.done():
                    first.set_result(None)
                    break
            if self._short_calls:
                self._call_queued()
        finally:
            if self._pauses or self._short_calls:
                self._serve_soon()

    def _call_queued(self) -> None:
        calls = self._short_calls
        calls.popleft()()
        # Only calls that are queued now: what they add is for a later turn.
        following = len(calls)
        if following:
            end = self._now() + TURN_SECONDS
            while following and self._now() < end:
                calls.popleft()()
                following -= 1

    async def run(self, steps: Generator[None, None, T]) -> T:
        """Runs a generator a slice at a time, and returns its result; it is closed if the caller is cancelled."""
        now = self._now
        try:
            end = self._end_of_new_work()
            if end is None:
                await self.pause()
                end = now() + SLICE_SECONDS
            while True:
                next(steps)
                while now() < end:
                    next(steps)
                await self.pause()
                end = now() + SLICE_SECONDS
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            steps.close()

    def _end_of_new_work(self) -> float | None:
        """Until when new work may go on in this turn of the loop; None if all of that time is used."""
        now = self._now()
        if self._new_work_end == 0.0:
            self._new_work_end = now + SLICE_SECONDS
            asyncio.get_running_loop().call_soon(self._allow_new_work)
        return self._new_work_end if now < self._new_work_end else None

    def _allow_new_work(self) -> None:
        self._new_work_end = 0.0

    def answer(
        self, steps: Generator[None, None, T], first_steps: int = FIRST_STEPS
    ) -> T | Coroutine[Any, Any, T]:
        """The result of a generator that takes few steps and little time; else a coroutine that runs it in slices."""
        try:
            untimed, seconds = min(first_steps, UNTIMED_STEPS), FIRST_SECONDS
            if self._short_calls:
                untimed, seconds = 0, CROWDED_SECONDS
            for _ in range(untimed):
                next(steps)
            end = self._now() + seconds
            for _ in range(first_steps - untimed):
                next(steps)
                if self._now() >= end:
                    break
        except StopIteration as done:
            result: T = done.value
            return result
        return self.run(steps)

    async def elsewhere(self, function: Callable[..., T], *arguments: object) -> T:
        """Runs a function on a thread, and returns its result: one at a time, in the order of the calls."""
        async with self._thread:
            return await asyncio.to_thread(function, *arguments)

    # Frames.

    def first_frame_waits(self) -> bool:
        """Whether the first frame that a connection has in a turn of the loop has to wait for a later one.

        The clock is not read before several connections had frames, be it in this turn or in earlier ones: to learn
        of the end of every turn would cost more than it is worth.
        """
        if self._frames_are_timed:
            return self.frames_had_their_time()
        self._untimed_frames += 1
        if self._untimed_frames >= UNTIMED_FRAMES:
            self._time_frames()
        return False

    def frames_had_their_time(self) -> bool:
        """Whether the frames of this turn of the loop have taken as long as they may."""
        now = self._now()
        if self._frames_end == 0.0:
            self._frames_end = now + TURN_SECONDS
            if not self._frames_are_timed:
                self._time_frames()
            return False
        return now >= self._frames_end

    def _time_frames(self) -> None:
        self._frames_are_timed = True
        asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._frames_end = 0.0
        self._frames_are_timed = False
        self._untimed_frames = 0

    # Large requests.

    @asynccontextmanager
    async def large_request(self) -> AsyncIterator[None]:
        """A place to decode and answer a large request: there are a few, given in the order of the requests."""
        if self._large_requests >= LARGE_REQUESTS:
            mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting_requests.append(mine)
            try:
                await mine
            except asyncio.CancelledError:
                if mine.done() and not mine.cancelled():
                    self._let_next_in()  # the place was ours already
                raise
        else:
            self._large_requests += 1
        try:
            yield
        finally:
            self._let_next_in()

    def _let_next_in(self) -> None:
        """Gives a place to the first that waits, or keeps it free."""
        while self._waiting_requests:
            first = self._waiting_requests.popleft()
            if not first.done():
                first.set_result(None)
                return
        self._large_requests -= 1
