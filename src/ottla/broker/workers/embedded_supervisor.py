"""The supervisor of `ottla.Broker(workers=N)`: a process of its own, as its workers are."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from ottla.broker.workers.message_channel import MessageChannel
from ottla.broker.workers.messages import (
    Answered,
    Asked,
    Failed,
    MembersChanged,
    Message,
    Serving,
    Stopped,
    Supervise,
    WorkerState,
)
from ottla.errors import IllegalStateError, OttlaError
from ottla.model import Endpoint
from ottla.ports import JsonValue

COMMAND: Final = (sys.executable, "-P", "-m", "ottla.cli.supervisor")
_SOURCES: Final = str(Path(__file__).parents[3])
STOP_SECONDS: Final = 90.0
# What a line of the log has beside the fields of its event.
_LINE: Final = frozenset({"time", "level", "event", "message", "logger", "trace"})
_ERRORS: Final[Mapping[str, type[OttlaError]]] = {
    each.__name__: each for each in (IllegalStateError, OttlaError)
}
_lines_logger = logging.getLogger("ottla.broker.workers")


class EmbeddedSupervisor:
    """The process of a supervisor; used on the loop of the broker's thread."""

    def __init__(
        self, settings: Supervise, members_changed: Callable[[Mapping[int, WorkerState]], None]
    ) -> None:
        """`members_changed` gets all workers by their node ids, whenever one is live or not live any more."""
        self._settings = settings
        self._members_changed = members_changed
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._serving: asyncio.Future[Serving] = self._loop.create_future()
        self._failure: OttlaError | None = None
        self._process: subprocess.Popen[str] | None = None
        self._channel: MessageChannel | None = None
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._said_all = asyncio.Event()  # the channel has ended
        self.common: Mapping[str, Endpoint] = {}
        """The common addresses, by the names of listeners."""
        self.doors: Mapping[str, Endpoint] = {}
        """Where the metrics and the console are."""

    @property
    def pid(self) -> int:
        """The process."""
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Returns when every worker serves; the error of the supervisor if they cannot."""
        ours, theirs = socket.socketpair()
        self._channel = MessageChannel(ours, self._take, self._channel_ended)
        paths = [_SOURCES, *filter(None, [os.environ.get("PYTHONPATH")])]
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [*COMMAND, str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                    encoding="utf-8",
                    errors="replace",
                    pass_fds=[theirs.fileno()],
                    # Ctrl-C is the embedding program's, which stops its broker.
                    process_group=0,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                )
        except BaseException:
            self._channel.close()
            raise
        threading.Thread(target=self._read_log, name="ottla-workers-log", daemon=True).start()
        self._channel.send(self._settings)
        first: list[asyncio.Future[Any]] = [self._serving, self._ended]
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if not self._serving.done():
            code = self._ended.result()
            await self._said_all.wait()
            raise self._failure or OttlaError(f"the supervisor has ended with code {code}")
        serving = self._serving.result()
        self.common, self.doors = serving.common, serving.doors

    async def stop(self) -> None:
        """Stops all workers cleanly, and the supervisor."""
        assert self._channel is not None
        self._channel.send(Stopped())
        try:
            await asyncio.wait_for(asyncio.shield(self._ended), STOP_SECONDS)
        except TimeoutError:
            assert self._process is not None
            self._process.kill()
            await self._ended
        await self._said_all.wait()
        if self._failure is not None:
            raise self._failure

    def _channel_ended(self, _: str | None) -> None:
        self._said_all.set()

    async def ask(self, kind: str, question: JsonValue) -> Any:
        """The supervisor's answer; the error that it had otherwise."""
        if self._channel is None or self._ended.done():
            raise IllegalStateError("the broker's processes have ended")
        number = next(self._numbers)
        future: asyncio.Future[Any] = self._loop.create_future()
        self._answers[number] = future
        self._channel.send(Asked(number, kind, question))
        try:
            return await future
        finally:
            del self._answers[number]

    def _take(self, message: Message, _: Sequence[int]) -> None:
        match message:
            case Serving():
                self._serving.set_result(message)
            case MembersChanged():
                self._members_changed({each.node_id: each for each in message.members})
            case Failed():
                self._failure = message.error()
            case Answered():
                future = self._answers.get(message.number)
                if future is not None and not future.done():
                    self._settle(future, message.answer)
            case _:
                raise AssertionError(f"a supervisor says no {type(message).__name__}")

    @staticmethod
    def _settle(future: asyncio.Future[Any], answer: Any) -> None:
        kind, found = answer
        if kind is None:
            future.set_result(found)
        else:
            future.set_exception(_ERRORS.get(kind, OttlaError)(found))

    # On the thread

    def _read_log(self) -> None:
        """Logs what the processes log, in this process, and waits for the end of the supervisor's."""
        process = self._process
        assert process is not None
        assert process.stderr is not None
        with process.stderr as lines:
            _log_lines(lines)
        code = process.wait()
        try:
            self._loop.call_soon_threadsafe(self._note_end, code)
        except RuntimeError:
            return  # the loop was closed

    def _note_end(self, code: int) -> None:
        self._ended.set_result(code)
        gone = IllegalStateError("the broker's processes have ended")
        for future in self._answers.values():
            if not future.done():
                future.set_exception(gone)


def _log_lines(lines: IO[str]) -> None:
    for line in lines:
        try:
            record = _record_of(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError):
            _lines_logger.warning("%s", line.rstrip("\n"))
            continue
        logger = logging.getLogger(record.name)
        if logger.isEnabledFor(record.levelno):
            logger.handle(record)


def _record_of(line: dict[str, Any]) -> logging.LogRecord:
    """The record of a line as JSON: its message is made already, its fields are the arguments again."""
    text = str(line["message"])
    if "trace" in line:
        text = f"{text}\n{line['trace']}"
    fields = {name: value for name, value in line.items() if name not in _LINE}
    record = logging.LogRecord(
        name=str(line["logger"]),
        level=logging.getLevelNamesMapping()[str(line["level"]).upper()],
        pathname="",
        lineno=0,
        msg=text.replace("%", "%%") if fields else text,
        args=None,
        exc_info=None,
    )
    if fields:
        record.args = fields
    record.__dict__["event"] = line["event"]
    return record
