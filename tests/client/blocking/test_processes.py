"""Ctrl-C, the end of a program and forks: nothing hangs, nobody complains."""

from __future__ import annotations

import os
import sys

import pytest
from tests.client.blocking.programs import Program, run_program

LOOPS = {"uvloop": "", "asyncio": "import sys; sys.modules['uvloop'] = None\n"}

WAITING = """
import asyncio, sys, threading, time
from ottla.client.blocking import loop_thread
from ottla.client.blocking.loop_thread import LoopThread

# The loop has its turn in time, on a busy machine too.
loop_thread.CANCEL_SECONDS = 5

def say(*words):
    print(*words, flush=True)

thread = LoopThread("a client")

async def wait_for_ever():
    say("waiting")
    try:
        await asyncio.Event().wait()
    finally:
        say("cancelled")

async def answer(value):
    return value
"""


@pytest.fixture(params=list(LOOPS))
def waiting(request: pytest.FixtureRequest) -> str:
    """The beginning of a program, with each kind of loop."""
    kind: str = request.param
    if kind == "uvloop":
        pytest.importorskip("uvloop")
    return LOOPS[kind] + WAITING


def test_ctrl_c_ends_a_waiting_call_and_leaves_the_client_usable(waiting: str) -> None:
    program = Program(
        waiting
        + """
try:
    thread.run(wait_for_ever())
except KeyboardInterrupt:
    say("interrupted")
say(thread.run(answer("usable")))
thread.close()
say(threading.active_count())
"""
    )
    assert program.next_line() == "waiting"
    program.interrupt()
    code, lines, errors = program.end()
    assert (code, lines, errors) == (0, ["cancelled", "interrupted", "usable", "1"], "")


@pytest.mark.parametrize("places", ["call", "line"])
def test_ctrl_c_at_any_place_ends_a_call(waiting: str, places: str) -> None:
    """Also where the call has only begun, and where the loop has it already and nobody waits for it yet."""
    lines = run_program(
        waiting
        + """
import itertools, warnings

# Where nothing has begun, Python itself says that a coroutine was not awaited.
warnings.simplefilter("ignore", RuntimeWarning)
alive = 0

async def wait_quietly():
    global alive
    alive += 1
    try:
        await asyncio.Event().wait()
    finally:
        alive -= 1

async def count():
    return alive

def interrupt_at(place):
    # Raises at the n-th call or line of the module, once; when the call's time is over, no more.
    left = itertools.count(place, -1)
    def trace(frame, event, _):
        if frame.f_code.co_filename != loop_thread.__file__:
            return None
        if event == "exception" and frame.f_code.co_name == "wait":
            sys.settrace(None)
            return None
        if event == KIND and next(left) == 0:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace
    sys.settrace(trace)

KIND = sys.argv[1]
for place in itertools.count():
    interrupt_at(place)
    try:
        thread.run(wait_quietly(), 0.2)
    except KeyboardInterrupt:
        if thread.run(count()):
            say("still there after an interrupt at", place)
    except TimeoutError:
        break
    finally:
        sys.settrace(None)
say(place > 3)
thread.close()
""",
        places,
    )
    assert lines == ["True"]


def test_ctrl_c_is_prompt_although_the_coroutine_does_not_end(waiting: str) -> None:
    program = Program(
        waiting
        + """
loop_thread.CANCEL_SECONDS = 2

async def stubborn():
    while True:
        try:
            say("waiting")
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            say("no")
            await asyncio.sleep(30)

try:
    thread.run(stubborn())
except KeyboardInterrupt:
    say("interrupted")
"""
    )
    assert program.next_line() == "waiting"
    program.interrupt()
    code, lines, errors = program.end()
    assert (code, lines[:2], errors) == (0, ["no", "interrupted"], "")


def test_ctrl_c_without_handling_ends_the_program_as_usual(waiting: str) -> None:
    program = Program(waiting + "thread.run(wait_for_ever())")
    assert program.next_line() == "waiting"
    program.interrupt()
    code, lines, errors = program.end()
    assert (code, lines) == (-2, ["cancelled"])
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    assert errors.count("Traceback") == 1


def test_the_end_of_the_program_closes_what_nobody_closed(waiting: str) -> None:
    lines = run_program(
        waiting
        + """
async def abandon():
    say("leaves")
async def background():
    await asyncio.Event().wait()
def start():
    global task
    task = asyncio.ensure_future(background())
thread.on_abandon(abandon)
thread.call_soon(start)
say(thread.run(answer("the end")))
"""
    )
    assert lines == ["the end", "leaves"]


def test_daemon_threads_that_wait_say_nothing_at_the_end_of_the_program(waiting: str) -> None:
    lines = run_program(
        waiting
        + """
started = threading.Event()
async def wait_quietly():
    started.set()
    await asyncio.Event().wait()
threading.Thread(target=lambda: thread.run(wait_quietly()), daemon=True).start()
started.wait()
say("the end")
"""
    )
    assert lines == ["the end"]


def test_a_callback_that_hangs_does_not_keep_the_program_from_ending(waiting: str) -> None:
    program = Program(waiting + 'thread.call_soon(time.sleep, 60)\nsay("the end")')
    assert program.end() == (0, ["the end"], "")


FORKING = """
import gc, os
assert thread.run(answer(1)) == 1

def child():
    from ottla.errors import IllegalStateError
    try:
        thread.run(answer(2))
    except IllegalStateError as error:
        say("child:", error)
    thread.close()
    mine = LoopThread("the child's client")
    say("child:", mine.run(answer("a client of its own works")))
    mine.close()
"""
FORKED = [
    "child: a client was created in another process, and its thread did not survive the fork: "
    "create clients after the fork",
    "child: a client of its own works",
]

# How a child may end, after having collected what it can.
ENDS = {"exits": "sys.exit(0)", "ends at once": "os._exit(0)"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("end", list(ENDS))
def test_a_forked_child_is_told_to_make_its_own_client_and_leaves_the_parents_alone(
    waiting: str, end: str
) -> None:
    lines = run_program(
        waiting
        + FORKING
        + f"""
import socket
left, right = socket.socketpair()
right.setblocking(False)
received = threading.Event()
class Reader(asyncio.Protocol):
    def data_received(self, data):
        say(data.decode())
        received.set()
async def make():
    global transport
    transport, _ = await asyncio.get_running_loop().create_connection(Reader, sock=right)
thread.run(make())
if os.fork() == 0:
    child()
    left.close()
    thread = transport = None
    gc.collect()
    {ENDS[end]}
say("status", os.wait()[1])
left.sendall(b"still polled")
received.wait(10)
async def finish():
    transport.close()
thread.run(finish())
left.close()
thread.close()
"""
    )
    assert lines == [*FORKED, "status 0", "still polled"]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork here")
def test_processes_of_multiprocessing_are_told_the_same(waiting: str) -> None:
    lines = run_program(
        waiting
        + FORKING
        + """
import multiprocessing
process = multiprocessing.get_context("fork").Process(target=child)
process.start()
process.join()
say(process.exitcode)
thread.close()
"""
    )
    assert lines == [*FORKED, "0"]
