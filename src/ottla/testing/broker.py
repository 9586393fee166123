"""The embedded broker with the controls that tests want: faults, a clock, and a look at everything."""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Self, Unpack
from weakref import WeakSet

from ottla.broker.console.broker_console import BrokerConsole
from ottla.broker.embedded import STOP_SECONDS
from ottla.broker.embedded import Broker as EmbeddedBroker
from ottla.broker.network.server import reserve_port
from ottla.broker.runtime import BrokerSettings, Instruments, RunningBroker, start_broker
from ottla.broker.security.embedded_security import Security
from ottla.errors import ConfigError, IllegalStateError, OttlaError
from ottla.model import Endpoint
from ottla.testing.clock import BrokerClock, MovableClock
from ottla.testing.disk_faults import faulty_store
from ottla.testing.faults import Faults, check_api
from ottla.testing.inspection import Inspection, T
from ottla.testing.interception import Interception
from ottla.testing.kafka_releases import KafkaRelease
from ottla.testing.request_log import LoggedRequest, RequestLog

if TYPE_CHECKING:
    from ottla.config.option_types import BrokerOptions


# All brokers for tests in this process; the pytest plugin shows their requests when a test fails.
BROKERS: Final[WeakSet[Broker]] = WeakSet()
_RETENTION_OPTIONS: Final = frozenset(
    {"log.retention.ms", "log.retention.minutes", "log.retention.hours"}
)


def with_endless_retention(options: Mapping[str, object]) -> dict[str, object]:
    """The options, with endless retention unless they say how long records are kept.

    By Kafka's defaults, records of a test with dates of last year would be gone five minutes after the start.
    """
    endless = {"log.retention.ms": -1} if _RETENTION_OPTIONS.isdisjoint(options) else {}
    return {**endless, **options}


