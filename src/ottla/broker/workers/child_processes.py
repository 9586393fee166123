"""Processes that a supervisor starts and waits for.

A worker is a fork of its supervisor as long as that has no other threads: it is there in milliseconds, and shares the
memory of what was imported. Else it is a new interpreter. Forks are made while the loop is stopped, so that no frame of
it is left in the child.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from ottla.event_loop import preload_event_loop

_COMMAND: Final = (sys.executable, "-P", "-m", "ottla.cli.worker")
# The folder of the package, for an interpreter that is started.
_SOURCES: Final = str(Path(__file__).parents[3])
_FAILED: Final = 1

Work = Callable[[int], int]


class ChildProcess:
    """One child of this process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """Its exit code, or minus the signal that ended it; its locks and sockets are free then."""

    def kill(self) -> None:
        """End it at once."""
        # Its number is its own until it was waited for.
        if not self.ended.done():
            os.kill(self.pid, signal.SIGKILL)


class ChildProcesses:
    """The children of this process; made by `run_forking`, and used on its loop."""

    def __init__(self) -> None:
        self._children: dict[int, ChildProcess] = {}
        self._forks: list[tuple[int, asyncio.Future[int]]] = []

    async def start(self, connection: socket.socket) -> ChildProcess:
        """A child that does its work with a connection, of which it gets a copy."""
        if threading.active_count() == 1:
            forked: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            self._forks.append((connection.fileno(), forked))
            asyncio.get_running_loop().stop()
            pid = await forked
        else:
            pid = _spawn(connection.fileno())
        child = self._children[pid] = ChildProcess(pid)
        return child

    def take_forks(self) -> list[tuple[int, asyncio.Future[int]]]:
        """The forks that are to be made while the loop is stopped."""
        forks, self._forks = self._forks, []
        return forks

    def reap(self) -> None:
        """Notes which children have ended."""
        for pid, child in list(self._children.items()):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                del self._children[pid]
                child.ended.set_result(os.waitstatus_to_exitcode(status))


def _spawn(descriptor: int) -> int:
    """A new interpreter, which inherits the descriptor; in a process group of its own, as forks are."""
    paths = [_SOURCES, *filter(None, [os.environ.get("PYTHONPATH")])]
    # The copy is inherited by this child only: no other one is started meanwhile.
    inherited = os.dup(descriptor)
    try:
        os.set_inheritable(inherited, True)
        return os.posix_spawn(
            sys.executable,
            [*_COMMAND, str(inherited)],
            {**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, 2, 1),  # what is printed is part of the log
            ],
            setpgroup=0,
        )
    finally:
        os.close(inherited)


def run_forking(serve: Callable[[ChildProcesses], Coroutine[Any, Any, int]], work: Work) -> int:
    """Runs `serve` on a new loop, as asyncio.run does; returns its exit code.

    A child that was forked does `work` with the descriptor of its connection, and ends with the exit code.
    """
    loop = asyncio.new_event_loop()
    children = ChildProcesses()
    loop.add_signal_handler(signal.SIGCHLD, children.reap)
    task = loop.create_task(serve(children))
    task.add_done_callback(lambda _: loop.stop())
    preload_event_loop()
    # What was imported is never garbage, and a collection would touch it: then it is no longer shared.
    gc.collect()
    gc.freeze()
    try:
        while not task.done():
            loop.run_forever()
            for descriptor, forked in children.take_forks():
                try:
                    pid = _fork(descriptor, work)
                except OSError as error:  # too many processes, or no memory
                    forked.set_exception(error)
                else:
                    forked.set_result(pid)
        return task.result()
    finally:
        loop.run_until_complete(_cancel_others())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for each in others:
        each.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _fork(descriptor: int, work: Work) -> int:
    """The process id of a fork, which does `work` and ends."""
    sys.stdout.flush()
    sys.stderr.flush()
    # A signal that the child gets before it has handlers of its own would reach the parent's loop: they share its pipe.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if not pid:
            _be_child(descriptor, work, before)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def _be_child(descriptor: int, work: Work, signals: Iterable[int]) -> None:
    """Does the work, and ends the process: the objects of the parent, whose files are closed here, stay as they are."""
    code = _FAILED
    try:
        os.setpgid(0, 0)  # Ctrl-C reaches only the supervisor, which then stops its workers
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        _close_all_but({0, 1, 2, descriptor})
        code = work(descriptor)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code)


def _close_all_but(kept: set[int]) -> None:
    for name in os.listdir("/dev/fd"):
        if int(name) not in kept:
            with suppress(OSError):  # that of the listing itself
                os.close(int(name))
