"""A worker's process, and the supervisor's end of its channel."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from ottla.broker.workers.message_channel import MessageChannel
from ottla.broker.workers.messages import Message

COMMAND: Final = (sys.executable, "-P", "-m", "ottla.cli.worker")
# Between the end of its channel and its own.
EXIT_SECONDS: Final = 5.0
# The folder of the package, for the process that is started.
_SOURCES: Final = str(Path(__file__).parents[3])


class WorkerProcess:
    """One process, from its start to its end; used on the supervisor's loop."""

    def __init__(self, process: asyncio.subprocess.Process, channel: MessageChannel) -> None:
        self._process = process
        self._channel = channel
        self._killed_because: str | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Tell it something; copies of the descriptors go along."""
        self._channel.send(message, descriptors)

    def kill(self, reason: str | None = None) -> None:
        """End it at once."""
        if self._process.returncode is None:
            self._killed_because = self._killed_because or reason
            with suppress(ProcessLookupError):
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
        code = await self._process.wait()
        self._channel.close()
        if self._killed_because is not None:
            return f"it was killed: {self._killed_because}"
        return "" if code == 0 else _ending(code)


async def start_worker_process(take: Callable[[Message], None]) -> WorkerProcess:
    """A new process, which waits for its first message; `take` gets what it says.

    To be called on the main thread: the process ends with the thread that started it.
    """
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
    paths = [_SOURCES, *filter(None, [os.environ.get("PYTHONPATH")])]
    try:
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *COMMAND,
                str(theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=2,  # what is printed is part of the log
                pass_fds=[theirs.fileno()],
                # Ctrl-C reaches only the supervisor, which then stops its workers.
                process_group=0,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            )
    except BaseException:
        channel.close()
        raise
    found.append(WorkerProcess(process, channel))
    return found[0]


def _ending(code: int) -> str:
    if code >= 0:
        return f"it ended with code {code}"
    try:
        return f"it was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"it was ended by signal {-code}"
