"""Calls get to the loop's thread and back."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import traceback
import weakref
from collections.abc import Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import pytest

from ottla.client.aio.consumer.user_code import call_user
from ottla.client.blocking import loop_thread
from ottla.client.blocking.loop_thread import LoopThread
from ottla.errors import IllegalStateError, TimedOutError

WAIT_SECONDS = 10


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    made = LoopThread("a client")
    yield made
    made.close()


def alive(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == name]


def test_a_coroutine_runs_on_the_loops_thread_and_gives_its_result(thread: LoopThread) -> None:
    async def where() -> str:
        return threading.current_thread().name

    assert thread.run(where()) == "a client"


def test_an_exception_of_the_loop_tells_where_it_was_raised(thread: LoopThread) -> None:
    async def deep() -> None:
        raise LookupError("nothing there")

    async def shallow() -> None:
        await deep()

    with pytest.raises(LookupError, match="nothing there") as caught:
        thread.run(shallow())
    functions = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert functions[0] == "test_an_exception_of_the_loop_tells_where_it_was_raised"
    assert functions[-2:] == ["shallow", "deep"]


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that is given up waits for its coroutine to clean up, however late the loop is."""
    monkeypatch.setattr(loop_thread, "CANCEL_SECONDS", WAIT_SECONDS)


@pytest.mark.usefixtures("patience")
def test_a_call_that_takes_too_long_is_cancelled(thread: LoopThread) -> None:
    began, ended = threading.Event(), threading.Event()

    async def wait_for_ever() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    # A loop that is late does not even start what is given up already.
    while not began.is_set():
        with pytest.raises(TimedOutError):
            thread.run(wait_for_ever(), 0.05)
    assert ended.is_set()


def test_user_code_runs_on_the_calling_thread_and_the_loop_goes_on_meanwhile(
    thread: LoopThread,
) -> None:
    beats = threading.Semaphore(0)

    async def beat() -> None:
        while True:
            beats.release()
            await asyncio.sleep(0)

    def slow(first: int, second: int) -> tuple[str, int]:
        for _ in range(10):
            assert beats.acquire(timeout=WAIT_SECONDS), "the loop waits for user code"
        return threading.current_thread().name, first + second

    async def work() -> Any:
        beating = asyncio.create_task(beat())
        found = await call_user(slow, 1, 2)
        beating.cancel()
        return found

    assert thread.run(work()) == (threading.current_thread().name, 3)


def test_user_code_may_call_the_client_again(thread: LoopThread) -> None:
    names: list[str] = []

    async def inner(depth: int) -> int:
        return await call_user(outer, depth - 1) + 1 if depth else 0

    def outer(depth: int) -> int:
        names.append(threading.current_thread().name)
        return thread.run(inner(depth))

    assert thread.run(inner(3)) == 3
    assert names == [threading.current_thread().name] * 3


@pytest.mark.parametrize("error", [ValueError("no"), KeyError("k")])
def test_an_exception_of_user_code_is_raised_in_the_coroutine(
    thread: LoopThread, error: Exception
) -> None:
    def fail() -> None:
        raise error

    async def work() -> str:
        try:
            await call_user(fail)
        except type(error) as caught:
            return repr(caught)
        return "nothing was raised"

    assert thread.run(work()) == repr(error)


def test_user_code_that_raises_stop_iteration_does_not_hang_the_call(thread: LoopThread) -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        thread.run(call_user(next, iter(())))


def test_user_code_may_be_a_coroutine_function(thread: LoopThread) -> None:
    async def listener() -> str:
        return "awaited"

    assert thread.run(call_user(listener)) == "awaited"
    assert asyncio.run(call_user(listener)) == "awaited"


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_user_code_ends_the_call_and_leaves_the_client_usable(
    thread: LoopThread, stop: type[BaseException]
) -> None:
    seen: list[str] = []

    def interrupted() -> None:
        raise stop

    async def work() -> None:
        try:
            await call_user(interrupted)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    with pytest.raises(stop):
        thread.run(work())
    assert seen == ["cancelled"]
    assert thread.run(call_user(lambda: 7)) == 7


@pytest.mark.usefixtures("patience")
def test_a_result_that_comes_too_late_is_not_lost(thread: LoopThread) -> None:
    began = threading.Event()
    given_back: list[int] = []

    async def stubborn() -> int:
        began.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return 7

    while not began.is_set():
        with pytest.raises(TimedOutError):
            thread.run(stubborn(), 0.05, unclaimed=given_back.append)
    assert given_back == [7]


