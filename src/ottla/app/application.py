"""`App`: listeners, the template and topics of an application, declared, started and stopped together."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from enum import StrEnum
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    NamedTuple,
    Never,
    ParamSpec,
    Self,
    TypeVar,
    Unpack,
    overload,
)

from ottla.app.app_schemas import AppSchemas, SchemaChoice
from ottla.app.declarations.annotations import Arrow
from ottla.app.declarations.app_options import AppOptions, read_app_options
from ottla.app.declarations.argument_checks import is_count, is_text
from ottla.app.declarations.handler_results import CORRELATION_ID, REPLY_TOPIC
from ottla.app.declarations.handler_threads import HandlerThreads, is_handler_thread
from ottla.app.declarations.listener import (
    AckWord,
    DeclarationContext,
    DeliveryWord,
    ErrorWord,
    Listener,
    ListenerArguments,
    OrderWord,
    Partitions,
    Seek,
    check_call,
    declare,
    names_at_caller,
)
from ottla.app.declarations.listener_spec import Ack, ListenerSpec, RawRecord
from ottla.app.declarations.record_decoding import Decoding, Read, SchemaNeededError
from ottla.app.declarations.record_encoding import Encoding, headers_of
from ottla.app.declarations.retries import Retry
from ottla.app.declarations.spring_properties import load_properties
from ottla.app.declared_topics import (
    DeclaredTopic,
    create_missing,
    existing_topics,
    tell_differences,
)
from ottla.app.delivery.unit import CURRENT_UNIT, OutgoingRecord
from ottla.app.errors import StartError
from ottla.app.instruments import Instruments, NoInstruments
from ottla.app.letters.topic_names import is_letter_topic
from ottla.app.life.combined_instruments import combine
from ottla.app.life.tracing import tracing_if_configured
from ottla.app.listening.clients import ClientFactory
from ottla.app.listening.runtime import Runtime
from ottla.app.outbox import CURRENT_OUTBOX, Outbox, SessionTransaction
from ottla.app.replies import Replies
from ottla.app.template import CURRENT_TRANSACTION, Template
from ottla.client.model import HeadersToSend, RecordMetadata
from ottla.config.consumer import CONSUMER_PROTOCOL
from ottla.config.options import dotted_names
from ottla.durations import Duration, seconds_of
from ottla.errors import ConfigError, IllegalStateError, KafkaError

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from ottla.app.blocking import BlockingApp
    from ottla.app.life.app_life import AppLife
    from ottla.config.option_types import AppOptions as AppKeywords
    from ottla.schemas.codec import Format
    from ottla.schemas.subjects import SubjectStrategy
    from ottla.testing.app_under_test import AppUnderTest
    from ottla.testing.broker import Broker


P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
SessionT = TypeVar("SessionT")
Hook = Callable[[], Awaitable[None] | None]
HookT = TypeVar("HookT", bound=Hook)

START_SECONDS: Final = 15.0
_TEST_HEARTBEAT_MS: Final = 100
DEFAULT_REQUEST_SECONDS: Final = 5.0


class MissingTopics(StrEnum):
    """What an app does at its start about topics of listeners that do not exist."""

    FAIL = "fail"
    CREATE = "create"
    WAIT = "wait"


class _State(StrEnum):
    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"


class _BeforeTest(NamedTuple):
    options: AppOptions
    missing_topics: MissingTopics
    instruments: Instruments


class App:
    """An application that listens to topics and sends records.

        app = App("billing", bootstrap_servers="127.0.0.1:9092")

        @app.listener("orders")
        async def bill(order: Order, key: Key[str]) -> None: ...

        app.run()

    Options have Kafka's names: keywords with underscores, or a dict with dots, or both; each goes to the clients that
    know it. `consumer`, `producer` and `admin` are options of one side only.
    """

    def __init__(
        self,
        name: str,
        config: Mapping[str, object] | None = None,
        /,
        *,
        consumer: Mapping[str, object] | None = None,
        producer: Mapping[str, object] | None = None,
        admin: Mapping[str, object] | None = None,
        missing_topics: str = "fail",
        reply_topic: str | None = None,
        start_timeout: Duration = START_SECONDS,
        schema_registry: str | Mapping[str, object] | None = None,
        schema_format: Format | None = None,
        **options: Unpack[AppKeywords],
    ) -> None:
        if not is_text(name):
            raise ConfigError(f'{name!r} is no name of an app: write App("billing", …)')
        if config is not None and not isinstance(config, Mapping):
            raise ConfigError(f"{config!r} is no dict of options: give a dict, or keywords")
        shared = dotted_names(config or {})
        for option, value in dotted_names(options).items():
            if option in shared:
                raise ConfigError(f"{option} is given in the dict and as a keyword: give it once")
            shared[option] = value
        if isinstance(schema_registry, str):
            shared["schema.registry.url"] = schema_registry
        elif schema_registry is not None:
            shared |= dotted_names(schema_registry)
        own = {"consumer": consumer or {}, "producer": producer or {}, "admin": admin or {}}
        self._set_up(
            name,
            read_app_options(name, shared, own),
            missing_topics=missing_topics,
            reply_topic=reply_topic,
            start_timeout=start_timeout,
            schema_format=schema_format,
        )

    def _set_up(
        self,
        name: str,
        options: AppOptions,
        *,
        missing_topics: str,
        reply_topic: str | None,
        start_timeout: Duration,
        schema_format: Format | None = None,
    ) -> None:
        self.name = name
        self.options = options
        """What the options mean for consumers, producers and the admin client."""
        self.instruments: Instruments = NoInstruments()
        """What observes the app; set before the start. Traces are added if OpenTelemetry is set up by then."""
        self._observers: Instruments = NoInstruments()
        self.dependency_overrides: dict[Callable[..., Any], Callable[..., Any]] = {}
        """Stand-ins for dependencies, for tests: `app.dependency_overrides[get_db] = fake_db`."""
        try:
            self._missing_topics = MissingTopics(missing_topics)
        except ValueError:
            raise ConfigError(
                f'missing_topics={missing_topics!r}: write "fail", "create" or "wait"'
            ) from None
        self._start_seconds = seconds_of(start_timeout)
        self._reply_topic = reply_topic or f"{name}.replies"
        self._listeners: dict[str, Listener[Any, Any]] = {}
        self._topics: dict[str, DeclaredTopic] = {}
        self._startup: list[Hook] = []
        self._shutdown: list[Hook] = []
        self._state = _State.STOPPED
        self._has_started_up = False
        self._clients: ClientFactory | None = None
        self._runtime: Runtime | None = None
        self._replies: Replies | None = None
        self._schemas: AppSchemas | None = None
        if options.registry:
            chosen = schema_format or options.schema_format or "avro"
            self._schemas = AppSchemas(options.registry, options.codecs, chosen)
        elif schema_format is not None or options.schema_format is not None or options.codecs:
            raise ConfigError("schemas need a registry: give schema_registry, its address")
        self._decoding = Decoding(
            options.key_deserializer, options.value_deserializer, self._schemas
        )
        encoding = Encoding(
            options.key_serializer,
            options.value_serializer,
            self._schemas,
            # Traces are known at the start only.
            outgoing_headers=lambda topic, pairs: self._observers.outgoing_headers(topic, pairs),
        )
        self._template = Template(name, encoding)
        self._context = DeclarationContext(
            app_name=name,
            options=options,
            decoding=self._decoding,
            encoding=encoding,
            threads=HandlerThreads(name),
            overrides=self.dependency_overrides,
            send=self._template.send,
        )
        self._blocking: BlockingApp | None = None
        self.outbox = Outbox(name)
        """The database of `app.transaction(session)`: `app.outbox.use(engine)`."""
        self._life: AppLife | None = None

    @classmethod
    def from_properties(
        cls,
        path: str | os.PathLike[str],
        name: str | None = None,
        /,
        **options: Unpack[AppKeywords],
    ) -> Self:
        """An app with the options of a file: Kafka's names, or `spring.kafka.*` keys; .properties or .yml.

        Keywords count more than the file. The name is `spring.application.name`, else `group.id`, unless given.
        """
        read = load_properties(Path(path))
        keywords = {key: value for key, value in dotted_names(options).items() if value is not None}
        shared = {**read.shared, **keywords}
        own = {
            side: {option: value for option, value in given.items() if option not in keywords}
            for side, given in read.own.items()
        }
        group = own["consumer"].get("group.id", shared.get("group.id"))
        name = name or read.app_name or (str(group) if group is not None else Path(path).stem)
        app = cls.__new__(cls)
        app._set_up(
            name,
            read_app_options(name, shared, own, **read.defaults),
            missing_topics="wait" if read.defaults.get("tolerates_missing_topics") else "fail",
            reply_topic=None,
            start_timeout=START_SECONDS,
        )
        return app

    # Declarations

    def listener(
        self,
        *topics: str | re.Pattern[str] | DeclaredTopic,
        name: str | None = None,
        group: str | None = None,
        workers: int | None = None,
        order: OrderWord | None = None,
        delivery: DeliveryWord | None = None,
        retry: Retry | None = None,
        dead_letters: bool = False,
        filter: Callable[..., bool] | None = None,
        ack: AckWord | Ack | None = None,
        batch: bool | type[Arrow] | None = None,
        max_batch: int | None = None,
        batch_wait: Duration | None = None,
        errors: Mapping[type[BaseException], ErrorWord] | None = None,
        handler_timeout: Duration | None = None,
        on_idle: Hook | None = None,
        idle_after: Duration | None = None,
        on_assigned: Callable[[Partitions], Awaitable[None] | None] | None = None,
        on_revoked: Callable[[Partitions], Awaitable[None] | None] | None = None,
        seek: Seek | None = None,
        paused: bool | None = None,
        max_unit_records: int | None = None,
        max_unit_bytes: int | None = None,
        options: Mapping[str, object] | None = None,
        **unknown: Never,
    ) -> Callable[[Callable[P, R]], Listener[P, R]]:
        """Declare a function that handles the records of topics, or of all topics that a pattern matches.

        `group` is `group.id` of the options unless given, else the app's name. `docs/guides/app.md` explains the rest.
        """
        check_call(topics, unknown)
        arguments = ListenerArguments(
            topics=tuple(each.name if isinstance(each, DeclaredTopic) else each for each in topics),
            name=name,
            group=group,
            workers=workers,
            order=order,
            delivery=delivery,
            retry=retry,
            dead_letters=dead_letters,
            filter=filter,
            ack=ack,
            batch=batch,
            max_batch=max_batch,
            batch_wait=batch_wait,
            errors=errors or {},
            handler_timeout=handler_timeout,
            on_idle=on_idle,
            idle_after=idle_after,
            on_assigned=on_assigned,
            on_revoked=on_revoked,
            seek=seek,
            paused=paused,
            max_unit_records=max_unit_records,
            max_unit_bytes=max_unit_bytes,
            options=options or {},
        )
        names = names_at_caller()

        def decorate(function: Callable[P, R]) -> Listener[P, R]:
            plain = function.function if isinstance(function, Listener) else function
            spec, value_type = declare(plain, arguments, self._context, names)
            listener: Listener[P, R] = Listener(plain, spec, self._context, value_type)
            self._add(listener)
            return listener

        return decorate

    def _add(self, listener: Listener[Any, Any]) -> None:
        if self._state is not _State.STOPPED:
            raise IllegalStateError(
                f"{listener.name}: app {self.name} is running: declare listeners before it starts"
            )
        if listener.name in self._listeners:
            raise ConfigError(
                f"there is a listener {listener.name!r} already: give name=… to one of them"
            )
        listener.on_declared = self._add
        self._listeners[listener.name] = listener

    @property
    def listeners(self) -> Mapping[str, Listener[Any, Any]]:
        """The declared listeners by name."""
        return dict(self._listeners)

    def topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        config: Mapping[str, object] | None = None,
    ) -> DeclaredTopic:
        """Declare a topic: it is created at the start if it is missing; differences are logged."""
        if not is_text(name):
            raise ConfigError(f"{name!r} is no name of a topic")
        for argument, count in (
            ("partitions", partitions),
            ("replication_factor", replication_factor),
        ):
            if count is not None and not is_count(count):
                raise ConfigError(f"topic {name}: {argument}={count!r}: write a number from 1 on")
        texts = {
            option: str(value).lower() if isinstance(value, bool) else str(value)
            for option, value in dotted_names(config or {}).items()
        }
        topic = DeclaredTopic(name, partitions, replication_factor, texts)
        if self._topics.setdefault(name, topic) != topic:
            raise ConfigError(f"topic {name} is declared twice, with different arguments")
        return topic

    @property
    def topics(self) -> Mapping[str, DeclaredTopic]:
        """The declared topics by name."""
        return dict(self._topics)

    def schema(
        self,
        wanted: type,
        format: Format = "avro",
        *,
        subject_strategy: str | SubjectStrategy = "topic",
        namespace: str | None = None,
    ) -> None:
        """Write a class in a format of its own, or under other subjects; before it is used in a declaration."""
        if self._schemas is None:
            raise ConfigError(
                "schemas need a registry: give schema_registry, its address, to the app"
            )
        self._schemas.choose(wanted, SchemaChoice(format, subject_strategy, namespace))

    def on_startup(self, hook: HookT) -> HookT:
        """Call a function before the listeners start; it may be async."""
        self._startup.append(hook)
        return hook

    def on_shutdown(self, hook: HookT) -> HookT:
        """Call a function after the listeners have stopped; it may be async."""
        self._shutdown.append(hook)
        return hook

    # The template

    def send(
        self,
        topic: str | DeclaredTopic,
        value: Any,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: HeadersToSend = None,
        timestamp_ms: int | None = None,
    ) -> Coroutine[Any, Any, RecordMetadata]:
        """Send a record, and wait until it is acknowledged.

        In an exactly-once handler the record is only collected: it is sent when the handler has succeeded.
        """
        if is_handler_thread():
            # A coroutine cannot be awaited there: the record would count as done, and nothing would be sent.
            raise IllegalStateError(
                "app.send(…) has to be awaited, and this handler is a plain function: write app.blocking.send(…)"
            )
        return self._template.encode_and_send(
            str(topic),
            value,
            key=key,
            partition=partition,
            headers=headers,
            timestamp_ms=timestamp_ms,
        )

    def send_default(self, value: Any, *, key: Any = None) -> Coroutine[Any, Any, RecordMetadata]:
        """Send to `spring.kafka.template.default-topic`."""
        if self.options.default_topic is None:
            raise IllegalStateError(
                "there is no default topic: set spring.kafka.template.default-topic, or name the topic"
            )
        return self.send(self.options.default_topic, value, key=key)

    @overload
    async def request(
        self,
        topic: str | DeclaredTopic,
        value: Any,
        *,
        reply: type[T],
        key: Any = None,
        headers: HeadersToSend = None,
        timeout: Duration = DEFAULT_REQUEST_SECONDS,
    ) -> T: ...
    @overload
    async def request(
        self,
        topic: str | DeclaredTopic,
        value: Any,
        *,
        key: Any = None,
        headers: HeadersToSend = None,
        timeout: Duration = DEFAULT_REQUEST_SECONDS,
    ) -> Any: ...
    async def request(
        self,
        topic: str | DeclaredTopic,
        value: Any,
        *,
        reply: Any = Any,
        key: Any = None,
        headers: HeadersToSend = None,
        timeout: Duration = DEFAULT_REQUEST_SECONDS,
    ) -> Any:
        """Send a record, and wait for the reply of the listener that handles it.

        The reply is bytes, or what `reply` says: `await app.request("quotes", question, reply=Quote)`.
        """
        if CURRENT_UNIT.get() is not None:
            raise IllegalStateError(
                "an exactly-once handler cannot wait for a reply: the request is sent when the handler has ended"
            )
        if CURRENT_TRANSACTION.get() is not None or CURRENT_OUTBOX.get() is not None:
            raise IllegalStateError(
                "a transaction cannot wait for a reply: the request is not seen before its commit"
            )
        limit = seconds_of(timeout)
        return await self._template.on_own_loop(
            self._request(str(topic), value, reply, key, headers, limit)
        )

    async def _request(
        self, topic: str, value: Any, wanted: Any, key: Any, headers: HeadersToSend, limit: float
    ) -> Any:
        read = self._decoding.value_reader(wanted)
        replies = self._replies
        assert replies is not None
        await replies.start()
        correlation, reply = replies.expect()
        try:
            record = await self._template.encode(
                topic,
                value,
                key=key,
                headers=(
                    *headers_of(headers),
                    (CORRELATION_ID, correlation),
                    (REPLY_TOPIC, replies.topic.encode()),
                ),
            )
            await self._template.send(record)
        except BaseException:
            replies.forget(correlation)
            raise
        answer = await replies.wait(topic, correlation, reply, limit)
        while True:
            try:
                return read(answer)
            except SchemaNeededError as needed:
                await needed.load()

    @overload
    def transaction(self) -> AbstractAsyncContextManager[None]: ...
    @overload
    def transaction(self, session: SessionT) -> SessionTransaction[SessionT]: ...
    def transaction(self, session: Any = None) -> Any:
        """Everything sent inside is one Kafka transaction; with a database session, part of the session's.

            async with app.transaction():
                await app.send("orders", order)
                await app.send("stock", change)

        In a handler `async with app.transaction(session)` also notes in the database that its record is done: the
        effect is there once. `with` does for sessions that are not awaited.
        """
        if session is None:
            return self._template.transaction()
        if CURRENT_TRANSACTION.get() is not None:
            raise IllegalStateError("there is a transaction already: they cannot be nested")
        return self.outbox.transaction(session)

    @property
    def blocking(self) -> BlockingApp:
        """The template for threads: `app.blocking.send(…)`, and `with app.blocking:` to run the app in a thread."""
        if self._blocking is None:
            from ottla.app.blocking import BlockingApp

            self._blocking = BlockingApp(self, self._template)
        return self._blocking

    # Life

    @property
    def is_running(self) -> bool:
        """Whether the app has started and not begun to stop."""
        return self._state is _State.RUNNING

    @property
    def runtime(self) -> Runtime:
        """The running listeners; IllegalStateError if the app does not run."""
        if self._runtime is None:
            raise IllegalStateError(f"app {self.name} does not run")
        return self._runtime

    async def start(self) -> None:
        """Create declared topics, and start the template and all listeners; StartError says why it cannot."""
        if self._state is not _State.STOPPED:
            raise IllegalStateError(f"app {self.name} is {self._state} already")
        if self.options.bootstrap_servers is None:
            raise ConfigError(
                f"app {self.name} has no bootstrap.servers: give the HOST:PORT of a broker or more"
            )
        _check_shared_topics([each.spec for each in self._listeners.values()])
        self._state = _State.STARTING
        try:
            await self._start()
        except BaseException:
            await self._tear_down(0.0)
            raise
        self._state = _State.RUNNING

    async def _start(self) -> None:
        options = self.options
        clients = self._clients = ClientFactory(
            consumer_options=options.consumer,
            producer_options=options.producer,
            admin_options=options.admin,
        )
        self._observers = combine(self.instruments, tracing_if_configured())
        await self._prepare_topics(clients)
        self._replies = Replies(clients, self._reply_topic)
        self._template.open(clients, options.transactional_id_prefix or f"ottla-app-{self.name}")
        self._has_started_up = True
        for hook in self._startup:
            await _call(hook)
        await self.outbox.start(clients)
        runtime = Runtime(
            [self.outbox.attach(each.spec) for each in self._listeners.values()],
            clients,
            instruments=self._observers,
        )
        await runtime.start()
        self._runtime = runtime
        loop = asyncio.get_running_loop()
        for name, run in runtime.listeners.items():
            self._listeners[name].attach(run, loop)

    async def _prepare_topics(self, clients: ClientFactory) -> None:
        admin = clients.admin
        shown = self.options.servers_text
        try:
            async with asyncio.timeout(self._start_seconds):
                existing = await existing_topics(admin)
        except TimeoutError as error:
            raise StartError(
                f"app {self.name} cannot start: no broker answers at {shown} within {self._start_seconds:g} s"
            ) from error
        except KafkaError as error:
            raise StartError(f"app {self.name} cannot start with {shown}: {error}") from error
        declared = list(self._topics.values())
        await tell_differences(admin, [each for each in declared if each.name in existing])
        missing = [each for each in declared if each.name not in existing]
        unknown = self._undeclared_topics() - existing
        if unknown and self._missing_topics is MissingTopics.CREATE:
            missing += [DeclaredTopic(name) for name in sorted(unknown)]
        elif unknown and self._missing_topics is MissingTopics.FAIL:
            raise StartError(
                f"app {self.name} cannot start: there is no topic {', '.join(sorted(unknown))}: create it, declare it "
                f'with app.topic("{min(unknown)}"), or give missing_topics="create"'
            )
        try:
            await create_missing(admin, missing)
        except KafkaError as error:
            raise StartError(f"app {self.name} cannot create its topics: {error}") from error

    def _undeclared_topics(self) -> set[str]:
        """The topics of listeners that are not declared; retry topics and dead letters come by themselves."""
        named = {
            topic
            for listener in self._listeners.values()
            if not isinstance(listener.spec.topics, re.Pattern)
            for topic in listener.spec.topics
            if not is_letter_topic(topic)
        }
        return named - self._topics.keys()

    async def stop(self, timeout_seconds: float | None = None) -> None:
        """Take no new records, let handlers finish, commit, leave the groups; nothing happens if it does not run."""
        if self._state is not _State.RUNNING:
            return
        self._state = _State.STOPPING
        await self._tear_down(timeout_seconds)

    async def _tear_down(self, timeout_seconds: float | None) -> None:
        steps: list[Callable[[], Awaitable[object]]] = []
        runtime, replies, clients = self._runtime, self._replies, self._clients
        if runtime is not None:
            steps.append(lambda: runtime.drain(timeout_seconds))
        steps.append(self.outbox.stop)  # before the program closes its database
        if self._has_started_up:
            # Also if a hook or a listener could not start: what the hooks before have opened is closed.
            self._has_started_up = False
            steps += [partial(_call, hook) for hook in self._shutdown]
        if replies is not None:
            steps.append(replies.close)
        steps.append(self._template.close)
        if self._schemas is not None:
            steps.append(self._schemas.close)
        if clients is not None:
            steps.append(clients.close)
        failure: BaseException | None = None
        for step in steps:
            try:
                await step()
            except Exception as error:
                failure = failure or error
        for listener in self._listeners.values():
            listener.detach()
        self._runtime = self._replies = self._clients = None
        is_starting, self._state = self._state is _State.STARTING, _State.STOPPED
        if failure is not None and not is_starting:
            raise failure

    async def failure(self) -> BaseException:
        """Wait until a listener fails for good, and return why; endless if none does."""
        runtime = self.runtime
        try:
            await runtime.wait()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            return error
        never: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        return await never

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.stop()

    def run(self) -> None:
        """Run until SIGTERM or Ctrl-C, then finish what is in hand; raises the failure of a listener."""
        from ottla.app.life.process import AppProcess, ProcessSettings

        process = AppProcess(self.life(), ProcessSettings())
        process.run()
        if process.failure is not None:
            raise process.failure

    @asynccontextmanager
    async def lifespan(self, _: object = None) -> AsyncIterator[dict[str, Self]]:
        """The lifespan of Starlette and FastAPI: `FastAPI(lifespan=app.lifespan)`; `request.state.app` is the app."""
        async with self:
            yield {"app": self}

    def template(self) -> Self:
        """The app as a dependency of FastAPI: `shop: Annotated[App, Depends(app.template)]`."""
        return self

    def asgi(self) -> Starlette:
        """`/healthz`, `/readyz` and `/metrics`, to mount in a web application; call it before the app starts."""
        from ottla.app.life.health_routes import health_routes

        return health_routes(self.life().monitor)

    def life(self) -> AppLife:
        """Metrics and health of the app; ask for it before the app starts."""
        if self._life is None:
            if self._state is not _State.STOPPED:
                raise IllegalStateError(
                    f"app {self.name} is running: call asgi() or life() before it starts"
                )
            from ottla.app.life.app_life import AppLife

            self._life = AppLife(self)
        return self._life

    def asyncapi(self, version: str = "1.0.0") -> dict[str, Any]:
        """The AsyncAPI 3 document of what is declared; `version` is that of the app."""
        from ottla.app.life.app_document import document_of_app

        return document_of_app(self, version)

    # Tests

    def test(self, broker: Broker | None = None) -> AppUnderTest:
        """The app on an embedded broker, for tests: `with app.test() as t: …`, or `async with`."""
        from ottla.testing.app_under_test import AppUnderTest

        return AppUnderTest(self, broker)

    @property
    def uses_schemas(self) -> bool:
        """Whether the app has a schema registry."""
        return self._schemas is not None

    @property
    def _has_new_group_protocol(self) -> bool:
        """Whether a group has group.protocol=consumer, with which the broker says how often heartbeats come."""
        options = [each.spec.consumer_options for each in self._listeners.values()]
        return any(
            str(each.get("group.protocol", "")).lower() == CONSUMER_PROTOCOL
            for each in (self.options.consumer, *options)
        )

    def adopt_test(
        self, bootstrap_servers: str, instruments: Instruments, registry_url: str | None
    ) -> _BeforeTest:
        """Use another cluster and registry until `end_test`: every topic is created, and read from its beginning."""
        if self._state is not _State.STOPPED:
            raise IllegalStateError(f"app {self.name} is {self._state}: stop it before a test")
        before = _BeforeTest(self.options, self._missing_topics, self.instruments)
        options = self.options.with_servers(bootstrap_servers)
        consumer = {**options.consumer, "auto.offset.reset": "earliest"}
        if not self._has_new_group_protocol:
            # Listeners of one group learn of each other by heartbeats, and a test should not wait for those.
            consumer.setdefault("heartbeat.interval.ms", _TEST_HEARTBEAT_MS)
        self.options = replace(options, consumer=consumer)
        self._missing_topics = MissingTopics.CREATE
        self.instruments = instruments
        if self._schemas is not None and registry_url is not None:
            self._schemas.use_registry({"schema.registry.url": registry_url})
        return before

    def end_test(self, before: _BeforeTest) -> None:
        """Use the app's own options again."""
        self.options, self._missing_topics, self.instruments = before
        if self._schemas is not None:
            self._schemas.use_registry(self.options.registry)

    async def on_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine on the app's loop, from any loop."""
        return await self._template.on_own_loop(coroutine)

    def decoded(self, topic: str, records: Sequence[RawRecord], wanted: Any = None) -> list[Any]:
        """The values of records, as a type, or as the one that listeners declare for the topic."""
        wanted = self._type_of(topic) if wanted is None else wanted
        if self._schemas is None:
            read = self._decoding.value_reader(wanted)
            return [read(record) for record in records]
        with self._schemas.for_threads() as schemas, ThreadPoolExecutor(1) as thread:
            # Not on this thread: it may have an event loop, which the registry must not block.
            read = replace(self._decoding, codecs=schemas).value_reader(wanted)
            return thread.submit(_read_all, read, records).result()

    def _type_of(self, topic: str) -> Any:
        for listener in self._listeners.values():
            for sent_to, wanted in listener.sends:
                if sent_to == topic:
                    return wanted | None if isinstance(wanted, type) else wanted
        for listener in self._listeners.values():
            topics = listener.spec.topics
            if not isinstance(topics, re.Pattern) and topic in topics:
                wanted = listener.value_type
                return wanted | None if isinstance(wanted, type) else wanted
        return Any

    def __repr__(self) -> str:
        return f"<ottla.app.App {self.name}, {self._state}>"

    async def send_encoded(self, record: OutgoingRecord) -> RecordMetadata:
        """Send a record that is bytes already, as retries and the outbox do."""
        return await self._template.send(record)


