"""`@app.listener`: the arguments of the decorator, checked, and what becomes of the decorated function."""

from __future__ import annotations

import asyncio
import functools
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from enum import StrEnum
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
)

from ottla.app.declarations.annotations import Arrow
from ottla.app.declarations.argument_checks import is_count, is_text
from ottla.app.declarations.compiled_handler import (
    Acknowledgement,
    CompiledHandler,
    compile_handler,
    is_async,
    is_generator,
)
from ottla.app.declarations.handler_results import read_results
from ottla.app.declarations.handler_signature import (
    FromRecord,
    HandlerSignature,
    SignatureReader,
)
from ottla.app.declarations.listener_spec import (
    Ack,
    AckMode,
    Delivery,
    ErrorAction,
    ErrorRule,
    ListenerSpec,
    Order,
    RawRecord,
    RetryPlan,
)
from ottla.app.declarations.record_decoding import Decoding, SchemaNeededError
from ottla.app.declarations.retries import Retry, read_ack
from ottla.app.errors import UnreadableRecordError
from ottla.client.arguments import pattern_of
from ottla.durations import Duration, seconds_of
from ottla.errors import ConfigError, IllegalStateError

if TYPE_CHECKING:
    from ottla.app.declarations.app_options import AppOptions
    from ottla.app.declarations.compiled_handler import Overrides
    from ottla.app.declarations.handler_threads import HandlerThreads
    from ottla.app.declarations.record_encoding import Encoding
    from ottla.app.delivery.unit import OutgoingRecord

P = ParamSpec("P")
R = TypeVar("R")

OrderWord: TypeAlias = Literal["partition", "key", "none"]
DeliveryWord: TypeAlias = Literal["at-least-once", "exactly-once"]
AckWord: TypeAlias = Literal["record", "batch", "manual"]
ErrorWord: TypeAlias = Literal["retry", "dead-letter", "stop", "ignore"]
Partitions: TypeAlias = Sequence[tuple[str, int]]
Position: TypeAlias = int | datetime | timedelta | Literal["beginning", "end"]
Seek: TypeAlias = (
    Position
    | Mapping[tuple[str, int], Position]
    | Callable[[Partitions], Mapping[tuple[str, int], Position]]
    | Callable[[Partitions], Awaitable[Mapping[tuple[str, int], Position]]]
)
_OWNER_OPTIONS: Final = (
    "group.id",
    "enable.auto.commit",
    "auto.commit.interval.ms",
    "key.deserializer",
    "value.deserializer",
)


@dataclass(frozen=True)
class DeclarationContext:
    """What an app gives to the declarations of its listeners."""

    app_name: str
    options: AppOptions
    decoding: Decoding
    encoding: Encoding
    threads: HandlerThreads
    overrides: Overrides
    send: Callable[[OutgoingRecord], Awaitable[object]]


@dataclass(frozen=True, kw_only=True)
class ListenerArguments:
    """The arguments of `@app.listener`, as they were given; None stands for the default."""

    topics: tuple[str | re.Pattern[str], ...]
    name: str | None = None
    group: str | None = None
    workers: int | None = None
    order: str | None = None
    delivery: str | None = None
    retry: Retry | None = None
    dead_letters: bool = False
    filter: Callable[..., bool] | None = None
    ack: str | Ack | None = None
    batch: bool | type[Arrow] | None = None
    max_batch: int | None = None
    batch_wait: Duration | None = None
    errors: Mapping[type[BaseException], str] = field(default_factory=dict)
    handler_timeout: Duration | None = None
    on_idle: Callable[[], Awaitable[None] | None] | None = None
    idle_after: Duration | None = None
    on_assigned: Callable[[Partitions], Awaitable[None] | None] | None = None
    on_revoked: Callable[[Partitions], Awaitable[None] | None] | None = None
    seek: Seek | None = None
    paused: bool | None = None
    max_unit_records: int | None = None
    max_unit_bytes: int | None = None
    options: Mapping[str, object] = field(default_factory=dict)


