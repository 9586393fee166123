"""The end of a channel that a child process inherits: through it the servers of the parent are reached."""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
from concurrent.futures import Future
from contextlib import suppress

from ottla.in_process.messages import ANSWER_BYTES, Request, decode_answer


class ParentChannel:
    """One channel. A thread reads the answers, so that a loop that is busy does not keep the process from ending."""

    def __init__(self, descriptor: int) -> None:
        self._channel = socket.socket(fileno=descriptor)
        self._channel.set_inheritable(False)
        self._channel.setblocking(True)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[socket.socket]] = {}
        self._is_over = False

    def read_answers(self) -> None:
        """Read until the parent ends the channel, or has died."""
        while True:
            try:
                data, descriptors, _, _ = socket.recv_fds(self._channel, ANSWER_BYTES, 1)
            except OSError:
                break
            received = [socket.socket(fileno=descriptor) for descriptor in descriptors]
            for each in received:
                each.set_inheritable(False)
            if len(data) != ANSWER_BYTES:
                _close(received)
                break
            with self._lock:
                waiting = self._waiting.pop(decode_answer(data), None)
            if waiting is None or not waiting.set_running_or_notify_cancel():
                _close(received)
            elif not received:
                waiting.set_exception(ConnectionRefusedError("the parent process has no room"))
            else:
                received[0].setblocking(False)
                waiting.set_result(received[0])
        with self._lock:
            self._is_over = True
            left, self._waiting = self._waiting, {}
        for future in left.values():
            if future.set_running_or_notify_cancel():
                future.set_exception(ConnectionRefusedError("the parent process has gone"))

    async def connect(self, host: str) -> socket.socket:
        """The client's end of a connection to a server of the parent; ConnectionRefusedError if there is none."""
        future: Future[socket.socket] = Future()
        with self._lock:
            if self._is_over:
                raise ConnectionRefusedError("the parent process has gone")
            number = next(self._numbers)
            self._waiting[number] = future
        try:
            request = Request(number, host).encode()
            # The parent reads at once; a channel that is full has a parent that is stopped.
            self._channel.send(request, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except (ValueError, OSError) as error:
            with self._lock:
                self._waiting.pop(number, None)
            raise ConnectionRefusedError(f"the parent process was not asked: {error}") from error
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            future.add_done_callback(_close_result)
            raise


def _close(sockets: list[socket.socket]) -> None:
    for each in sockets:
        each.close()


def _close_result(future: Future[socket.socket]) -> None:
    with suppress(BaseException):
        future.result().close()