def test_a_result_is_not_lost_to_an_interrupt_at_the_last_moment(
    thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(SimpleQueue):  # type: ignore[type-arg]
        """Ctrl-C comes when the result has been told."""

        def get(self, block: bool = True, timeout: float | None = None) -> Any:
            told = super().get(block, timeout)
            if not self.was_interrupted:
                self.was_interrupted = True
                raise KeyboardInterrupt
            return told

        was_interrupted = False

    monkeypatch.setattr(loop_thread, "SimpleQueue", Interrupted)
    given_back: list[int] = []

    async def answer() -> int:
        return 7

    with pytest.raises(KeyboardInterrupt):
        thread.run(answer(), unclaimed=given_back.append)
    assert given_back == [7]


def test_cleaning_up_after_an_interrupt_calls_no_user_code(thread: LoopThread) -> None:
    called: list[str] = []

    def interrupted() -> None:
        raise KeyboardInterrupt

    async def work() -> None:
        try:
            await call_user(interrupted)
        finally:
            await call_user(called.append, "after the interrupt")

    with pytest.raises(KeyboardInterrupt):
        thread.run(work())
    assert called == []


def test_a_call_from_the_clients_own_callback_is_refused_instead_of_waiting_for_itself(
    thread: LoopThread,
) -> None:
    async def nothing() -> None: ...

    async def callback() -> None:
        thread.run(nothing())

    with pytest.raises(IllegalStateError, match="callback of a client"):
        thread.run(callback())


def test_close_ends_the_thread_and_later_calls_are_refused() -> None:
    made = LoopThread("a closed client")
    closed: list[str] = []

    async def closing() -> None:
        closed.append(threading.current_thread().name)

    made.close(closing)
    made.close(closing)
    assert closed == ["a closed client"]
    assert alive("a closed client") == []
    with pytest.raises(IllegalStateError, match="a closed client is closed"):
        made.run(closing())
    made.call_soon(closed.append, "too late")
    assert closed == ["a closed client"]


def test_close_ends_the_thread_even_if_closing_fails() -> None:
    made = LoopThread("a failing client")

    async def closing() -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        made.close(closing)
    assert alive("a failing client") == []


def test_a_callback_may_close_its_client() -> None:
    made = LoopThread("a client that closes itself")
    (thread,) = alive("a client that closes itself")
    made.call_soon(made.close)
    thread.join(WAIT_SECONDS)
    assert not thread.is_alive()
    assert made.refusal is not None


def test_a_call_that_waits_when_another_thread_closes_says_so() -> None:
    made = LoopThread("a shared client")
    has_begun = threading.Event()
    caught: list[BaseException] = []

    async def wait_for_ever() -> None:
        has_begun.set()
        await asyncio.Event().wait()

    def wait() -> None:
        try:
            made.run(wait_for_ever())
        except BaseException as error:
            caught.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert has_begun.wait(WAIT_SECONDS)
    made.close()
    waiter.join(WAIT_SECONDS)
    (error,) = caught
    assert isinstance(error, IllegalStateError)
    assert "closed while this call waited" in str(error)


def test_a_client_that_is_forgotten_warns_and_its_thread_ends() -> None:
    made = LoopThread("a forgotten client")
    (thread,) = alive("a forgotten client")
    abandoned = threading.Event()

    async def abandon() -> None:
        abandoned.set()

    async def background() -> None:
        await asyncio.Event().wait()

    made.on_abandon(abandon)
    tasks: list[asyncio.Task[None]] = []
    made.call_soon(lambda loop: tasks.append(loop.create_task(background())), made.loop)
    is_collected = weakref.ref(made)
    with pytest.warns(ResourceWarning, match="unclosed a forgotten client"):
        del made
    assert is_collected() is None
    thread.join(WAIT_SECONDS)
    assert not thread.is_alive()
    assert abandoned.is_set()
    assert tasks[0].cancelled()


def test_a_failed_call_leaves_no_reference_cycle(thread: LoopThread) -> None:
    class Marked(Exception):  # noqa: N818
        pass

    async def fail() -> None:
        raise Marked

    gc.collect()
    gc.disable()
    try:
        try:
            thread.run(fail())
        except Marked as error:
            marked = weakref.ref(error)
        # The loop's thread may hold it for a moment; a cycle would hold it until the collector runs.
        deadline = time.monotonic() + 5
        while marked() is not None and time.monotonic() < deadline:
            time.sleep(0.005)
        assert marked() is None
    finally:
        gc.enable()
