"""The event loop's time, shared out: a clock that the test turns says how long each step took."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Generator

import pytest

from ottla.broker.loop.loop_share import (
    FIRST_STEPS,
    LARGE_REQUESTS,
    SLICE_SECONDS,
    TURN_SECONDS,
    LoopShare,
    at_once,
)

STEP_SECONDS = SLICE_SECONDS / 2


class Work:
    """A clock, and generators whose steps take some of its time."""

    def __init__(self) -> None:
        self.now = 100.0
        self.share = LoopShare(lambda: self.now)
        self.done: list[str] = []

    def steps(self, name: str, count: int) -> Generator[None, None, str]:
        for _ in range(count):
            self.done.append(name)
            self.now += STEP_SECONDS
            yield
        return f"result of {name}"


def test_those_who_have_much_to_do_take_turns() -> None:
    async def both() -> None:
        work = Work()
        results = tuple(
            await asyncio.gather(
                work.share.run(work.steps("a", 6)), work.share.run(work.steps("b", 4))
            )
        )
        assert results == ("result of a", "result of b")
        assert "".join(work.done) == "aabbaabbaa"

    asyncio.run(both())


def test_others_have_their_turn_between_slices() -> None:
    async def serve() -> None:
        work = Work()
        turns: list[int] = []

        async def others() -> None:
            while len(work.done) < 20:
                turns.append(len(work.done))
                await asyncio.sleep(0)

        await asyncio.gather(others(), work.share.run(work.steps("a", 20)))
        assert max(b - a for a, b in itertools.pairwise(turns)) <= 2

    asyncio.run(serve())


def test_short_work_is_answered_at_once_and_long_work_later() -> None:
    async def ask() -> None:
        work = Work()
        assert work.share.answer(work.steps("a", FIRST_STEPS - 1)) == "result of a"
        later = work.share.answer(work.steps("b", FIRST_STEPS))
        assert asyncio.iscoroutine(later)
        assert await later == "result of b"
        assert at_once(work.steps("c", 1000)) == "result of c"

    asyncio.run(ask())


def test_work_that_fails_leaves_the_others_in_line() -> None:
    async def fail() -> None:
        work = Work()

        def failing() -> Generator[None, None, str]:
            yield from work.steps("x", 3)
            raise ValueError("a bug of ours")

        failed, result = await asyncio.gather(
            work.share.run(failing()),
            work.share.run(work.steps("a", 9)),
            return_exceptions=True,
        )
        assert isinstance(failed, ValueError)
        assert result == "result of a"

    asyncio.run(fail())


def test_frames_of_a_turn_have_a_limited_time() -> None:
    async def turns() -> None:
        work = Work()
        assert not work.share.frames_had_their_time()
        work.now += TURN_SECONDS / 2
        assert not work.share.frames_had_their_time()
        work.now += TURN_SECONDS
        assert work.share.frames_had_their_time()
        await asyncio.sleep(0)
        assert not work.share.frames_had_their_time()

    asyncio.run(turns())


def test_few_large_requests_are_taken_apart_at_a_time() -> None:
    async def crowd() -> None:
        share = Work().share
        inside = 0
        most = 0
        order: list[int] = []

        async def large(number: int) -> None:
            nonlocal inside, most
            async with share.large_request():
                order.append(number)
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0)
                inside -= 1

        await asyncio.gather(*(large(number) for number in range(3 * LARGE_REQUESTS)))
        assert most == LARGE_REQUESTS
        assert order == list(range(3 * LARGE_REQUESTS))

    asyncio.run(crowd())


@pytest.mark.parametrize("given_up", ["while it waits", "when its place is ready"])
def test_a_place_that_is_given_up_goes_to_the_next(given_up: str) -> None:
    async def leave() -> None:
        share = Work().share
        gates = [asyncio.Event() for _ in range(LARGE_REQUESTS)]

        async def large(gate: asyncio.Event | None) -> None:
            async with share.large_request():
                if gate is not None:
                    await gate.wait()

        inside = [asyncio.ensure_future(large(gate)) for gate in gates]
        await asyncio.sleep(0)
        leaving = asyncio.ensure_future(large(None))
        last = asyncio.ensure_future(large(None))
        await asyncio.sleep(0)
        if given_up == "while it waits":
            leaving.cancel()
            await asyncio.sleep(0)
            gates[0].set()
        else:
            gates[0].set()
            while not inside[0].done():
                await asyncio.sleep(0)
            leaving.cancel()
        await asyncio.wait_for(last, 5)
        for gate in gates:
            gate.set()
        await asyncio.gather(*inside)
        await asyncio.wait_for(large(None), 5)

    asyncio.run(leave())
