"""A broker inside the calling process, on a thread of its own."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from ottla.broker.runtime import BrokerSettings, RunningBroker, new_event_loop, start_broker
from ottla.config.broker import BrokerConfig
from ottla.config.options import dotted
from ottla.errors import ConfigError, IllegalStateError
from ottla.model import Endpoint

STOP_SECONDS = 30

# A library does not print: programs that want to see the broker's log configure logging.
logging.getLogger("ottla").addHandler(logging.NullHandler())
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
    """

    def __init__(
        self,
        options: Mapping[str, object] | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        listen: str = "127.0.0.1:0",
        advertise: str | None = None,
        **keywords: Any,
    ) -> None:
        if options is not None and not isinstance(options, Mapping):
            raise ConfigError(f"options are a dict by Kafka's names, not {options!r}")
        given = dict(options or {})
        for keyword in keywords:
            if keyword in _MEANT:
                raise ConfigError(f"{keyword} is not an option: did you mean {_MEANT[keyword]}?")
        for name, value in dotted(keywords).items():
            if name in given:
                raise ConfigError(
                    f"{name} is given twice, in the dict and as a keyword: give it once"
                )
            given[name] = value
        # Kafka's 3 s spare a large group rebalances; here every new group would just be 3 s slower.
        given.setdefault("group.initial.rebalance.delay.ms", 0)
        self._config = BrokerConfig.read(given)
        self._listen = Endpoint.parse(listen)
        self._advertise = None if advertise is None else Endpoint.parse(advertise)
        self._data_dir = None if data_dir is None else os.fspath(data_dir)
        self._temporary: str | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: RunningBroker | None = None
        self._endpoint: Endpoint | None = None

    @property
    def bootstrap_servers(self) -> str:
        """What clients want as `bootstrap.servers`."""
        if self._endpoint is None:
            raise IllegalStateError(
                "the broker is not running: call start() or use it in a with statement"
            )
        return str(self._endpoint)

    @property
    def data_dir(self) -> str:
        """Where the data is."""
        folder = self._data_dir or self._temporary
        if folder is None:
            raise IllegalStateError("the broker is not running and was given no data_dir")
        return folder

    def __repr__(self) -> str:
        where = "not running" if self._endpoint is None else f"on {self._endpoint}"
        return f"<ottla.Broker {where}>"

    def start(self) -> Self:
        """Starts and returns when clients can connect."""
        if self._thread is not None:
            raise IllegalStateError("the broker is running already")
        if self._data_dir is None:
            self._temporary = tempfile.mkdtemp(prefix="ottla-")
        loop = self._loop = new_event_loop()
        self._thread = threading.Thread(
            target=self._run, args=(loop,), name="ottla-broker", daemon=True
        )
        self._thread.start()
        settings = BrokerSettings(self._config, self._listen, self._advertise, self.data_dir)
        starting = asyncio.run_coroutine_threadsafe(start_broker(settings), loop)
        try:
            self._running = starting.result()
        except BaseException:
            self._end_thread()
            raise
        atexit.register(self.stop)
        endpoint = self._running.endpoint
        # Nobody can connect to "every interface": clients of this process use the loopback.
        reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(endpoint.host, endpoint.host)
        self._endpoint = self._advertise or Endpoint(reachable, endpoint.port)
        return self

    def stop(self) -> None:
        """Stops cleanly; nothing happens if the broker is not running."""
        if self._running is None or self._loop is None:
            return
        running, self._running, self._endpoint = self._running, None, None
        atexit.unregister(self.stop)
        try:
            asyncio.run_coroutine_threadsafe(running.stop(), self._loop).result(STOP_SECONDS)
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
