"""A user's function as a `Handler`: arguments read, dependencies resolved, the function called, results collected."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from ottla.app.declarations.handler_results import Results, only_route, results_of
from ottla.app.declarations.handler_signature import (
    Acknowledged,
    Argument,
    Dependency,
    FromDependency,
    FromRecord,
    FromTable,
    HandlerSignature,
)
from ottla.app.declarations.handler_threads import HandlerThreads
from ottla.app.declarations.listener_spec import RawRecord
from ottla.app.declarations.record_decoding import SchemaNeededError
from ottla.app.declarations.record_encoding import Encoding
from ottla.app.delivery.unit import Unit
from ottla.app.errors import UnreadableRecordError
from ottla.errors import ConfigError

if TYPE_CHECKING:
    from ottla.app.declarations.annotations import To

Overrides = Mapping[Callable[..., Any], Callable[..., Any]]
_NOT_RESOLVED: Final = object()


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine or an async generator."""
    candidates = [function] if inspect.isroutine(function) else [function, type(function).__call__]
    return any(
        inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in candidates
    )


def is_generator(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a generator, of either kind."""
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


class CompiledHandler:
    """The general case: any parameters, any results."""

    def __init__(
        self,
        *,
        label: str,
        function: Callable[..., Any],
        signature: HandlerSignature,
        results: Results,
        encoding: Encoding,
        threads: HandlerThreads,
        overrides: Overrides,
        is_batch: bool,
    ) -> None:
        self.is_batch = is_batch
        self._label = label
        self._function = function
        self.signature = signature
        """What the function's parameters ask for."""
        self._arguments = signature.arguments
        self.results = results
        """What the function declares to return."""
        self._only_route = only_route(results)
        self._encoding = encoding
        self._threads = threads
        self._overrides = overrides
        self._is_async = is_async(function)
        self.runs_in_thread = not self._is_async
        """Whether a call cannot be cancelled once it runs."""
        self._is_generator = is_generator(function)
        self.returns_records = results.sends
        """Whether what the function returns goes to topics."""

    async def __call__(self, records: Sequence[RawRecord], unit: Unit) -> None:
        """Run the handler for records; what it returns is in the unit afterwards."""
        failure: BaseException | None = None
        async with AsyncExitStack() as stack:
            try:
                await self._run(records, unit, stack)
            except BaseException as error:
                failure = error
                raise
        if failure is not None:
            # A dependency that swallows exceptions must not make a success of a failure.
            raise failure

    async def _run(self, records: Sequence[RawRecord], unit: Unit, stack: AsyncExitStack) -> None:
        resolution = _Resolution(
            records, self.is_batch, unit, stack, self._threads, self._overrides
        )
        arguments = await resolution.arguments(self._arguments)
        record = None if self.is_batch else records[0]
        if not self._is_async:
            returned = await self._threads.run(self._call, arguments)
            if inspect.isawaitable(returned):
                # A plain function around an async one: what it returned has still to be done.
                returned = await returned
        elif self._is_generator:
            async for each in self._function(**arguments):
                await self._collect(each, record, unit)
            return
        else:
            returned = await self._function(**arguments)
        await self._collect(returned, record, unit)

    def _call(self, arguments: dict[str, Any]) -> Any:
        """In a thread: call a plain function; what it yields is a list."""
        returned = self._function(**arguments)
        return list(returned) if self._is_generator else returned

    async def _collect(self, returned: Any, record: RawRecord | None, unit: Unit) -> None:
        if returned is None and not self.results.declared:
            return
        only = self._only_route
        if only is not None and type(returned) is only.wanted:
            assert only.marker is not None
            unit.collect(await self._encoding.record_with_schemas(only.marker.topic, returned))
            return
        # An async generator's elements come one by one.
        results = self.results
        if results.is_many and self._is_async and self._is_generator and returned is not None:
            returned = [returned]
        for each in results_of(self._label, results, returned, record):
            unit.collect(await self._encoding.record_with_schemas(each.topic, **_fields(each)))


class SimpleHandler(CompiledHandler):
    """An async function whose parameters are all parts of one record: nothing to resolve, nothing to clean up."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._readers = tuple(each.read for each in self._arguments if isinstance(each, FromRecord))
        self._only_reader = self._readers[0] if len(self._readers) == 1 else None

    async def __call__(self, records: Sequence[RawRecord], unit: Unit) -> None:
        """Run the handler for one record."""
        record = records[0]
        try:
            if self._only_reader is not None:
                returned = await self._function(self._only_reader(record))
            else:
                arguments = [read(record) for read in self._readers]
                returned = await self._function(*arguments)
        except SchemaNeededError as needed:
            await needed.load()
            await self(records, unit)
            return
        if returned is not None or self.results.declared:
            await self._collect(returned, record, unit)


def compile_handler(
    *,
    label: str,
    function: Callable[..., Any],
    signature: HandlerSignature,
    results: Results,
    encoding: Encoding,
    threads: HandlerThreads,
    overrides: Overrides,
    is_batch: bool,
) -> CompiledHandler:
    """The handler of a function, in the fastest form that does what it asks for."""
    keyword_only = any(
        parameter.kind is inspect.Parameter.KEYWORD_ONLY
        for parameter in inspect.signature(function).parameters.values()
    )
    is_simple = (
        not is_batch
        and not keyword_only
        and is_async(function)
        and not is_generator(function)
        and all(isinstance(each, FromRecord) for each in signature.arguments)
    )
    kind = SimpleHandler if is_simple else CompiledHandler
    return kind(
        label=label,
        function=function,
        signature=signature,
        results=results,
        encoding=encoding,
        threads=threads,
        overrides=overrides,
        is_batch=is_batch,
    )


def _fields(result: To) -> dict[str, Any]:
    return {
        "value": result.value,
        "key": result.key,
        "partition": result.partition,
        "headers": result.headers,
        "timestamp_ms": result.timestamp_ms,
    }


class _Resolution:
    """The arguments of one call: dependencies are made once, and cleaned up by the stack."""

    def __init__(
        self,
        records: Sequence[RawRecord],
        is_batch: bool,
        unit: Unit,
        stack: AsyncExitStack,
        threads: HandlerThreads,
        overrides: Overrides,
    ) -> None:
        self._records = records
        self._is_batch = is_batch
        self._unit = unit
        self._stack = stack
        self._threads = threads
        self._overrides = overrides
        self._made: dict[Callable[..., Any], Any] = {}

    async def arguments(self, wanted: Sequence[Argument]) -> dict[str, Any]:
        """The arguments by name; records are read before dependencies, so that an unreadable one costs nothing."""
        found = {
            each.name: await self._read(each) for each in wanted if isinstance(each, FromRecord)
        }
        for each in wanted:
            match each:
                case FromDependency(name, dependency):
                    found[name] = await self._depend(dependency)
                case FromTable(name):
                    found[name] = table_of(self._records)
                case Acknowledged(name):
                    found[name] = Acknowledgement(self._unit)
                case FromRecord():
                    pass
        return found

    async def _read(self, argument: FromRecord) -> Any:
        if not self._is_batch:
            return await _read_one(argument, self._records[0])
        values = []
        for index, record in enumerate(self._records):
            try:
                values.append(await _read_one(argument, record))
            except UnreadableRecordError as error:
                raise UnreadableRecordError(str(error), index) from error
        return values

    async def _depend(self, dependency: Dependency) -> Any:
        if dependency.use_cache:
            made = self._made.get(dependency.function, _NOT_RESOLVED)
            if made is not _NOT_RESOLVED:
                return made
        override = self._overrides.get(dependency.function)
        if override is not None:
            # A stand-in of tests takes no arguments.
            value = await self._provide(override, {})
        else:
            value = await self._provide(
                dependency.function, await self.arguments(dependency.arguments)
            )
        if dependency.use_cache:
            self._made[dependency.function] = value
        return value

    async def _provide(self, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        if inspect.isasyncgenfunction(function):
            manager = asynccontextmanager(function)(**arguments)
            return await self._stack.enter_async_context(manager)
        if inspect.isgeneratorfunction(function):
            in_threads = _generator_in_threads(function, arguments, self._threads)
            return await self._stack.enter_async_context(in_threads)
        if is_async(function):
            return await function(**arguments)
        provided = await self._threads.run(lambda: function(**arguments))
        return await provided if inspect.isawaitable(provided) else provided


async def _read_one(argument: FromRecord, record: RawRecord) -> Any:
    while True:
        try:
            return argument.read(record)
        except SchemaNeededError as needed:
            await needed.load()


@asynccontextmanager
async def _generator_in_threads(
    function: Callable[..., Iterator[Any]], arguments: dict[str, Any], threads: HandlerThreads
) -> AsyncIterator[Any]:
    """A plain generator as a context manager, each half of it in a thread."""
    manager = contextlib.contextmanager(function)(**arguments)
    value = await threads.run(manager.__enter__)
    try:
        yield value
    except BaseException as error:
        is_handled = await threads.run(manager.__exit__, type(error), error, error.__traceback__)
        if not is_handled:
            raise
    else:
        await threads.run(manager.__exit__, None, None, None)


class Acknowledgement:
    """With `ack="manual"`: the handler calls `ack()` once the record may be committed."""

    __slots__ = ("_unit",)

    def __init__(self, unit: Unit) -> None:
        self._unit = unit

    def ack(self) -> None:
        """The record, or the whole batch, is done, and will be committed."""
        acknowledge = self._unit.acknowledge
        assert acknowledge is not None, "the listener has manual acknowledgement"
        acknowledge()


def table_of(records: Sequence[RawRecord]) -> Any:
    """The records as a pyarrow.Table: topic, partition, offset, timestamp, key, value, headers."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ConfigError("batch=Arrow needs pyarrow: pip install 'ottla[arrow]'") from error
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.table(
        {
            "topic": pa.array([each.topic for each in records], pa.string()),
            "partition": pa.array([each.partition for each in records], pa.int32()),
            "offset": pa.array([each.offset for each in records], pa.int64()),
            "timestamp": pa.array(
                [each.timestamp_ms for each in records], pa.timestamp("ms", tz="UTC")
            ),
            "key": pa.array([each.key for each in records], pa.binary()),
            "value": pa.array([each.value for each in records], pa.binary()),
            "headers": pa.array(
                [
                    [{"key": name, "value": value} for name, value in each.headers]
                    for each in records
                ],
                pa.list_(header),
            ),
        }
    )
