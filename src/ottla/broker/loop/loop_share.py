"""The event loop's time, shared out: long work runs in slices of a few milliseconds.

A turn of the loop runs one slice of long work; in between the loop serves other requests. Long work queues for its next
slice, so that no client gets more of the loop by asking for more at once. Short work has separate time in each turn, so
that it does not wait behind long work: work that begins in this turn, and the queue of frames that did not fit into the
turn in which they arrived.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias, TypeVar

T = TypeVar("T")

# Long work in steps. A step that yields a future has the next one wait for it; where it fails, the next step finds out.
Steps: TypeAlias = Generator[asyncio.Future[Any] | None, None, T]

# The length of a slice of long work.
SLICE_SECONDS: Final = 0.005
# The most steps that a generator runs at once; after them its work counts as long.
FIRST_STEPS: Final = 64
# The first of those steps run without a look at the clock.
UNTIMED_STEPS: Final = 4
# The time limit of the others.
FIRST_SECONDS: Final = 0.001
# Their time limit while frames are queued, which should not wait long.
CROWDED_SECONDS: Final = 0.00025
# The time in a turn of the loop for frames that arrived in it, and the same again for queued frames.
TURN_SECONDS: Final = 0.02
# The number of first frames, each of a connection, that are handled before the clock is read.
UNTIMED_FRAMES: Final = 8
# The number of large requests that are decoded at a time; others wait as undecoded bytes.
LARGE_REQUESTS: Final = 4


def at_once(steps: Steps[T]) -> T:
    """Runs a generator to its end and returns its result: for short work that waits for nothing."""
    try:
        while True:
            waited_for = next(steps)
            assert waited_for is None, "there is nothing to wait with"
    except StopIteration as done:
        result: T = done.value
        return result


def awaited(outcome: asyncio.Future[T] | T) -> Steps[T]:
    """A result that may come later, for a generator: `result = yield from awaited(outcome)`."""
    if isinstance(outcome, asyncio.Future):
        yield outcome
        return outcome.result()
    return outcome


class LoopShare:
    """Hands out slices of one event loop."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now  # in seconds
        self._short_calls: deque[Callable[[], None]] = deque()
        self._pauses: deque[asyncio.Future[None]] = deque()  # work that waits for its next slice
        self._serves_soon = False
        self._thread = asyncio.Lock()
        self._new_work_end = 0.0  # in this turn of the loop; 0 before there was any
        self._frames_end = 0.0  # likewise, for frames
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
        """Continues queued work: one slice of long work, and short calls for TURN_SECONDS."""
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
        # Only calls that are queued now: those that they add are for a later turn.
        following = len(calls)
        if following:
            end = self._now() + TURN_SECONDS
            while following and self._now() < end:
                calls.popleft()()
                following -= 1

    async def run(self, steps: Steps[T], waited_for: asyncio.Future[Any] | None = None) -> T:
        """Runs a generator a slice at a time, and returns its result; it is closed if the caller is cancelled.

        `waited_for` is what its last step has yielded, if it was begun already.
        """
        now = self._now
        try:
            if waited_for is not None:
                await asyncio.wait([waited_for])
            end = self._end_of_new_work()
            if end is None:
                await self.pause()
                end = now() + SLICE_SECONDS
            while True:
                waited_for = next(steps)
                while waited_for is None and now() < end:
                    waited_for = next(steps)
                if waited_for is None:
                    await self.pause()
                else:
                    await asyncio.wait([waited_for])
                end = now() + SLICE_SECONDS
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            steps.close()

    def _end_of_new_work(self) -> float | None:
        """When the time for new work in this turn of the loop ends; None if it is used up."""
        now = self._now()
        if self._new_work_end == 0.0:
            self._new_work_end = now + SLICE_SECONDS
            asyncio.get_running_loop().call_soon(self._allow_new_work)
        return self._new_work_end if now < self._new_work_end else None

    def _allow_new_work(self) -> None:
        self._new_work_end = 0.0

    def answer(self, steps: Steps[T], first_steps: int = FIRST_STEPS) -> T | Coroutine[Any, Any, T]:
        """The result of a generator with few and quick steps; else a coroutine that runs it in slices."""
        try:
            untimed, seconds = min(first_steps, UNTIMED_STEPS), FIRST_SECONDS
            if self._short_calls:
                untimed, seconds = 0, CROWDED_SECONDS
            for _ in range(untimed):
                waited_for = next(steps)
                if waited_for is not None:
                    return self.run(steps, waited_for)
            end = self._now() + seconds
            for _ in range(first_steps - untimed):
                waited_for = next(steps)
                if waited_for is not None:
                    return self.run(steps, waited_for)
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
        """Whether a connection's first frame in a turn of the loop has to wait for a later turn.

        The clock is read only after UNTIMED_FRAMES calls. These may be spread over several turns: a callback at the
        end of every turn would cost more than the clock.
        """
        if self._frames_are_timed:
            return self.frames_had_their_time()
        self._untimed_frames += 1
        if self._untimed_frames >= UNTIMED_FRAMES:
            self._time_frames()
        return False

    def frames_had_their_time(self) -> bool:
        """Whether the frames of this turn of the loop have used up TURN_SECONDS."""
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
        """One of LARGE_REQUESTS places to decode and answer a large request, given in the order of the requests."""
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
        """Gives the place to the first waiting request, or frees it."""
        while self._waiting_requests:
            first = self._waiting_requests.popleft()
            if not first.done():
                first.set_result(None)
                return
        self._large_requests -= 1