class Listener(Generic[P, R]):
    """A declared function: called, it is the plain function; `pause` and `resume` are about its running listener."""

    __name__: str

    def __init__(
        self,
        function: Callable[P, R],
        spec: ListenerSpec,
        context: DeclarationContext,
        value_type: Any,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        """The function as it was written."""
        self.spec = spec
        """The listener as data."""
        self._context = context
        self.value_type = value_type
        """The type of its values, as far as its annotations tell."""
        self._run: RunningListener | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.on_declared: Callable[[Listener[Any, Any]], None] | None = None

    def __call__(self, *arguments: P.args, **keywords: P.kwargs) -> R:
        """Call the plain function, as unit tests do."""
        return self.function(*arguments, **keywords)

    @property
    def name(self) -> str:
        """The name of the listener in its app."""
        return self.spec.name

    @property
    def sends(self) -> list[tuple[str, Any]]:
        """The topics that its return annotation names, each with its type."""
        handler = self.spec.handler
        assert isinstance(handler, CompiledHandler)
        return handler.results.sent_types

    def pause(self) -> None:
        """Start no more handlers until `resume`; it stays in its group. Any thread may call it."""
        self._on_loop(self._running().pause)

    def resume(self) -> None:
        """Go on after `pause`."""
        self._on_loop(self._running().resume)

    @property
    def is_paused(self) -> bool:
        """Whether it is paused."""
        return self._running().is_paused

    def attach(self, run: RunningListener, loop: asyncio.AbstractEventLoop) -> None:
        """The app tells which run belongs to the declaration, and its loop."""
        self._run, self._loop = run, loop

    def detach(self) -> None:
        """The run has ended."""
        self._run = self._loop = None

    def _on_loop(self, call: Callable[[], None]) -> None:
        """Runs belong to the loop of the app; other threads wait until the call is done there."""
        loop = self._loop
        assert loop is not None
        try:
            is_here = asyncio.get_running_loop() is loop
        except RuntimeError:
            is_here = False
        if is_here:
            call()
            return

        async def on_loop() -> None:
            call()

        asyncio.run_coroutine_threadsafe(on_loop(), loop).result()

    def _running(self) -> RunningListener:
        if self._run is None:
            raise IllegalStateError(f"listener {self.name} is not running: start the app first")
        return self._run

    def dead_letter(self, function: Callable[P2, R2]) -> Listener[P2, R2]:
        """Declare the handler of this listener's dead letters: `@bill.dead_letter`."""
        if not self.spec.has_dead_letters:
            raise ConfigError(
                f"{self.name} has no dead letters: declare it with dead_letters=True first"
            )
        declared = declare_dead_letter(
            function, self.spec, self._context, self.value_type, names_at_caller()
        )
        if self.on_declared is not None:
            self.on_declared(declared)
        return declared

    def __repr__(self) -> str:
        return f"<listener {self.name}>"


P2 = ParamSpec("P2")
R2 = TypeVar("R2")
W = TypeVar("W", bound=StrEnum)


class RunningListener(Protocol):
    """What a listener needs of its run; the engine's class has these and more."""

    @property
    def is_paused(self) -> bool:
        """Whether `pause` was called last."""

    def pause(self) -> None:
        """Start no more handlers."""

    def resume(self) -> None:
        """Go on."""


def names_at_caller() -> dict[str, Any]:
    """The local names where the decorator stands: annotations may name classes of a test function."""
    frame = inspect.currentframe()
    caller = None if frame is None or frame.f_back is None else frame.f_back.f_back
    if caller is None or caller.f_locals is caller.f_globals:
        return {}
    return dict(caller.f_locals)


def declare(
    function: Callable[..., Any],
    arguments: ListenerArguments,
    context: DeclarationContext,
    names: Mapping[str, Any],
) -> tuple[ListenerSpec, Any]:
    """The listener of a function, and the type of its value; ConfigError if anything about it is wrong."""
    if isinstance(function, type) or not callable(function):
        raise ConfigError(f"@app.listener stands above a function, not {function!r}")
    name = arguments.name or getattr(function, "__name__", None)
    if not isinstance(name, str) or name == "<lambda>":
        raise ConfigError(f"{function!r} has no name: give name=… to the listener")
    try:
        return _declare(name, function, arguments, context, names)
    except ConfigError as error:
        if str(error).startswith(name):
            raise
        raise ConfigError(f"{name}: {error}") from error


def _declare(
    name: str,
    function: Callable[..., Any],
    arguments: ListenerArguments,
    context: DeclarationContext,
    names: Mapping[str, Any],
) -> tuple[ListenerSpec, Any]:
    options = context.options
    batch = options.is_batch if arguments.batch is None else arguments.batch
    ack = (
        read_ack(arguments.ack) if arguments.ack is not None else options.ack or Ack(AckMode.BATCH)
    )
    decoding = replace(context.decoding, names={**context.decoding.names, **names})
    reader = SignatureReader(name, decoding, acknowledgement=Acknowledgement)
    signature = _read_signature(reader, function, batch)
    retry = options.retry if arguments.retry is None else _retry_plan(arguments.retry)
    delivery = _word(Delivery, "delivery", arguments.delivery, Delivery.AT_LEAST_ONCE)
    order = _word(Order, "order", arguments.order, Order.PARTITION)
    _check(arguments, batch, ack, delivery, order)
    _check_acknowledgement(ack, signature)
    idle_after = arguments.idle_after
    idle_seconds = options.idle_after_seconds if idle_after is None else seconds_of(idle_after)
    if (arguments.on_idle is None) != (idle_seconds is None) and idle_after is not None:
        raise ConfigError("idle_after says when on_idle is called: give both")
    if arguments.on_idle is not None and idle_seconds is None:
        raise ConfigError('on_idle needs idle_after="30s", after which it is called')
    timeout = arguments.handler_timeout
    limits = {
        "max_batch_records": arguments.max_batch,
        "max_unit_records": arguments.max_unit_records,
        "max_unit_bytes": arguments.max_unit_bytes,
    }
    spec = ListenerSpec(
        name=name,
        topics=_topics(arguments.topics),
        group=arguments.group or options.group or context.app_name,
        handler=_compile(name, function, signature, context, batch),
        order=order,
        workers=_workers(arguments.workers, options),
        delivery=delivery,
        ack=ack,
        retry=retry,
        has_dead_letters=_flag("dead_letters", arguments.dead_letters),
        errors=_error_rules(arguments.errors, has_dead_letters=bool(arguments.dead_letters)),
        accepts=_filter(name, arguments.filter, decoding, signature.value_type),
        handler_timeout_seconds=None if timeout is None else seconds_of(timeout),
        max_batch_wait_seconds=0.0
        if arguments.batch_wait is None
        else seconds_of(arguments.batch_wait),
        idle_after_seconds=idle_seconds if arguments.on_idle is not None else None,
        on_idle=arguments.on_idle,
        on_assigned=arguments.on_assigned,
        on_revoked=arguments.on_revoked,
        start_positions=None if arguments.seek is None else _start_positions(arguments.seek),
        starts_paused=options.starts_paused if arguments.paused is None else arguments.paused,
        consumer_options={**_instance(name, options), **_consumer_options(arguments.options)},
        **{limit: _count(limit, value) for limit, value in limits.items() if value is not None},
    )
    return spec, signature.value_type


def _read_signature(
    reader: SignatureReader, function: Callable[..., Any], batch: bool | type[Arrow]
) -> HandlerSignature:
    if batch is Arrow:
        return reader.read_table(function)
    if batch is True:
        return reader.read_batch(function)
    if batch is False:
        return reader.read(function)
    raise ConfigError(f"batch={batch!r}: write batch=True, or batch=Arrow for a pyarrow.Table")


def _compile(
    name: str,
    function: Callable[..., Any],
    signature: HandlerSignature,
    context: DeclarationContext,
    batch: bool | type[Arrow],
) -> CompiledHandler:
    return compile_handler(
        label=name,
        function=function,
        signature=signature,
        results=read_results(name, signature.returns, is_generator=is_generator(function)),
        encoding=context.encoding,
        threads=context.threads,
        overrides=context.overrides,
        is_batch=batch is not False,
    )


def _check(
    arguments: ListenerArguments,
    batch: bool | type[Arrow],
    ack: Ack,
    delivery: Delivery,
    order: Order,
) -> None:
    """The rules between arguments."""
    if delivery is Delivery.EXACTLY_ONCE and ack.mode is AckMode.MANUAL:
        raise ConfigError(
            'ack="manual" and delivery="exactly-once" exclude each other: offsets are part of the transaction'
        )
    if batch is False and (arguments.max_batch is not None or arguments.batch_wait is not None):
        raise ConfigError("max_batch and batch_wait are about batches: add batch=True")
    if batch is not False and order is Order.KEY:
        raise ConfigError(
            'order="key" is about single records: a batch listener has order="partition"'
        )


def _check_acknowledgement(ack: Ack, signature: HandlerSignature) -> None:
    is_manual = ack.mode is AckMode.MANUAL
    if is_manual and not signature.acknowledges:
        raise ConfigError(
            'ack="manual" commits only what the handler acknowledges: add a parameter done: Acknowledgement, '
            "and call done.ack()"
        )
    if signature.acknowledges and not is_manual:
        raise ConfigError('it takes an Acknowledgement: add ack="manual" to the listener')


def _retry_plan(retry: object) -> RetryPlan:
    if not isinstance(retry, Retry):
        raise ConfigError(f'retry={retry!r}: write retry=Retry("1s", "10s")')
    return retry.plan()


def _word(words: type[W], argument: str, value: str | None, default: W) -> W:
    if value is None:
        return default
    try:
        return words(value)
    except ValueError:
        choices = ", ".join(repr(each.value) for each in words)
        raise ConfigError(f"{argument}={value!r}: write one of {choices}") from None


def _flag(argument: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{argument}={value!r}: write True or False")
    return value


def _count(argument: str, value: object) -> int:
    if not is_count(value):
        raise ConfigError(f"{argument}={value!r}: write a number from 1 on")
    return int(str(value))


def _workers(given: int | None, options: AppOptions) -> int:
    return _count("workers", given) if given is not None else options.workers or 1


def _topics(topics: tuple[str | re.Pattern[str], ...]) -> tuple[str, ...] | re.Pattern[str]:
    if not topics:
        raise ConfigError('a listener needs a topic: @app.listener("orders")')
    patterns = []
    for topic in topics:
        if not is_text(topic) and not isinstance(topic, re.Pattern):
            raise ConfigError(f'{topic!r} is no name of a topic: write @app.listener("a", "b")')
        try:
            pattern = pattern_of(topic)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        if pattern is not None:
            patterns.append(pattern)
    if not patterns:
        return tuple(dict.fromkeys(str(topic) for topic in topics))
    if len(topics) > 1:
        raise ConfigError("a pattern stands alone: write one pattern, or names of topics")
    return patterns[0]


def _error_rules(
    errors: Mapping[type[BaseException], str], *, has_dead_letters: bool
) -> tuple[ErrorRule, ...]:
    rules = []
    for error, action in errors.items():
        if not _is_exception_class(error):
            raise ConfigError(f"errors: {error!r} is no class of exceptions")
        rules.append(
            ErrorRule(
                error, _word(ErrorAction, f"errors[{error.__name__}]", action, ErrorAction.RETRY)
            )
        )
        if rules[-1].action is ErrorAction.DEAD_LETTER and not has_dead_letters:
            raise ConfigError(
                f"errors sends {error.__name__} to the dead letters: add dead_letters=True"
            )
    return tuple(rules)


def _is_exception_class(thing: object) -> bool:
    return isinstance(thing, type) and issubclass(thing, BaseException)


def _filter(
    name: str, function: Callable[..., bool] | None, decoding: Decoding, value_type: Any
) -> Callable[[RawRecord], bool] | None:
    """A filter takes what handlers take; a record that it cannot read is left to the handler."""
    if function is None:
        return None
    if is_async(function):
        raise ConfigError(f"filter={function!r}: give a plain function, not an async one")
    reader = SignatureReader(f"{name}: the filter", decoding, value_type=value_type)
    signature = reader.read(function)
    readers = []
    for argument in signature.arguments:
        if not isinstance(argument, FromRecord):
            raise ConfigError(
                f"{name}: the filter takes only parts of the record: remove its parameter {argument.name}"
            )
        readers.append(argument.read)

    def accepts(record: RawRecord) -> bool:
        try:
            return bool(function(*[read(record) for read in readers]))
        except (UnreadableRecordError, SchemaNeededError):
            return True

    return accepts


def _instance(name: str, options: AppOptions) -> dict[str, object]:
    """Static membership: two listeners with one group.instance.id would fence each other."""
    return {} if options.instance is None else {"group.instance.id": f"{options.instance}-{name}"}


def check_call(topics: Sequence[object], unknown: Mapping[str, object]) -> None:
    """Refuse `@app.listener` without a topic, and arguments that it does not have."""
    for name in unknown:
        raise _unknown_argument(name)
    if topics and callable(topics[0]):
        name = getattr(topics[0], "__name__", repr(topics[0]))
        raise ConfigError(f'write @app.listener("topic") above {name}, with a topic')


def _unknown_argument(name: str) -> TypeError:
    from ottla.config.consumer import ConsumerConfig
    from ottla.config.options import find_option

    dotted = name.replace("_", ".")
    nearest = get_close_matches(name, [each.name for each in fields(ListenerArguments)], n=1)
    try:
        find_option(ConsumerConfig, dotted)
    except ConfigError:
        advice = f"did you mean {nearest[0]}?" if nearest else "remove it or check its spelling"
    else:
        advice = f'it is an option of consumers: write options={{"{name}": …}}'
        if dotted in _OWNER_OPTIONS:
            advice = "use group=, ack=, or the app's options"
    return TypeError(f"@app.listener has no argument {name}: {advice}")


def _consumer_options(options: Mapping[str, object]) -> dict[str, object]:
    from ottla.config.consumer import ConsumerConfig
    from ottla.config.options import dotted_names, find_option

    named = dotted_names(options)
    for name, value in named.items():
        if name in _OWNER_OPTIONS:
            raise ConfigError(
                f"options: {name} is not set here: use group=, ack=, or the app's options"
            )
        find_option(ConsumerConfig, name).read(value)
    return named


def _start_positions(
    seek: Seek,
) -> Callable[[Partitions], Awaitable[Mapping[tuple[str, int], Any]]]:
    """Where newly assigned partitions start, as a function."""
    if callable(seek):
        chosen = seek

        async def ask(partitions: Partitions) -> Mapping[tuple[str, int], Any]:
            answer: Any = chosen(partitions)
            if inspect.isawaitable(answer):
                answer = await answer
            return {key: _position(value) for key, value in (answer or {}).items()}

        return ask
    if isinstance(seek, Mapping):
        by_partition = {key: _position(value) for key, value in seek.items()}

        async def look_up(partitions: Partitions) -> Mapping[tuple[str, int], Any]:
            return {each: by_partition[each] for each in partitions if each in by_partition}

        return look_up
    everywhere = _position(seek)

    async def same(partitions: Partitions) -> Mapping[tuple[str, int], Any]:
        return dict.fromkeys(partitions, everywhere)

    return same


def _position(position: object) -> Any:
    if position in ("beginning", "end") or isinstance(position, datetime | timedelta):
        return position
    if isinstance(position, int) and not isinstance(position, bool) and position >= 0:
        return position
    raise ConfigError(
        f'seek={position!r}: write "beginning", "end", an offset, a datetime, or a timedelta before now'
    )


def declare_dead_letter(
    function: Callable[P2, R2],
    source: ListenerSpec,
    context: DeclarationContext,
    value_type: Any,
    names: Mapping[str, Any],
) -> Listener[P2, R2]:
    """The listener of another listener's dead letters."""
    from ottla.app.declarations.dead_letter_handler import dead_letter_handler
    from ottla.app.letters.topic_names import dead_letter_topic

    name = getattr(function, "__name__", f"{source.name}_dead_letters")
    topics: tuple[str, ...] | re.Pattern[str]
    if isinstance(source.topics, re.Pattern):
        topics = re.compile(rf".*\.{re.escape(source.group)}\.dlt")
    else:
        topics = tuple(dead_letter_topic(topic, source.group) for topic in source.topics)
    spec = ListenerSpec(
        name=name,
        topics=topics,
        # A group of its own: it reads other topics, and must not take part in the listener's rebalances.
        group=f"{source.group}.dlt",
        handler=dead_letter_handler(name, function, context, value_type, names),
        consumer_options={"auto.offset.reset": "earliest"},
    )
    return Listener(function, spec, context, value_type)
