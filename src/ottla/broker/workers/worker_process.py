"""A worker's process, and the supervisor's end of its channel."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Sequence
from typing import Final

from ottla.broker.workers.child_processes import ChildProcess, ChildProcesses
from ottla.broker.workers.message_channel import MessageChannel
from ottla.broker.workers.messages import Message

# Between the end of its channel and its own.
EXIT_SECONDS: Final = 5.0


class WorkerProcess:
    """One process, from its start to its end; used on the supervisor's loop."""

    def __init__(self, process: ChildProcess, channel: MessageChannel) -> None:
        self._process = process
        self._channel = channel
        self._killed_because: str | None = None
        self.has_ended = asyncio.Event()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Tell it something; copies of the descriptors go along."""
        self._channel.send(message, descriptors)

    def kill(self, reason: str | None = None) -> None:
        """End it at once."""
        if not self._process.ended.done():
            self._killed_because = self._killed_because or reason
            self._process.kill()

    def channel_ended(self, reason: str | None) -> None:
        """It cannot be told anything any more: it has ended, or it misbehaves."""
        if reason is not None:
            self.kill(reason)
        else:
            asyncio.get_running_loop().call_later(
                EXIT_SECONDS, self.kill, "it closed its channel and did not end"
            )

    async def ended(self) -> str:
        """Why it ended, when its locks are free; "" if it did so by itself and cleanly."""
        code = await self._process.ended
        self._channel.close()
        self.has_ended.set()
        if self._killed_because is not None:
            return f"it was killed: {self._killed_because}"
        return "" if code == 0 else _ending(code)


async def start_worker_process(
    children: ChildProcesses, take: Callable[[Message], None]
) -> WorkerProcess:
    """A new process, which waits for its first message; `take` gets what it says."""
    ours, theirs = socket.socketpair()
    found: list[WorkerProcess] = []

    def said(message: Message, descriptors: Sequence[int]) -> None:
        for each in descriptors:  # workers send none
            os.close(each)
        take(message)

    def channel_ended(reason: str | None) -> None:
        for process in found:
            process.channel_ended(reason)

    channel = MessageChannel(ours, said, channel_ended)
    try:
        with theirs:
            child = await children.start(theirs)
    except BaseException:
        channel.close()
        raise
    found.append(WorkerProcess(child, channel))
    return found[0]


def _ending(code: int) -> str:
    if code >= 0:
        return f"it ended with code {code}"
    try:
        return f"it was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"it was ended by signal {-code}"
