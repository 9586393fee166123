"""The event loop's time, shared out: a clock that the test turns says how long each step took."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Generator

import pytest

from ottla.broker.loop.loop_share import (
    CROWDED_SECONDS,
    FIRST_SECONDS,
    FIRST_STEPS,
    LARGE_REQUESTS,
    SLICE_SECONDS,
    TURN_SECONDS,
    UNTIMED_FRAMES,
    UNTIMED_STEPS,
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

    def steps(
        self, name: str, count: int, step_seconds: float = STEP_SECONDS
    ) -> Generator[None, None, str]:
        for _ in range(count):
            self.done.append(name)
            self.now += step_seconds
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
        assert "".join(work.done) == "aaaabbaabb"

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
        assert work.share.answer(work.steps("a", FIRST_STEPS - 1, 0.0)) == "result of a"
        later = work.share.answer(work.steps("b", FIRST_STEPS, 0.0))
        assert asyncio.iscoroutine(later)
        assert await later == "result of b"
        assert at_once(work.steps("c", 1000)) == "result of c"

    asyncio.run(ask())


def test_work_whose_steps_take_long_is_not_done_at_once() -> None:
    async def ask() -> None:
        work = Work()
        few = work.steps("a", UNTIMED_STEPS, FIRST_SECONDS)
        assert work.share.answer(few) == "result of a"
        later = work.share.answer(work.steps("b", FIRST_STEPS - 1, FIRST_SECONDS))
        assert work.done.count("b") == UNTIMED_STEPS + 1
        assert asyncio.iscoroutine(later)
        assert await later == "result of b"

    asyncio.run(ask())


def test_work_that_begins_in_one_turn_shares_a_slice() -> None:
    async def crowd() -> None:
        work = Work()
        turns: list[float] = []

        async def others() -> None:
            while len(work.done) < 200:
                turns.append(work.now)
                await asyncio.sleep(0)

        await asyncio.gather(
            others(), *(work.share.run(work.steps(str(number), 2)) for number in range(100))
        )
        # One slice for what is new, and one for what is in line.
        assert max(b - a for a, b in itertools.pairwise(turns)) <= 2 * SLICE_SECONDS + 1e-9

    asyncio.run(crowd())


def test_short_work_is_done_in_the_turn_in_which_it_begins() -> None:
    async def crowd() -> None:
        work = Work()
        names = [str(number) for number in range(100)]
        short = SLICE_SECONDS / 1000
        begun = [
            asyncio.ensure_future(work.share.run(work.steps(name, 1, short))) for name in names
        ]
        await asyncio.sleep(0)
        assert work.done == names
        await asyncio.gather(*begun)

    asyncio.run(crowd())


def test_short_calls_in_line_share_a_turn_and_long_ones_do_not() -> None:
    async def turns_for(call_seconds: float) -> int:
        work = Work()
        called: list[int] = []

        def call(number: int) -> None:
            called.append(number)
            work.now += call_seconds

        for number in range(10):
            work.share.call_next(lambda number=number: call(number))  # type: ignore[misc]
        turns = 0
        while len(called) < 10:
            await asyncio.sleep(0)
            turns += 1
        assert called == list(range(10))
        return turns

    assert asyncio.run(turns_for(TURN_SECONDS / 100)) == 1
    assert asyncio.run(turns_for(TURN_SECONDS)) >= 5


def test_less_is_done_at_once_while_others_wait_in_line() -> None:
    async def ask() -> None:
        work = Work()
        work.share.call_next(lambda: None)
        later = work.share.answer(work.steps("a", UNTIMED_STEPS, CROWDED_SECONDS))
        assert work.done == ["a"]
        assert asyncio.iscoroutine(later)
        assert await later == "result of a"

    asyncio.run(ask())


def test_short_calls_do_not_wait_behind_slices() -> None:
    async def crowd() -> None:
        work = Work()
        long = [asyncio.ensure_future(work.share.run(work.steps("a", 100))) for _ in range(20)]
        for _ in range(3):
            await asyncio.sleep(0)
        called = False

        def call() -> None:
            nonlocal called
            called = True

        work.share.call_next(call)
        await asyncio.sleep(0)
        assert called
        for task in long:
            task.cancel()
        await asyncio.gather(*long, return_exceptions=True)

    asyncio.run(crowd())


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


def test_first_frames_are_timed_when_there_are_many_in_a_turn() -> None:
    async def turns() -> None:
        work = Work()
        for _ in range(UNTIMED_FRAMES + 1):
            assert not work.share.first_frame_waits()
        work.now += TURN_SECONDS
        assert work.share.first_frame_waits()
        await asyncio.sleep(0)
        assert not work.share.first_frame_waits()

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
