"""A broker inside the calling process, on a thread of its own."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from ottla.broker.embedded_doors import CONSOLE, METRICS, EmbeddedDoors, path_of
from ottla.broker.runtime import BrokerSettings, RunningBroker, start_broker
from ottla.broker.security.client_settings import ClientSettings
from ottla.broker.security.embedded_security import (
    Client,
    EmbeddedSecurity,
    Security,
    options_for,
    security_of,
)
from ottla.broker.security.first_users import change_users, ensure_users
from ottla.config.broker import BrokerConfig, with_embedded_defaults
from ottla.config.listeners import advertised_text, listener_text
from ottla.config.options import dotted_names, options_of
from ottla.errors import ConfigError, IllegalStateError
from ottla.event_loop import new_event_loop
from ottla.model import Endpoint
from ottla.storage.shared.storage_urls import read_urls

if TYPE_CHECKING:
    from ottla.broker.shared.embedded_brokers import EmbeddedBrokers
    from ottla.broker.workers.embedded_supervisor import EmbeddedSupervisor
    from ottla.broker.workers.messages import WorkerState
    from ottla.config.option_types import BrokerOptions

T = TypeVar("T")

STOP_SECONDS = 30
# Longer than a supervisor waits for its workers.
WORKERS_STOP_SECONDS = 120
DEFAULT_LISTEN = "127.0.0.1:0"

# Programs that want to see the log of a broker in their process configure logging. Clients are left
# alone: their warnings are about the program that they are in, and Python prints them where nothing is configured.
for _part in ("ottla.broker", "ottla.storage"):
    logging.getLogger(_part).addHandler(logging.NullHandler())
# What people try first.
_MEANT = {
    "data": "data_dir=",
    "datadir": "data_dir=",
    "path": "data_dir=",
    "host": 'listen="HOST:PORT"',
    "port": 'listen="HOST:PORT"',
    "bootstrap_servers": 'listen="HOST:PORT"',
}


class Broker:
    """A Kafka broker to embed in a test or a program.

        with ottla.Broker() as broker:
            producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})

    Options have Kafka's names, as a dict with dots or as keywords with underscores: `Broker(num_partitions=3)`.
    Without `data_dir` the data is in a temporary folder that goes when the broker stops.

    With `metrics="127.0.0.1:0"` it has metrics for Prometheus at `metrics_url`. For `metrics="https://127.0.0.1:0"`,
    `metrics_certificate` is a PEM file with the private key and its certificates; by default it is that of the first
    listener with TLS. `metrics_login` is a file of users (NAME:PASSWORD) and bearer tokens, one on a line.

    With `console="127.0.0.1:0"` it serves a web page that shows it, at `console_url`: a process of its own, which ends
    with the broker. It needs `ottla[console]`. `console_certificate` is as `metrics_certificate`. Users of a broker
    with SASL log in by their passwords; `console_login` is a file of tokens (ROLE TOKEN) for others. With
    `console_read_only` it refuses every change. `console_allowed_hosts` are further names by which browsers call it.

    With `listeners="PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0"` and the options of each it has several addresses;
    `servers_of_listener("SSL")` has those of one.

    With `security` its clients have to use TLS or to log in, and need ACLs: "scram", "plain", "sasl-ssl", "tls",
    "mtls", or an `ottla.Security`. It makes certificates and users; `client_options(user)` has what a client needs:

        with ottla.Broker(security="scram") as broker:
            admin = ottla.Admin(broker.client_options())
            producer = ottla.Producer(broker.client_options("alice"))

    With `nodes` it is a cluster of that many brokers in this process, each with an address of its own, to test what a
    program does when leaders move (`move_leader`) and brokers go (`kill_node`) and come back (`start_node`):

        >>> with Broker(nodes=3) as broker:
        ...     broker.kill_node(2)
        ...     broker.node_ids
        ...     broker.start_node(2)
        ...     broker.node_ids, len(broker.bootstrap_servers.split(","))
        [1, 3]
        ([1, 2, 3], 3)

    With `workers` the nodes are processes instead, as of `ottla serve --workers`, which use as many processors. A node
    leads the same partitions as long as the number of workers is the same: `kill_node` kills a process, which is
    started again at once, and `start_node` waits until it serves.

    With `storage`, and `objects`, the nodes share the storage of a cluster (`ottla storage init`) with brokers of other
    processes: each is a broker of its own, as of `ottla serve --storage`.
    """

    def __init__(
        self,
        options: Mapping[str, object] | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        listen: str | None = None,
        advertise: str | None = None,
        nodes: int = 1,
        workers: int = 1,
        storage: str | None = None,
        objects: str | None = None,
        metrics: str | None = None,
        metrics_certificate: str | os.PathLike[str] | None = None,
        metrics_login: str | os.PathLike[str] | None = None,
        console: str | None = None,
        console_certificate: str | os.PathLike[str] | None = None,
        console_login: str | os.PathLike[str] | None = None,
        console_read_only: bool = False,
        console_allowed_hosts: Sequence[str] = (),
        security: str | Security | None = None,
        **keywords: Unpack[BrokerOptions],
    ) -> None:
        given = _given_options(options, keywords)
        self._security = None if security is None else EmbeddedSecurity(security_of(security))
        if self._security is not None:
            given = {**self._security.options(), **given}
            listen = _secured(listen, self._security, given)
        _add_addresses(given, listen, advertise)
        config = BrokerConfig.read(with_embedded_defaults(given))
        self._doors = EmbeddedDoors(
            metrics=metrics,
            metrics_certificate=path_of(metrics_certificate),
            metrics_login=path_of(metrics_login),
            console=console,
            console_certificate=path_of(console_certificate),
            console_login=path_of(console_login),
            console_read_only=console_read_only,
            console_allowed_hosts=tuple(console_allowed_hosts),
        )
        self._settings = BrokerSettings(
            config=config,
            users={} if self._security is None else self._security.passwords,
            nodes=nodes,
            storage=read_urls(storage, objects, {}),
            metrics=self._doors.metrics_door(config),
            console=self._doors.broker_console(config),
        )
        self._settings.validate()
        self._worker_count = workers
        if workers != 1 or type(workers) is not int:
            self._check_workers()
        if self._settings.storage is not None and (data_dir is not None or workers != 1):
            other = "workers=" if data_dir is None else "data_dir="
            raise ConfigError(f"storage= and {other} exclude each other: give one of them")
        self._shared: EmbeddedBrokers | None = None
        self._workers: EmbeddedSupervisor | None = None
        self._data_dir = None if data_dir is None else os.fspath(data_dir)
        self._temporary: str | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0  # of the process that started it
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: RunningBroker | None = None
        self._addresses: dict[int, dict[str, Endpoint]] = {}  # of live nodes, by listener
        self._first_listener = self._settings.config.all_listeners[0].name

    def _check_workers(self) -> None:
        """Refuses what needs all nodes in this process."""
        if type(self._worker_count) is not int or self._worker_count < 1:
            raise ConfigError(
                f"workers={self._worker_count!r}: give a number of processes, at least 1"
            )
        settings = self._settings
        if settings.nodes != 1:
            raise ConfigError(
                "nodes= are in this process and workers= are processes: give one of them"
            )
        from ottla.broker.workers.worker_sockets import check_ports

        check_ports(settings.config.all_listeners, self._worker_count)

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all running nodes, as clients want them for `bootstrap.servers`.

        They are those of the first listener; `servers_of_listener` has the others'. Workers have one in common.
        """
        return self.servers_of_listener(self._first_listener)

    def servers_of_listener(self, name: str) -> str:
        """As `bootstrap_servers`, of one of the `listeners`."""
        self._check_runs()
        if self._workers is not None:
            return self._joined({0: _all_reachable(self._workers.common)}, name)
        if not self._addresses:
            raise IllegalStateError("every node was killed: call start_node()")
        return self._joined(self._addresses, name)

    def _joined(self, addresses: Mapping[int, Mapping[str, Endpoint]], listener: str) -> str:
        try:
            return ",".join(str(of_node[listener.upper()]) for of_node in addresses.values())
        except KeyError:
            known = ", ".join(each.name for each in self._settings.config.all_listeners)
            raise ConfigError(f"there is no listener {listener}: there are {known}") from None

    def client_options(
        self, user: str | None = None, *, client: Client = "ottla"
    ) -> dict[str, Any]:
        """The options with which a client connects: the addresses, and with `security` all that belongs to it.

        Without `user` it is the super user, who may do everything. Another one is created when it is first named, and
        may do what ACLs allow. `client` is the library: ottla, java (a properties file), confluent-kafka (or
        librdkafka), kafka-python or aiokafka.
        """
        servers = self.bootstrap_servers
        if self._security is None:
            if user is not None:
                raise ConfigError(
                    f'there is no user {user}: make the broker with security="scram" or another'
                )
            return options_for(client, servers, ClientSettings("PLAINTEXT"))
        is_new = user is not None and not self._security.is_known(user)
        settings = self._security.settings_of(user)
        if is_new:
            self._set_passwords({settings.username: settings.password})
        return options_for(client, servers, settings)

    def _set_passwords(self, passwords: Mapping[str, str]) -> None:
        if self._workers is not None:
            self._run_on_loop(self._workers.ask("passwords", dict(passwords)))
        elif self._shared is not None:
            self._run_on_loop(change_users(self._shared.cluster, passwords))
        else:
            self._call(lambda running: ensure_users(running.cluster, passwords))

    @property
    def metrics_url(self) -> str:
        """Where Prometheus finds the metrics, if the broker was made with `metrics="HOST:PORT"`."""
        self._check_runs()
        door = self._settings.metrics
        if door is None:
            raise IllegalStateError(
                'there are no metrics: make the broker with metrics="HOST:PORT"'
            )
        if self._workers is not None:
            endpoint = self._workers.doors[METRICS]
        else:
            served = self._running_broker()[0].metrics_door
            assert served is not None
            endpoint = served.endpoint
        return f"{door.at(_reachable(endpoint)).url}/metrics"

    @property
    def console_url(self) -> str:
        """Where a browser finds the console, if the broker was made with `console="HOST:PORT"`."""
        self._check_runs()
        console = self._settings.console
        if console is None:
            raise IllegalStateError('there is no console: make the broker with console="HOST:PORT"')
        if self._workers is not None:
            endpoint = self._workers.doors[CONSOLE]
        else:
            served = self._running_broker()[0].console
            assert served is not None
            endpoint = served.door.endpoint
        return console.door.at(_reachable(endpoint)).url

    @property
    def node_ids(self) -> list[int]:
        """The ids of the nodes that run."""
        self._check_runs()
        return list(self._addresses)

    def address_of(self, node_id: int) -> str:
        """Where clients connect to one node."""
        self._check_runs()
        if node_id not in self._addresses:
            raise IllegalStateError(f"node {node_id} is not running")
        return str(self._addresses[node_id][self._first_listener])

    def leader_of(self, topic: str, partition: int) -> int:
        """The id of the node that leads a partition; -1 if every node was killed.

        A partition of workers has the same leader while that is killed and started again.
        """
        if self._workers is not None:
            return int(self._run_on_loop(self._workers.ask("leader", [topic, partition])))

        def look(running: RunningBroker) -> int:
            if self._shared is not None:
                return self._shared.leader_of(topic, partition)
            return running.cluster.leader_of(
                running.cluster.find_partition(topic, partition), partition
            )

        return self._call(look)

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        """Makes a node lead a partition; clients learn it from the errors that they get at the old leader."""
        if self._workers is not None:
            raise ConfigError(
                "each worker has a store of its own, so that its partitions stay with it: move leaders with nodes="
            )
        if self._shared is not None:
            self._run_on_loop(self._shared.move_leader(topic, partition, node_id))
            return
        self._call(lambda running: running.cluster.move_leader(topic, partition, node_id))

    def kill_node(self, node_id: int) -> None:
        """Ends a node as kill -9 would: connections are cut, it saves nothing, others lead its partitions.

        A worker is started again at once, and leads its partitions again. The call returns when the process has ended.
        """
        if self._workers is not None:
            self._run_on_loop(self._workers.ask("kill", node_id))
            return
        self._run_on_loop((self._shared or self._running_broker()[0]).kill_node(node_id))
        self._call(self._note_addresses)

    def start_node(self, node_id: int) -> None:
        """Starts a node that was killed, at the address that it had.

        As with Kafka it leads nothing at first; ElectLeaders gives it back what it is the preferred leader of.

        A worker is started again by itself: this returns when it serves.
        """
        if self._workers is not None:
            self._run_on_loop(self._workers.ask("wait", node_id))
            return
        self._run_on_loop((self._shared or self._running_broker()[0]).start_node(node_id))
        self._call(self._note_addresses)

    def _check_runs(self) -> None:
        if self._workers is None and self._shared is None:
            self._running_broker()

    def _running_broker(self) -> tuple[RunningBroker, asyncio.AbstractEventLoop]:
        if self._loop is None or (self._running is None and self._shared is None):
            raise IllegalStateError(
                "the broker is not running: call start() or use it in a with statement"
            )
        if self._shared is not None:
            return self._shared.first, self._loop
        assert self._running is not None
        return self._running, self._loop

    def _is_inherited(self) -> bool:
        """Whether a fork made this process a child of the broker's: its thread, files and sockets are the parent's."""
        return os.getpid() != self._pid

    def _call(self, work: Callable[[RunningBroker], T]) -> T:
        """Does something on the broker's own thread."""
        running = self._running_broker()[0]

        async def call() -> T:
            return work(running)

        return self._run_on_loop(call())

    def _check_is_own(self) -> None:
        """Refuses to control a broker of the parent of this process."""
        if self._is_inherited():
            raise IllegalStateError(
                "the broker runs in the parent of this process: connect to its address, and let the parent control it"
            )

    def _run_on_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            self._check_is_own()
        except IllegalStateError:
            coroutine.close()
            raise
        self._check_runs()
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(STOP_SECONDS)

    def _note_addresses(self, running: RunningBroker) -> None:
        """Notes where clients connect to each node; on the broker's thread, so that the last note is the true one."""
        self._addresses = {
            node_id: {
                name: server.node.advertised.get(name) or _reachable(endpoint)
                for name, endpoint in server.node.endpoints.items()
            }
            for node_id, server in sorted((self._shared or running).servers.items())
        }

    @property
    def data_dir(self) -> str:
        """Where the data is."""
        folder = self._data_dir or self._temporary
        if folder is None:
            raise IllegalStateError("the broker is not running and was given no data_dir")
        return folder

    def __repr__(self) -> str:
        where = (
            "not running"
            if self._running is None and self._workers is None and self._shared is None
            else f"on {self._joined(self._addresses, self._first_listener) or 'no node'}"
        )
        return f"<ottla.Broker {where}>"

    def start(self) -> Self:
        """Starts and returns when clients can connect."""
        if self._thread is not None:
            raise IllegalStateError("the broker is running already")
        self._pid = os.getpid()
        if self._data_dir is None and self._settings.storage is None:
            self._temporary = tempfile.mkdtemp(prefix="ottla-")
        loop = self._loop = new_event_loop()
        self._thread = threading.Thread(
            target=self._run, args=(loop,), name="ottla-broker", daemon=True
        )
        self._thread.start()
        try:
            if self._worker_count > 1:
                self._start_workers(loop)
            elif self._settings.storage is not None:
                starting_all = self._start_shared(self._settings)
                self._shared = asyncio.run_coroutine_threadsafe(starting_all, loop).result()
            else:
                settings = replace(self._settings, data_dir=self.data_dir)
                starting = self._start_with_console(settings)
                self._running = asyncio.run_coroutine_threadsafe(starting, loop).result()
        except BaseException:
            self._end_thread()
            raise
        atexit.register(self.stop)
        if self._running is not None or self._shared is not None:
            self._call(self._note_addresses)
        return self

    async def _start_shared(self, settings: BrokerSettings) -> EmbeddedBrokers:
        from ottla.broker.shared.embedded_brokers import EmbeddedBrokers

        brokers = EmbeddedBrokers(settings)
        await brokers.start()
        if settings.console is not None:
            try:
                await brokers.first.start_console()
            except BaseException:
                await brokers.stop()
                raise
        return brokers

    def _start_workers(self, loop: asyncio.AbstractEventLoop) -> None:
        from ottla.broker.workers.embedded_supervisor import EmbeddedSupervisor
        from ottla.broker.workers.messages import Supervise

        told = Supervise(
            options=self._settings.config.texts(),
            data_dir=self.data_dir,
            worker_count=self._worker_count,
            users=self._settings.users,
            log_level=logging.getLevelName(
                logging.getLogger("ottla.broker").getEffectiveLevel()
            ).lower(),
            doors=self._doors,
        )

        async def start() -> EmbeddedSupervisor:
            supervisor = EmbeddedSupervisor(told, self._note_workers)
            await supervisor.start()
            return supervisor

        self._workers = asyncio.run_coroutine_threadsafe(start(), loop).result()

    def _note_workers(self, members: Mapping[int, WorkerState]) -> None:
        self._addresses = {
            node_id: _all_reachable(member.endpoints)
            for node_id, member in members.items()
            if member.is_live
        }

    async def _start_with_console(self, settings: BrokerSettings) -> RunningBroker:
        running = await self._start_broker(settings)
        if settings.console is not None:
            try:
                await running.start_console()
            except BaseException:
                await running.stop()
                raise
        return running

    def _start_broker(self, settings: BrokerSettings) -> Coroutine[Any, Any, RunningBroker]:
        """Starts the broker on its loop; brokers for tests start it with their instruments."""
        return start_broker(settings)

    def stop(self) -> None:
        """Stops cleanly; nothing happens if the broker is not running, or runs in the parent of this process."""
        if self._is_inherited() or self._loop is None:
            return
        stopping: Coroutine[Any, Any, None] | None = None
        seconds: float = STOP_SECONDS
        if self._running is not None:
            stopping = self._running.stop()
        elif self._shared is not None:
            stopping = self._shared.stop()
        elif self._workers is not None:
            stopping, seconds = self._workers.stop(), WORKERS_STOP_SECONDS
        if stopping is None:
            return
        self._running, self._workers, self._shared, self._addresses = None, None, None, {}
        atexit.unregister(self.stop)
        try:
            asyncio.run_coroutine_threadsafe(stopping, self._loop).result(seconds)
        finally:
            self._end_thread()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            loop.close()

    def _end_thread(self) -> None:
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(STOP_SECONDS)
        self._loop = self._thread = None
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _given_options(
    options: Mapping[str, object] | None, keywords: Mapping[str, object]
) -> dict[str, object]:
    """The options by Kafka's names, from the dict and from keywords."""
    if options is not None and not isinstance(options, Mapping):
        raise ConfigError(f"options are a dict by Kafka's names, not {options!r}")
    given = dict(options or {})
    for keyword in keywords:
        if keyword in _MEANT:
            raise ConfigError(f"{keyword} is not an option: did you mean {_MEANT[keyword]}?")
    for name, value in dotted_names(keywords).items():
        if name in given:
            raise ConfigError(f"{name} is given twice, in the dict and as a keyword: give it once")
        given[name] = value
    return given


