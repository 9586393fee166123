"""The supervisor of workers: it has the data folder's lock, the catalog and the ports, and starts the workers.

It serves no data, and waits for no worker. A worker that has ended is started again at once; its partitions wait for
it, as no other worker can open its store. One that hangs is killed first.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from ottla.broker.clock import SystemClock
from ottla.broker.network.listener import are_on_loopback, authenticates
from ottla.broker.security.first_users import set_passwords
from ottla.broker.topics import adopt_partitions
from ottla.broker.workers.catalog_commits import CatalogCommits
from ottla.broker.workers.child_processes import ChildProcesses
from ottla.broker.workers.messages import (
    AboutToServe,
    Accepted,
    Alive,
    Answered,
    Applied,
    Asked,
    Commit,
    Connect,
    Connected,
    Epochs,
    EpochsOf,
    Failed,
    MembersChanged,
    Message,
    NotConnected,
    Ready,
    Started,
    Stopped,
    WorkerState,
)
from ottla.broker.workers.worker_channel import SUPERVISOR
from ottla.broker.workers.worker_process import WorkerProcess, start_worker_process
from ottla.broker.workers.worker_sockets import (
    WorkerSockets,
    bind_workers,
    check_ports,
    own_endpoint,
)
from ottla.config.broker import BrokerConfig
from ottla.config.listeners import ListenerSettings
from ottla.core.catalog import Catalog, Changes
from ottla.core.leadership import Owners
from ottla.errors import IllegalStateError, OttlaError
from ottla.events import EventLog
from ottla.model import Endpoint
from ottla.ports import JsonValue
from ottla.ports.errors import InUseError
from ottla.storage.local.supervised_folder import SupervisedFolder, open_supervised_folder

logger = EventLog(__name__)

# A worker whose loop has said nothing for so long is killed; a slow disk alone should not come to that.
HANG_SECONDS: Final = 20.0
CHECK_SECONDS: Final = 0.5
# Workers of a supervisor that was killed, which hold its locks, end a moment later.
DYING_SECONDS: Final = 1.0
DYING_CHECK_SECONDS: Final = 0.02
STOP_SECONDS: Final = 60.0
ASK_SECONDS: Final = 2.0
# A worker that ran for so long was well. One that was not is started again after a pause, which doubles, from the
# second time on.
STEADY_SECONDS: Final = 10.0
FIRST_PAUSE_SECONDS: Final = 0.25
MAX_PAUSE_SECONDS: Final = 30.0


@dataclass(frozen=True)
class SupervisorSettings:
    """What `ottla serve --workers` is told; node ids begin with `node.id`."""

    config: BrokerConfig
    data_dir: str
    worker_count: int
    log_format: str = "text"
    log_level: str = "info"
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    tells_pages: bool = False
    """Whether anything will ask for the metrics or the internals of workers."""
    has_metrics_page: bool = False

    def validate(self) -> None:
        """Checks rules that involve several settings."""
        check_ports(self.config.all_listeners, self.worker_count)


class _Worker:
    """A worker, through all of its processes."""

    def __init__(
        self,
        number: int,
        node_id: int,
        endpoints: Mapping[str, Endpoint],
        advertised: Mapping[str, Endpoint],
        inner: Mapping[str, Endpoint],
    ) -> None:
        self.number = number
        self.node_id = node_id
        self.endpoints = endpoints
        self.advertised = advertised
        self.inner = inner
        self.process: WorkerProcess | None = None
        self.is_live = False
        self.serves = asyncio.Event()  # set while it is live
        self.failure: OttlaError | None = None
        """What the process says of why it cannot serve."""
        self.heard_at = 0.0
        self.epochs: JsonValue = None
        self.has_served: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[None] | None = None
        self.restarts = 0
        self.ending = ""
        """Why its last process ended."""
        self.is_kill_wanted = False
        """Whether somebody has asked for the end of its process."""

    @property
    def state(self) -> WorkerState:
        advertised = {**self.advertised, **self.inner}
        return WorkerState(self.node_id, self.endpoints, advertised, self.is_live)


class Supervisor:
    """Several workers over one data folder, until it is stopped; used on the main thread's loop."""

    def __init__(
        self,
        settings: SupervisorSettings,
        children: ChildProcesses,
        *,
        hang_seconds: float = HANG_SECONDS,
        inner_addresses: Mapping[int, Mapping[str, Endpoint]] | None = None,
    ) -> None:
        """`inner_addresses` are those for clients beside the workers, by node id and kind (`handed_servers.py`)."""
        self._settings = settings
        self._inner_addresses = inner_addresses or {}
        self._children = children
        self._hang_seconds = hang_seconds
        self._workers: dict[int, _Worker] = {}  # by node id
        self._stopping = asyncio.Event()
        self._numbers = itertools.count(1)
        self._questions: dict[int, tuple[_Worker, asyncio.Future[JsonValue]]] = {}
        self._watch: asyncio.Task[None] | None = None
        self.members_changed: Callable[[], None] = lambda: None
        """Called whenever a worker is live, or not live any more."""
        self._folder: SupervisedFolder
        self._owners: Owners
        self._sockets: WorkerSockets
        self._commits: CatalogCommits
        self.topic_count = self.partition_count = 0
        """How many there were at the start."""

    # -- its life

    async def start(self) -> None:
        """Returns when every worker serves; if one cannot, all are stopped."""
        await self._open()
        loop = asyncio.get_running_loop()
        for worker in self._workers.values():
            worker.task = loop.create_task(self._run(worker))
        self._watch = loop.create_task(self._watch_workers())
        try:
            await asyncio.gather(*(worker.has_served for worker in self._workers.values()))
        except BaseException:
            await self._end()
            raise

    async def _open(self) -> None:
        """The folder and the ports; ports that are taken leave no new folder."""
        settings = self._settings
        settings.validate()
        listeners, count = settings.config.all_listeners, settings.worker_count
        if not os.path.exists(settings.data_dir):
            self._sockets = await bind_workers(listeners, count)
            try:
                await self._open_folder()
            except BaseException:
                self._sockets.close()
                raise
        else:
            await self._open_folder()
            try:
                self._sockets = await bind_workers(listeners, count)
            except BaseException:
                self._folder.close()
                raise
        try:
            self._prepare()
            self._sockets.listen()
        except BaseException:
            self._sockets.close()
            self._folder.close()
            raise
        for number in range(1, count + 1):
            node_id = self._node_id(number)
            endpoints = self._sockets.own[number].endpoints
            advertised = {
                each.name: own_endpoint(each.advertised, number)
                for each in listeners
                if each.advertised is not None
            }
            self._workers[node_id] = _Worker(
                number, node_id, endpoints, advertised, self._inner_addresses.get(node_id, {})
            )

    async def _open_folder(self) -> None:
        settings = self._settings
        deadline = time.monotonic() + DYING_SECONDS
        while True:
            try:
                self._folder = open_supervised_folder(
                    settings.data_dir, node_id=settings.config.node_id
                )
            except InUseError:
                if time.monotonic() >= deadline:
                    raise
                await asyncio.sleep(DYING_CHECK_SECONDS)
            else:
                return

    def _prepare(self) -> None:
        """What is done once, before there are workers: topics of a foreign folder, users, partitions that move."""
        stored = self._folder.catalog
        self._commits = CatalogCommits(stored)
        catalog = Catalog(stored.entries())

        def commit(changes: Changes) -> None:
            self._commits.write(changes, stored.revision)
            catalog.apply(changes)

        if not stored.entries():
            now_ms = SystemClock().now_ms()
            adopt_partitions(catalog, self._folder.partitions(), now_ms, commit)
        set_passwords(catalog, self._settings.users, commit)
        count = self._settings.worker_count
        self._owners = Owners(map(self._node_id, range(1, count + 1)))

        def number_of_owner(topic: str, partition: int) -> int:
            known = catalog.topics.get(topic)
            assignments = () if known is None else known.assignments
            return self._number_of(self._owners.owner_of(topic, partition, assignments))

        self._folder.move_partitions(count, number_of_owner)
        self.topic_count = len(catalog.topics)
        self.partition_count = sum(each.partition_count for each in catalog.topics.values())

    def leader_of(self, topic: str, partition: int) -> int:
        """The node that leads a partition."""
        found = Catalog(self._folder.catalog.entries()).topics.get(topic)
        if found is None or not 0 <= partition < found.partition_count:
            raise OttlaError(f"there is no partition {topic}-{partition}")
        return self._owners.owner_of(topic, partition, found.assignments)

    def _number_of(self, node_id: int) -> int:
        return node_id - self._settings.config.node_id + 1

    def _node_id(self, number: int) -> int:
        return self._settings.config.node_id + number - 1

    async def stop(self) -> None:
        """Stops every worker cleanly; OttlaError if one of them was not."""
        await self._end()
        unclean = [each for each in self._workers.values() if each.ending]
        if unclean:
            reasons = "; ".join(f"node {each.node_id}: {each.ending}" for each in unclean)
            raise OttlaError(
                f"the stop was not clean, and the next start checks the data: {reasons}"
            )

    async def _end(self) -> None:
        self._stopping.set()
        # New clients are refused as soon as the workers have closed theirs, too.
        self._sockets.close()
        if self._watch is not None:
            self._watch.cancel()
        tasks = [worker.task for worker in self._workers.values() if worker.task is not None]
        for worker in self._workers.values():
            if worker.process is not None:
                worker.process.send(Stopped())
        _, late = await asyncio.wait(tasks, timeout=STOP_SECONDS)
        if late:
            for worker in self._workers.values():
                if worker.process is not None:
                    worker.process.kill(f"it did not stop within {STOP_SECONDS:.0f} s")
            await asyncio.wait(late)
        self._commits.close()
        self._folder.close()

    # -- a worker's life

    async def _run(self, worker: _Worker) -> None:
        """Keeps a worker running until the stop."""
        deaths = 0  # in a row, each soon after a start
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                reason = await self._run_once(worker)
            except OSError as error:  # too many processes, or open files
                reason = f"it could not be started: {error}"
            if self._stopping.is_set():
                worker.ending = reason
                break
            if not worker.has_served.done():
                worker.has_served.set_exception(
                    worker.failure
                    or OttlaError(
                        f"node {worker.node_id} did not start: {reason or 'it was stopped'}"
                    )
                )
                return
            if time.monotonic() - began >= STEADY_SECONDS:
                deaths = 0
            pause = 0.0
            if worker.is_kill_wanted:
                worker.is_kill_wanted = False  # nothing is wrong with it
            else:
                if deaths:
                    pause = min(FIRST_PAUSE_SECONDS * 2 ** (deaths - 1), MAX_PAUSE_SECONDS)
                deaths += 1
            worker.restarts += 1
            logger.warning(
                "worker_ended",
                "node %(node)d has ended, and is started again after %(seconds).2f s: %(reason)s",
                node=worker.node_id,
                seconds=pause,
                reason=str(worker.failure or reason or "it was stopped"),
            )
            if pause:
                await self._wait_for_stop(pause)

    async def _wait_for_stop(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return

    async def _run_once(self, worker: _Worker) -> str:
        """One process, until it has ended; returns why it did, "" after a clean stop."""
        worker.failure = None
        process = await start_worker_process(self._children, partial(self._take, worker))
        worker.process = process
        worker.heard_at = time.monotonic()
        try:
            try:
                self._tell_all(worker)
            except OSError as error:  # too many open files: it knows too little to serve, or to end
                process.kill(f"it could not be told what to serve: {error}")
            if self._stopping.is_set():
                process.send(Stopped())
            return await process.ended()
        finally:
            worker.process = None
            self._lost(worker)

    def _tell_all(self, worker: _Worker) -> None:
        """What a new process has to know."""
        assert worker.process is not None
        settings = self._settings
        inherited = self._sockets.of_worker(worker.number)
        worker.process.send(
            Started(
                worker=worker.number,
                data_dir=settings.data_dir,
                options=self._options_of(worker),
                listeners=[name for name, _ in inherited],
                log_format=settings.log_format,
                log_level=settings.log_level,
                tells_pages=settings.tells_pages,
                has_metrics_page=settings.has_metrics_page,
            ),
            [self._folder.lock_descriptor, *(each.fileno() for _, each in inherited)],
        )
        worker.process.send(MembersChanged(self._states()))
        for other in self._workers.values():
            if other is not worker and other.epochs is not None:
                worker.process.send(EpochsOf(other.node_id, other.epochs))
        self._commits.add(worker.node_id, worker.process.send)

    def _options_of(self, worker: _Worker) -> dict[str, str]:
        """The options of a worker: the common ones, with the id and the addresses that are its own."""
        own = {"node.id": str(worker.node_id), "listeners": _listeners_text(worker.endpoints)}
        if worker.advertised:
            own["advertised.listeners"] = _listeners_text(worker.advertised)
        return {**self._settings.config.texts(), **own}

    def _lost(self, worker: _Worker) -> None:
        """A worker's process has ended."""
        self._commits.remove(worker.node_id)
        for number, (asked, future) in list(self._questions.items()):
            if asked is worker and not future.done():
                future.set_result(None)
                del self._questions[number]
        if worker.is_live:
            worker.is_live = False
            worker.serves.clear()
            self._push_members()

    async def _watch_workers(self) -> None:
        """Kills workers whose loops say nothing any more."""
        looked_at = time.monotonic()
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            now = time.monotonic()
            if now - looked_at > 2 * CHECK_SECONDS:
                # This process was stopped, and the workers perhaps with it: they get their time again.
                for worker in self._workers.values():
                    worker.heard_at = now
            looked_at = now
            for worker in self._workers.values():
                silent = now - worker.heard_at
                # One that starts may be busy with checking its data.
                if worker.is_live and worker.process is not None and silent > self._hang_seconds:
                    worker.process.kill(f"its loop did not turn for {silent:.0f} s")

    # -- what workers say

    def _states(self) -> list[WorkerState]:
        return [worker.state for worker in self._workers.values()]

    def _push_members(self) -> None:
        self._send_to_all(MembersChanged(self._states()))
        self.members_changed()

    def _send_to_all(self, message: Message, besides: _Worker | None = None) -> None:
        for worker in self._workers.values():
            if worker.process is not None and worker is not besides:
                worker.process.send(message)

    def _take(self, worker: _Worker, message: Message) -> None:
        worker.heard_at = time.monotonic()
        match message:
            case Alive():
                pass
            case Commit():
                self._commits.commit(worker.node_id, message)
            case Applied():
                self._commits.applied(worker.node_id, message)
            case Connect():
                self._connect_workers(worker, message)
            case Epochs():
                worker.epochs = message.epochs
                self._send_to_all(EpochsOf(worker.node_id, message.epochs), besides=worker)
            case AboutToServe():
                self._commits.serves(worker.node_id)
            case Ready():
                self._serves(worker)
            case Failed():
                worker.failure = message.error()
            case Answered():
                asked = self._questions.pop(message.number, None)
                if asked is not None and not asked[1].done():
                    asked[1].set_result(message.answer)
            case _:
                raise AssertionError(f"a worker says no {type(message).__name__}")

    def _serves(self, worker: _Worker) -> None:
        worker.is_live = True
        worker.serves.set()
        self._commits.serves(worker.node_id)
        self._push_members()
        assert worker.process is not None
        logger.info(
            "worker_started",
            "node %(node)d serves, as process %(pid)d",
            node=worker.node_id,
            pid=worker.process.pid,
        )
        if not worker.has_served.done():
            worker.has_served.set_result(None)

    def _connect_workers(self, worker: _Worker, message: Connect) -> None:
        assert worker.process is not None
        try:
            with self._connected(message.node_id, message.kind, worker.node_id) as ours:
                worker.process.send(Connected(message.number), [ours.fileno()])
        except OSError as error:  # it is not live, or there are too many open files
            worker.process.send(NotConnected(message.number, str(error)))

    def connect(self, node_id: int, kind: str) -> socket.socket:
        """A connected socket to a worker, which does not block; ConnectionRefusedError if that is not live.

        The worker's hook for this kind gets the other end.
        """
        ours = self._connected(node_id, kind, SUPERVISOR)
        ours.setblocking(False)
        return ours

    def _connected(self, node_id: int, kind: str, sender_id: int) -> socket.socket:
        worker = self._workers.get(node_id)
        if worker is None or worker.process is None or not worker.is_live:
            raise ConnectionRefusedError(f"node {node_id} is not running")
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                worker.process.send(Accepted(sender_id, kind), [theirs.fileno()])
        except OSError:
            ours.close()
            raise
        return ours

    def hand_over(self, node_id: int, kind: str, connection: socket.socket) -> None:
        """Gives a worker a connection of this kind; ConnectionRefusedError if it is not live."""
        worker = self._workers.get(node_id)
        if worker is None or worker.process is None or not worker.is_live:
            raise ConnectionRefusedError(f"node {node_id} is not running")
        worker.process.send(Accepted(SUPERVISOR, kind), [connection.fileno()])

    # -- what others ask

    async def kill(self, node_id: int) -> None:
        """Ends a worker as kill -9 does, and returns when its process has ended; it is started again at once."""
        worker = self._worker(node_id)
        process = worker.process
        if process is None or not worker.is_live:
            raise IllegalStateError(f"node {node_id} is not running")
        worker.is_kill_wanted = True
        process.kill("kill_node() was called")
        await process.has_ended.wait()

    async def wait_for(self, node_id: int) -> None:
        """Returns when a worker serves."""
        await self._worker(node_id).serves.wait()

    def _worker(self, node_id: int) -> _Worker:
        worker = self._workers.get(node_id)
        if worker is None:
            known = ", ".join(map(str, self._workers))
            raise OttlaError(f"there is no node {node_id}: the nodes are {known}")
        return worker

    async def set_passwords(self, passwords: Mapping[str, str]) -> None:
        """Gives users their passwords; every live worker knows them then."""
        stored = self._folder.catalog
        set_passwords(
            Catalog(stored.entries()),
            passwords,
            lambda changes: self._commits.write(changes, stored.revision),
        )
        await self._commits.applied_by_all()

    async def ask(
        self, node_id: int, kind: str, question: JsonValue = None, seconds: float = ASK_SECONDS
    ) -> JsonValue:
        """A worker's answer; None if it is not live, does not know this kind, or does not answer in time."""
        worker = self._workers[node_id]
        if worker.process is None or not worker.is_live:
            return None
        number = next(self._numbers)
        future: asyncio.Future[JsonValue] = asyncio.get_running_loop().create_future()
        self._questions[number] = (worker, future)
        worker.process.send(Asked(number, kind, question))
        try:
            return await asyncio.wait_for(future, seconds)
        except TimeoutError:
            return None
        finally:
            self._questions.pop(number, None)

    @property
    def cluster_id(self) -> str:
        return self._folder.cluster_id

    @property
    def endpoint(self) -> Endpoint:
        """The common address of the first listener."""
        return next(iter(self._sockets.common.endpoints.values()))

    @property
    def common_endpoints(self) -> Mapping[str, Endpoint]:
        """The common addresses, by the names of listeners."""
        return self._sockets.common.endpoints

    @property
    def open_listeners(self) -> list[str]:
        """The listeners that other machines can reach, and that ask clients for no proof of who they are."""
        config = self._settings.config
        return [
            each.name
            for each in config.all_listeners
            if not authenticates(each, config.of_listener(each.name))
            and not are_on_loopback(self._sockets.common.sockets[each.name])
        ]

    def addresses_for_clients(self, listener: ListenerSettings) -> list[Endpoint]:
        """Where clients of a listener find the workers."""
        name = listener.name
        return [each.advertised.get(name, each.endpoints[name]) for each in self._workers.values()]

    @property
    def members(self) -> Mapping[int, WorkerState]:
        """All workers by their node ids."""
        return {node_id: worker.state for node_id, worker in self._workers.items()}

    def restarts_of(self, node_id: int) -> int:
        """How often a worker was started again."""
        return self._workers[node_id].restarts

    def pid_of(self, node_id: int) -> int | None:
        """The process that is a worker now."""
        process = self._workers[node_id].process
        return None if process is None else process.pid


def _listeners_text(endpoints: Mapping[str, Endpoint]) -> str:
    """As the options `listeners` and `advertised.listeners` have it."""
    return ",".join(f"{name}://{endpoint}" for name, endpoint in endpoints.items())