class Broker(EmbeddedBroker, Inspection):
    """`ottla.Broker` for tests.

        >>> from ottla.testing import Broker
        >>> import ottla
        >>> with Broker() as broker, ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        ...     fault = broker.faults.add("Produce", topic="orders", drop="after", times=1)
        ...     offset = producer.send("orders", b"one espresso").result(10).offset
        ...     fault.hits, len(broker.records("orders"))
        (1, 1)

    `faults` are what clients meet, `clock` is the broker's time. With `as_version="3.6"` it serves the APIs of that
    release of Kafka, in its versions, to test what a client does with an older cluster.
    """

    def __init__(
        self,
        options: Mapping[str, object] | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        listen: str | None = None,
        advertise: str | None = None,
        nodes: int = 1,
        metrics: str | None = None,
        metrics_certificate: str | os.PathLike[str] | None = None,
        metrics_login: str | os.PathLike[str] | None = None,
        console: str | None = None,
        console_certificate: str | os.PathLike[str] | None = None,
        console_login: str | os.PathLike[str] | None = None,
        console_read_only: bool = False,
        console_allowed_hosts: Sequence[str] = (),
        as_version: str | None = None,
        security: str | Security | None = None,
        **keywords: Unpack[BrokerOptions],
    ) -> None:
        release = None if as_version is None else KafkaRelease(as_version)
        super().__init__(
            options,
            data_dir=data_dir,
            listen=listen,
            advertise=advertise,
            nodes=nodes,
            metrics=metrics,
            metrics_certificate=metrics_certificate,
            metrics_login=metrics_login,
            console=console,
            console_certificate=console_certificate,
            console_login=console_login,
            console_read_only=console_read_only,
            console_allowed_hosts=console_allowed_hosts,
            security=security,
            **keywords,
        )
        clock = MovableClock()
        self.faults = Faults(
            self._settings.node_ids, frozenset() if release is None else release.missing_apis
        )
        """Errors, delays, lost requests and lost answers for any client."""
        self.clock = BrokerClock(clock, self._move_clock)
        """The time of the broker: `freeze`, `advance`, `set`."""
        self.log = RequestLog()
        """Every request; `requests()` chooses among them."""
        self.is_shared = False  # by the tests of a session or module, which reset it after each
        self._first_request = 0
        interception = Interception(self.faults, self.log, clock)
        self._instruments = Instruments(
            clock=clock,
            intercept=lambda apis: interception.intercept(
                apis if release is None else release.restrict(apis)
            ),
            intercept_between_nodes=interception.intercept,
            wrap_store=faulty_store(self.faults, clock),
            are_nodes_separate=self.faults.are_nodes_separate,
        )
        self._first_settings = self._settings
        self._folder_to_remove: str | None = None
        # While it is down, until `restart`: where it listened, and what keeps its ports from others.
        self._last_addresses: dict[int, dict[str, Endpoint]] = {}
        self._reserved: list[socket.socket] = []
        self._pause: _Pause | None = None
        BROKERS.add(self)

    def _check_workers(self) -> None:
        raise ConfigError(
            "faults and the clock need nodes in this process: give nodes=, or use ottla.Broker(workers=…)"
        )

    def _start_broker(self, settings: BrokerSettings) -> Coroutine[Any, Any, RunningBroker]:
        return start_broker(settings, self._instruments)

    @property
    def bootstrap_servers(self) -> str:
        """What clients want as `bootstrap.servers`; while it is down after `kill`, where it will be again."""
        if self._running is None and self._last_addresses:
            return self._joined(self._last_addresses, self._first_listener)
        if self._running is not None and not self._running.servers:  # every node was killed
            return self._joined(self._running.addresses, self._first_listener)
        return super().bootstrap_servers

    def _answering_servers(self) -> str:
        if self._pause is not None:
            raise IllegalStateError("the broker is paused: call unpause()")
        self._running_broker()
        return super().bootstrap_servers

    def _own_options(self) -> dict[str, Any]:
        # A paused broker is found out before anything is asked.
        servers = self._answering_servers()
        return {**self.client_options(), "bootstrap.servers": servers}

    def _running_broker(self) -> tuple[RunningBroker, asyncio.AbstractEventLoop]:
        if self.was_killed:
            raise IllegalStateError("the broker is not running: it was killed, call restart()")
        return super()._running_broker()

    # Trouble of the process.

    def start(self) -> Self:
        """Starts and returns when clients can connect."""
        if self._data_dir is None:
            self._data_dir = self._folder_to_remove = tempfile.mkdtemp(prefix="ottla-")
        try:
            super().start()
        except BaseException:
            if self._running is None:
                self._forget()
            raise
        return self

    def stop(self) -> None:
        """Stops cleanly; nothing happens if the broker is not running, or runs in the parent of this process."""
        if self._is_inherited():
            return
        self.unpause()
        self.faults.clear()
        super().stop()
        atexit.unregister(self.stop)
        self._forget()

    def _forget(self) -> None:
        """Forgets its addresses and its temporary folder: the next start is the first again."""
        self._release_ports()
        self._settings, self._last_addresses = self._first_settings, {}
        if self._folder_to_remove is not None:
            shutil.rmtree(self._folder_to_remove, ignore_errors=True)
            self._data_dir = self._folder_to_remove = None

    def kill(self) -> None:
        """Ends the broker as kill -9 would: connections are cut, and it saves nothing. `restart` starts it again.

        Its folder is then as it was at this moment, so that the next start has to recover it.
        """
        running, loop = self._running_broker()
        self._check_is_own()
        if self._pause is not None:
            self._pause.kill(running)
            self._pause = None
        self._note_settings()
        copy_dir = tempfile.mkdtemp(prefix="ottla-killed-")
        try:
            killing = _kill(running, self.data_dir, copy_dir)
            asyncio.run_coroutine_threadsafe(killing, loop).result(STOP_SECONDS)
        except BaseException:
            shutil.rmtree(copy_dir, ignore_errors=True)
            raise
        finally:
            self._reserved = running.take_reserved_ports()
            self._running, self._addresses = None, {}
            self._end_thread()
        _replace_contents(self.data_dir, copy_dir)

    def restart(self) -> None:
        """Starts it again with the same data at the same addresses; if it runs, it is stopped cleanly first."""
        if self._running is not None:
            self._check_is_own()
            self.unpause()
            self._note_settings()
            self.faults.lets_go = True
            try:
                super().stop()
            finally:
                self.faults.lets_go = False
            self._reserved = [
                reserve_port(family, (str(address[0]), endpoint.port))
                for of_node in self._settings.addresses.values()
                for endpoint in of_node.values()
                for family, _, _, _, address in socket.getaddrinfo(
                    *endpoint, type=socket.SOCK_STREAM
                )
            ]
        elif not self._last_addresses:
            raise IllegalStateError("the broker was never started: call start()")
        super().start()
        self._release_ports()

    def start_over(self) -> None:
        """Starts it anew at the same addresses, without any topics, groups, transactions, faults and logged requests.

        The connections of clients are cut. A broker with a `data_dir` of its own is not emptied: an IllegalStateError.
        """
        if self._folder_to_remove is None:
            raise IllegalStateError(
                "only a broker that runs, with its data in a temporary folder, can start over"
            )
        if self._running is not None:
            self.kill()
        self.reset()
        self.log.clear()
        shutil.rmtree(self._folder_to_remove)
        os.mkdir(self._folder_to_remove)
        self.restart()

    @property
    def was_killed(self) -> bool:
        """Whether `restart` would start it again."""
        return self._running is None and bool(self._last_addresses)

    @property
    def state(self) -> str:
        """What it does: `running`, `paused`, or `down` if it was not started, stopped or killed."""
        if self._running is None:
            return "down"
        return "running" if self._pause is None else "paused"

    def _note_settings(self) -> None:
        """Notes where its nodes listen, for the next start."""
        running = self._running_broker()[0]
        self._last_addresses = dict(self._addresses) or {
            node_id: dict(of_node) for node_id, of_node in running.addresses.items()
        }
        self._settings = replace(
            self._settings,
            addresses=dict(running.addresses),
            metrics=running.metrics_door,
            console=self._console_at_its_port(running),
        )

    def _console_at_its_port(self, running: RunningBroker) -> BrokerConsole | None:
        known = self._settings.console
        if known is None or running.console is None:
            return known
        return replace(known, door=running.console.door)

    def _release_ports(self) -> None:
        for reserved in self._reserved:
            reserved.close()
        self._reserved = []

    def pause(self) -> AbstractContextManager[object]:
        """Stops it in the middle of everything: connections stay open, and nothing is answered.

            with broker.pause():
                ...  # clients wait

        `unpause`, or the end of a `with` block around it, lets it go on. Sessions do not end by a pause.
        """
        loop = self._running_broker()[1]
        self._check_is_own()
        if self._pause is not None:
            raise IllegalStateError("the broker is paused already")
        self._pause = _Pause()
        loop.call_soon_threadsafe(self._pause.block)
        if not self._pause.is_in_effect.wait(STOP_SECONDS):
            self.unpause()
            raise TimeoutError("the broker is too busy to be paused")
        ending = ExitStack()
        ending.callback(self.unpause)
        return ending

    def unpause(self) -> None:
        """Lets a paused broker go on; nothing happens if it is not paused."""
        if self._pause is not None:
            pause, self._pause = self._pause, None
            pause.is_over.set()

    def _run_on_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._pause is not None:
            coroutine.close()
            raise IllegalStateError("the broker is paused: call unpause()")
        return super()._run_on_loop(coroutine)

    def _move_clock(self, move: Callable[[], None]) -> None:
        if self._running is None:
            move()
        else:
            self._run_on_loop(self._running.move_clock(move))

    def reset(self) -> None:
        """Removes all faults, and lets the clock show real time again."""
        self.unpause()
        self.faults.clear()
        self.clock.reset()

    def end_test(self) -> None:
        """Makes it ready for the next test: no faults, real time, and what was killed runs again."""
        self.reset()
        if self.was_killed:
            self.restart()
        elif self._running is not None:
            for node_id in self._settings.node_ids:
                if node_id not in self.node_ids:
                    self.start_node(node_id)

    def begin_test(self) -> None:
        """Lets `requests` begin here; the fixtures and `BrokerTestCase` call it before each test."""
        self._first_request = self.log.count

    def requests(self, api: str | None = None, *, topic: str | None = None) -> list[LoggedRequest]:
        """The requests of this test, oldest first: of all APIs, or of one; about all topics, or about one.

        They are those since the broker started or, if tests share it, since this test began; of more than 10,000 the
        newest. `log` has those of earlier tests too.
        """
        if api is not None:
            check_api(api)
        if topic is not None and not isinstance(topic, str):
            raise ConfigError(f"topic={topic!r} is no name of a topic")
        return [
            request
            for request in self.log.since(self._first_request)
            if api in (None, request.api) and (topic is None or request.names(topic))
        ]