def _check_shared_topics(specs: Sequence[ListenerSpec]) -> None:
    """Refuse two listeners of one group and topic: with filters, each would drop what is meant for the other."""
    for first, second in combinations(specs, 2):
        shared = _shared_topic(first.topics, second.topics)
        if shared is not None and first.group == second.group:
            raise ConfigError(
                f"{first.name} and {second.name} both read {shared} in group {first.group}, so that each would get "
                "only some of its partitions: give one of them another group=, or make them one"
            )


def _shared_topic(
    first: tuple[str, ...] | re.Pattern[str], second: tuple[str, ...] | re.Pattern[str]
) -> str | None:
    """A topic that both listeners have."""
    if isinstance(first, re.Pattern) and isinstance(second, re.Pattern):
        return first.pattern if first == second else None
    if isinstance(first, re.Pattern):
        first, second = second, first
    assert not isinstance(first, re.Pattern)
    if isinstance(second, re.Pattern):
        return next((topic for topic in first if second.fullmatch(topic)), None)
    return next((topic for topic in first if topic in second), None)


def _read_all(read: Read, records: Sequence[RawRecord]) -> list[Any]:
    values: list[Any] = []
    while len(values) < len(records):
        try:
            values.append(read(records[len(values)]))
        except SchemaNeededError as needed:
            asyncio.run(_load(needed))
    return values


async def _load(needed: SchemaNeededError) -> None:
    await needed.load()


async def _call(hook: Hook) -> None:
    result = hook()
    if inspect.isawaitable(result):
        await result
