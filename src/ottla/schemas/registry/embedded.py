"""A schema registry inside the calling process, on a thread of its own."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import socket
import threading
from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from ottla.config.admin import AdminConfig
from ottla.config.client import read_client_config
from ottla.config.consumer import ConsumerConfig
from ottla.config.options import dotted_names, find_option
from ottla.config.producer import ProducerConfig
from ottla.doors.door import Door
from ottla.doors.listening_socket import listen_at
from ottla.doors.login import Accounts
from ottla.errors import ConfigError, IllegalStateError
from ottla.event_loop import new_event_loop
from ottla.model import Endpoint, topic_name_problem
from ottla.schemas.registry.running import RegistrySettings, RunningRegistry

if TYPE_CHECKING:
    from ottla.config.option_types import AdminOptions

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 30.0
MIN_SESSION_MS: Final = 1_000

logging.getLogger("ottla.schemas.registry").addHandler(logging.NullHandler())


class SchemaRegistry:
    """A schema registry with Confluent's REST API, over a compacted topic of any Kafka cluster.

        with ottla.SchemaRegistry(bootstrap_servers="localhost:9092") as registry:
            client = confluent_kafka.schema_registry.SchemaRegistryClient({"url": registry.url})

    Options of Kafka's clients (addresses, security) are a dict with dots or keywords with underscores.

    `listen` is where it serves HTTP (port 0 picks one), `advertise` is the address under which other registries of the
    same cluster reach it. Several registries with the same `topic` and `group` share the work: one writes, the others
    forward; `session_timeout_ms` after its death another one is elected.

    With `listen="https://HOST:PORT"` and `certificate`, a PEM file with the private key and its certificates, it serves
    HTTPS. With `users`, a mapping of names to passwords, clients need HTTP's basic authentication; `login` is a file of
    users (NAME:PASSWORD) and bearer tokens, one on a line, which is read again when it has changed.
    """

    def __init__(
        self,
        options: Mapping[str, object] | None = None,
        *,
        listen: str | Door = "127.0.0.1:0",
        advertise: str | None = None,
        topic: str = "_schemas",
        group: str = "schema-registry",
        replication_factor: int | None = None,
        certificate: str | os.PathLike[str] | None = None,
        users: Mapping[str, str] | None = None,
        login: str | os.PathLike[str] | None = None,
        session_timeout_ms: int = 10_000,
        **keywords: Unpack[AdminOptions],
    ) -> None:
        if options is not None and not isinstance(options, Mapping):
            raise ConfigError(f"options are a dict by Kafka's names, not {options!r}")
        # The options are for clients of all three kinds: unknown ones and conflicts are told here.
        read_client_config(AdminConfig, options, keywords)
        given = {**dotted_names(options or {}), **dotted_names(keywords)}
        for kind in (ProducerConfig, ConsumerConfig):
            for name in given:
                find_option(kind, name)
        problem = topic_name_problem(topic)
        if problem is not None:
            raise ConfigError(problem)
        if not group:
            raise ConfigError("group is empty: name the registries that share a topic")
        if session_timeout_ms < MIN_SESSION_MS:
            raise ConfigError(
                f"session_timeout_ms is {session_timeout_ms}: it must be {MIN_SESSION_MS} or more"
            )
        self._settings = RegistrySettings(
            options={name: value for name, value in given.items() if value is not None},
            door=_door(listen, certificate, login, users),
            advertise=None if advertise is None else Endpoint.parse(advertise),
            topic=topic,
            group=group,
            replication_factor=replication_factor,
            session_timeout_ms=session_timeout_ms,
        )
        _check_dependencies()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: RunningRegistry | None = None
        self._pid = 0

    @property
    def url(self) -> str:
        """Where clients reach it, as they want it for `schema.registry.url`."""
        return self._running_registry().url

    @property
    def door(self) -> Door:
        """Where it listens, and who may come in."""
        return self._running_registry().door

    @property
    def is_leader(self) -> bool:
        """Whether this is the registry that writes."""
        return self._running_registry().is_leader

    def _running_registry(self) -> RunningRegistry:
        if self._running is None:
            raise IllegalStateError(
                "the registry is not running: call start() or use it in a with statement"
            )
        return self._running

    def __repr__(self) -> str:
        where = "not running" if self._running is None else f"on {self._running.url}"
        return f"<ottla.SchemaRegistry {where}>"

    def start(self) -> Self:
        """Start; returns when clients can connect and the topic was read."""
        if self._thread is not None:
            raise IllegalStateError("the registry is running already")
        self._pid = os.getpid()
        # The address is taken first, so that a port in use is told before anything is done in the cluster.
        listening = _listening_socket(self._settings.door.endpoint)
        loop = self._loop = new_event_loop()
        self._thread = threading.Thread(
            target=_run, args=(loop,), name="ottla-schema-registry", daemon=True
        )
        self._thread.start()
        running = RunningRegistry(self._settings, listening)
        starting = asyncio.run_coroutine_threadsafe(running.start(START_SECONDS), loop)
        try:
            starting.result()
        except BaseException:
            listening.close()
            self._end_thread()
            raise
        self._running = running
        atexit.register(self.stop)
        return self

    def stop(self) -> None:
        """Stop; another registry of the cluster is elected if this one was the leader."""
        running, loop = self._running, self._loop
        if running is None or loop is None or os.getpid() != self._pid:
            return
        self._running = None
        atexit.unregister(self.stop)
        try:
            asyncio.run_coroutine_threadsafe(running.stop(), loop).result(STOP_SECONDS)
        finally:
            self._end_thread()

    def _end_thread(self) -> None:
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(STOP_SECONDS)
        self._loop = self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _door(
    listen: str | Door,
    certificate: str | os.PathLike[str] | None,
    login: str | os.PathLike[str] | None,
    users: Mapping[str, str] | None,
) -> Door:
    if isinstance(listen, Door):
        return listen
    if users is not None and login is not None:
        raise ConfigError("users and login are both given: keep one")
    door = Door.read("schema registry", listen, certificate=certificate, login=login)
    return door if not users else replace(door, login=Accounts(users))


def _check_dependencies() -> None:
    try:
        import google.protobuf
        import httpx
        import jsonschema
        import starlette
        import uvicorn
    except ImportError as error:
        raise ConfigError(
            f"a schema registry needs the package {error.name}: pip install 'ottla[schemas]'"
        ) from error
    _: tuple[Any, ...] = (google.protobuf, httpx, jsonschema, starlette, uvicorn)


def _listening_socket(endpoint: Endpoint) -> socket.socket:
    try:
        return listen_at(endpoint)
    except OSError as error:
        raise ConfigError(f"cannot listen at {endpoint}: {error.strerror}") from error


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