class _Pause:
    """Holds the thread of a broker."""

    def __init__(self) -> None:
        self._killed: RunningBroker | None = None
        self.is_in_effect = threading.Event()
        self.is_over = threading.Event()

    def block(self) -> None:
        """Blocks the broker's event loop."""
        self.is_in_effect.set()
        self.is_over.wait()
        if self._killed is not None:
            for server in self._killed.servers.values():
                server.kill()

    def kill(self, running: RunningBroker) -> None:
        """Ends the pause; what clients have sent meanwhile is not handled any more."""
        self._killed = running
        self.is_over.set()


async def _kill(running: RunningBroker, data_dir: str, copy_dir: str) -> None:
    """Ends a broker and copies its folder as it is then; what the storage does at its end stays out of the copy."""
    await running.kill()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    try:
        _copy_contents(data_dir, copy_dir)
    finally:
        with suppress(OttlaError, OSError):
            running.cluster.store.close()


def _copy_contents(data_dir: str, copy_dir: str) -> None:
    try:
        shutil.copytree(data_dir, copy_dir, copy_function=_copy_if_there, dirs_exist_ok=True)
    except shutil.Error as error:
        # Threads of the storage may be removing folders of deleted topics.
        if any(os.path.exists(source) for source, _, _ in error.args[0]):
            raise


def _replace_contents(data_dir: str, copy_dir: str) -> None:
    """Replaces what is in a folder by the copy; the folder itself stays, since it may be a mount point or a link."""
    for entry in list(os.scandir(data_dir)):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)
    for name in os.listdir(copy_dir):
        shutil.move(os.path.join(copy_dir, name), os.path.join(data_dir, name))
    os.rmdir(copy_dir)


def _copy_if_there(source: str, target: str) -> None:
    # Threads of the storage may be renaming files.
    with suppress(FileNotFoundError):
        shutil.copy2(source, target)
