"""The loop and the traces: a run is a function of its seed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.sim.loop import THREAD_SECONDS, NothingLeftToDoError, Owner, VirtualLoop
from tests.sim.run import SCENARIOS, play_seed

ROOT = Path(__file__).parents[2]


def test_time_jumps_to_the_next_timer() -> None:
    async def wait() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    assert VirtualLoop().run_until_complete(wait()) == 3600


def test_timers_of_the_same_moment_run_in_the_order_of_their_making() -> None:
    async def wait() -> list[int]:
        loop, order = asyncio.get_running_loop(), list[int]()
        for number in range(20):
            loop.call_at(5, order.append, number)
        await asyncio.sleep(6)
        return order

    assert VirtualLoop().run_until_complete(wait()) == list(range(20))


def test_what_a_dead_node_scheduled_does_not_run() -> None:
    async def wait() -> list[str]:
        loop, ran = asyncio.get_running_loop(), list[str]()
        owner = Owner("node")
        settled: asyncio.Future[None] = loop.create_future()

        async def work() -> None:
            loop.call_later(1, ran.append, "a timer before")
            loop.call_later(3, ran.append, "a timer")
            settled.add_done_callback(lambda _: ran.append("a callback of a future"))
            await asyncio.sleep(3)
            ran.append("a task")

        loop.create_task(work(), context=owner.context)
        loop.call_later(3, ran.append, "somebody else")
        await asyncio.sleep(2)
        owner.is_alive = False
        settled.set_result(None)
        await asyncio.sleep(2)
        return ran

    loop = VirtualLoop()
    assert loop.run_until_complete(wait()) == ["a timer before", "somebody else"]
    loop.close()


@pytest.mark.parametrize("second_end", [4.0, 20.0])
def test_a_node_that_is_stopped_twice_does_everything_late_and_in_order(second_end: float) -> None:
    """The second stop must neither end the first one nor let what comes later overtake what came before."""

    async def wait() -> list[tuple[str, float]]:
        loop, ran = asyncio.get_running_loop(), list[tuple[str, float]]()
        owner = Owner("node")

        def work(name: str) -> None:
            ran.append((name, loop.time()))

        for when in (2.0, 3.5, 7.0, 10.0, 15.0):
            loop.call_at(when, work, f"due at {when}", context=owner.context)
        loop.call_at(1.0, owner.freeze_until, 10.0)
        loop.call_at(3.0, owner.freeze_until, second_end)
        await asyncio.sleep(30)
        return ran

    thawed = max(10.0, second_end)
    assert VirtualLoop().run_until_complete(wait()) == [
        (f"due at {when}", max(when, thawed)) for when in (2.0, 3.5, 7.0, 10.0, 15.0)
    ]


def test_a_wait_that_nothing_can_end_is_found() -> None:
    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    loop = VirtualLoop()
    with pytest.raises(NothingLeftToDoError):
        loop.run_until_complete(wait())
    loop.close()


def test_what_is_for_a_thread_is_done_by_the_loop() -> None:
    async def wait() -> tuple[int, float]:
        return await asyncio.to_thread(threading.get_ident), loop.time()

    loop = VirtualLoop()
    assert loop.run_until_complete(wait()) == (threading.get_ident(), THREAD_SECONDS)
    loop.close()


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_seed_gives_the_same_trace(name: str) -> None:
    assert play_seed(name, 7).trace.digest() == play_seed(name, 7).trace.digest()
    assert play_seed(name, 7).trace.digest() != play_seed(name, 8).trace.digest()


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_hash_seed_of_the_process_does_not_matter(name: str) -> None:
    program = f"from tests.sim.run import play_seed; print(play_seed({name!r}, 7).trace.digest())"
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path},
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert digests == {play_seed(name, 7).trace.digest() + "\n"}