def _add_addresses(options: dict[str, object], listen: str | None, advertise: str | None) -> None:
    """Adds the options that `listen` and `advertise` stand for."""
    for keyword, value, name in (
        ("listen", listen, "listeners"),
        ("advertise", advertise, "advertised.listeners"),
    ):
        if value is not None and name in options:
            raise ConfigError(f"{keyword}= and {name} are both given: give one")
    if "listeners" not in options:
        options["listeners"] = listener_text(listen or DEFAULT_LISTEN)
    if advertise is not None:
        listeners = options_of(BrokerConfig)["listeners"].read(options["listeners"])
        options["advertised.listeners"] = advertised_text(advertise, listeners)


def _secured(listen: str | None, security: EmbeddedSecurity, options: Mapping[str, object]) -> str:
    """Where a secured broker listens, with its protocol."""
    if "listeners" in options or (listen is not None and "://" in listen):
        raise ConfigError(
            "security= chooses the protocol of the broker's listener: leave it out, or name no listeners"
        )
    return f"{security.security.protocol}://{listen or DEFAULT_LISTEN}"


def _all_reachable(endpoints: Mapping[str, Endpoint]) -> dict[str, Endpoint]:
    return {name: _reachable(endpoint) for name, endpoint in endpoints.items()}


def _reachable(endpoint: Endpoint) -> Endpoint:
    # No client can connect to "every interface": clients of this process use the loopback.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(endpoint.host, endpoint.host)
    return Endpoint(host, endpoint.port)
