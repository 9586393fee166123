"""The process of a supervisor that `ottla.Broker(workers=N)` starts, and that ends with the program that embeds it.

Its only argument is the file descriptor of its channel, through which it is told everything else.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.embedded_doors import CONSOLE, METRICS
from ottla.broker.runtime import BrokerSettings
from ottla.broker.workers.child_processes import ChildProcesses, run_forking
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
)
from ottla.broker.workers.supervisor import Supervisor, SupervisorSettings
from ottla.cli import worker
from ottla.cli.errors import CommandError
from ottla.cli.exit_codes import DONE, FAILED
from ottla.cli.terminal import log_lines
from ottla.config.broker import BrokerConfig
from ottla.errors import OttlaError
from ottla.model import Endpoint
from ottla.ports import JsonValue

if TYPE_CHECKING:
    from ottla.cli.worker_neighbours import WorkerNeighbours

PARENT_CHECK_SECONDS: Final = 1.0


def main() -> int:
    """Serve until the embedding program says otherwise, or has ended; returns the exit code."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    return run_forking(lambda children: _Embedded(connection, children).run(), worker.work)


class _Embedded:
    """A supervisor, and the program that embeds it."""

    def __init__(self, connection: socket.socket, children: ChildProcesses) -> None:
        connection.set_inheritable(False)
        self._children = children
        self._connection = connection
        self._parent = os.getppid()
        self._stopping = asyncio.Event()
        self._supervisor: Supervisor
        self._answering: set[asyncio.Task[None]] = set()

    async def run(self) -> int:
        told: asyncio.Future[Supervise] = asyncio.get_running_loop().create_future()

        def take(message: Message, descriptors: Sequence[int]) -> None:
            match message:
                case Supervise():
                    told.set_result(message)
                case Asked():
                    task = asyncio.get_running_loop().create_task(self._answer(message))
                    self._answering.add(task)
                    task.add_done_callback(self._answering.discard)
                case Stopped():
                    self._stopping.set()
                case _:
                    raise AssertionError(f"{type(message).__name__} is for others")

        self._channel = MessageChannel(self._connection, take, lambda _: self._stopping.set())
        settings = await told
        log_lines.set_up_logging("json", settings.log_level)
        watch = asyncio.create_task(self._watch_parent())
        try:
            return await self._serve(settings)
        except CommandError as error:
            # Its advice is about flags of the command line.
            self._channel.send(Failed.of(OttlaError(error.message)))
            return FAILED
        except (OttlaError, OSError) as error:
            self._channel.send(Failed.of(error))
            return FAILED
        finally:
            watch.cancel()

    async def _serve(self, told: Supervise) -> int:
        config = BrokerConfig.read(told.options)
        neighbours = _neighbours(told, config)
        self._supervisor = Supervisor(
            SupervisorSettings(
                config=config,
                data_dir=told.data_dir,
                worker_count=told.worker_count,
                users=told.users,
                log_format="json",
                log_level=told.log_level,
                tells_pages=neighbours is not None,
                has_metrics_page=told.doors.metrics is not None,
            ),
            self._children,
            inner_addresses=None if neighbours is None else neighbours.servers.addresses,
        )
        self._supervisor.members_changed = self._tell_members
        try:
            if neighbours is not None:
                await neighbours.begin(self._supervisor)
            await self._supervisor.start()
            try:
                await self._serve_until_stopped(neighbours)
            finally:
                if neighbours is not None:
                    await neighbours.end()
                await self._supervisor.stop()
        finally:
            if neighbours is not None:
                await neighbours.close()
        return DONE

    async def _serve_until_stopped(self, neighbours: WorkerNeighbours | None) -> None:
        doors: dict[str, Endpoint] = {}
        if neighbours is not None:
            await neighbours.serve()
            for name, door in (
                (METRICS, neighbours.metrics_door),
                (CONSOLE, neighbours.console_door),
            ):
                if door is not None:
                    doors[name] = door.endpoint
        self._channel.send(Serving(self._supervisor.common_endpoints, doors))
        await self._stopping.wait()

    def _tell_members(self) -> None:
        self._channel.send(MembersChanged(list(self._supervisor.members.values())))

    async def _watch_parent(self) -> None:
        """Notices the end of the program where another process has its end of the channel, as one that it forked."""
        while os.getppid() == self._parent:
            await asyncio.sleep(PARENT_CHECK_SECONDS)
        self._stopping.set()

    async def _answer(self, asked: Asked) -> None:
        """Answers with a pair: an error and its words, or None and the answer."""
        answers: Mapping[str, Callable[[Any], Awaitable[JsonValue]]] = {
            "kill": self._kill,
            "wait": self._wait,
            "leader": self._leader,
            "passwords": self._set_passwords,
        }
        question: Any = asked.question
        try:
            found = await answers[asked.kind](question)
        except OttlaError as error:
            self._channel.send(Answered(asked.number, [type(error).__name__, str(error)]))
        else:
            self._channel.send(Answered(asked.number, [None, found]))

    async def _kill(self, node_id: int) -> None:
        await self._supervisor.kill(node_id)

    async def _wait(self, node_id: int) -> None:
        await self._supervisor.wait_for(node_id)

    async def _leader(self, partition: Sequence[Any]) -> int:
        topic, number = partition
        return self._supervisor.leader_of(topic, number)

    async def _set_passwords(self, passwords: Mapping[str, str]) -> None:
        await self._supervisor.set_passwords(passwords)


def _neighbours(told: Supervise, config: BrokerConfig) -> WorkerNeighbours | None:
    """The metrics and the console; None if there are neither."""
    if not told.doors.are_any:
        return None
    # They take a tenth of a second to import.
    from ottla.cli.worker_neighbours import WorkerNeighbours

    console = told.doors.broker_console(config)
    settings = BrokerSettings(
        config,
        data_dir=told.data_dir,
        metrics=told.doors.metrics_door(config),
        console=None if console is None else replace(console, log_format="json"),
        users=told.users,
    )
    return WorkerNeighbours(settings, registry=None, worker_count=told.worker_count)


if __name__ == "__main__":
    sys.exit(main())
