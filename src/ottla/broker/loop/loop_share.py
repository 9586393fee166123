"""The event loop's time, shared out: long work goes on in slices of a few milliseconds.

One slice is done in a turn of the loop, whoever it belongs to; in between the loop serves everybody else. Work that
waits for its next slice waits in line, so that no client gets more of the loop by asking for more at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

T = TypeVar("T")

# How long work goes on before others have their turn.
SLICE_SECONDS: Final = 0.005
# So many steps of a generator are taken at once, before it is known whether it will be long.
FIRST_STEPS: Final = 64
# How long the frames that arrived in one turn of the loop are handled, all connections together; then each connection
# gets one more frame handled and waits in line with the rest.
TURN_SECONDS: Final = 0.01
# So many large requests are in memory as objects at a time; more wait in line as the bytes that they came in.
LARGE_REQUESTS: Final = 4


def at_once(steps: Generator[None, None, T]) -> T:
    """What a generator returns, without pauses: for work that is known to be short."""
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
        self._line: deque[Callable[[], None]] = deque()
        self._thread = asyncio.Lock()
        self._frames_end = 0.0
        self._large_requests = 0
        self._waiting_requests: deque[asyncio.Future[None]] = deque()

    # Slices.

    def call_next(self, work: Callable[[], None]) -> None:
        """Calls a function in a later turn of the loop, after those that were in line before it."""
        self._line.append(work)
        if len(self._line) == 1:
            asyncio.get_running_loop().call_soon(self._call_first)

    def _call_first(self) -> None:
        work = self._line[0]
        try:
            work()
        finally:
            self._line.popleft()
            if self._line:
                asyncio.get_running_loop().call_soon(self._call_first)

    async def pause(self) -> None:
        """Lets others have their turn."""
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.call_next(lambda: None if mine.done() else mine.set_result(None))
        await mine

    async def run(self, steps: Generator[None, None, T]) -> T:
        """What a generator returns; it goes on for a slice at a time."""
        now = self._now
        while True:
            end = now() + SLICE_SECONDS
            try:
                next(steps)
                while now() < end:
                    next(steps)
            except StopIteration as done:
                result: T = done.value
                return result
            await self.pause()

    def answer(
        self, steps: Generator[None, None, T], first_steps: int = FIRST_STEPS
    ) -> T | Coroutine[Any, Any, T]:
        """What a generator returns, if it takes few steps; else a coroutine that goes on in slices."""
        try:
            for _ in range(first_steps):
                next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
        return self.run(steps)

    async def elsewhere(self, function: Callable[..., T], *arguments: object) -> T:
        """What a function returns that runs on a thread: one at a time, in the order in which they came."""
        async with self._thread:
            return await asyncio.to_thread(function, *arguments)

    # Frames.

    def frames_had_their_time(self) -> bool:
        """Whether the frames of this turn of the loop have taken as long as they may."""
        now = self._now()
        if self._frames_end == 0.0:
            self._frames_end = now + TURN_SECONDS
            asyncio.get_running_loop().call_soon(self._begin_turn)
            return False
        return now >= self._frames_end

    def _begin_turn(self) -> None:
        self._frames_end = 0.0

    # Large requests.

    @asynccontextmanager
    async def large_request(self) -> AsyncIterator[None]:
        """While a large request is taken apart: a few at a time, in the order in which they came."""
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
