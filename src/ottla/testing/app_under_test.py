"""An app on an embedded broker: what `app.test()` returns."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from ottla.app.declarations.listener_spec import ListenerSpec, RawRecord
from ottla.app.instruments import Instruments
from ottla.client.model import Headers, HeadersToSend, RecordMetadata
from ottla.durations import Duration, seconds_of
from ottla.errors import IllegalStateError
from ottla.testing.broker import Broker

if TYPE_CHECKING:
    from ottla.app.application import App
    from ottla.app.declared_topics import DeclaredTopic
    from ottla.schemas.registry.embedded import SchemaRegistry

T = TypeVar("T")

SETTLE_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.02


@dataclass(frozen=True)
class HandlerFailure:
    """A run of a handler that raised."""

    spec: ListenerSpec
    records: Sequence[RawRecord]
    attempt: int
    error: Exception

    @property
    def is_expected(self) -> bool:
        """Whether the listener declares what becomes of it: retries, dead letters, or a rule for its class."""
        spec = self.spec
        return (
            spec.retry is not None
            or spec.has_dead_letters
            or any(isinstance(self.error, rule.error) for rule in spec.errors)
        )


class AppUnderTest:
    """An app that runs on a broker of its own.

        with app.test() as t:
            await t.send("orders", Order(7))
            await t.settled()
            assert t.sent("invoices") == [Invoice(7)]

    With `async with` the app runs on the loop of the test; with a plain `with`, in a thread, so that a test without
    asyncio works too: `t.blocking.send(…)`.
    """

    def __init__(self, app: App, broker: Broker | None = None) -> None:
        self.app = app
        self.failures: list[HandlerFailure] = []
        """Every run of a handler that raised, oldest first."""
        self._owns_broker = broker is None
        self.broker = Broker() if broker is None else broker
        """The broker, with its faults and its clock."""
        self.blocking = BlockingTest(self)
        """The same without `await`."""
        self.registry: SchemaRegistry | None = None
        """The schema registry of the test, if the app uses one: the app's own never hears of a test."""
        self._before: Any = None
        self._is_in_thread = False

    # Start and end

    def __enter__(self) -> Self:
        self._set_up()
        try:
            self.app.blocking.start()
        except BaseException:
            self._tear_down()
            raise
        self._is_in_thread = True
        return self

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        try:
            self.app.blocking.stop()
        finally:
            self._tear_down()
        self._raise_unexpected(kind)

    async def __aenter__(self) -> Self:
        self._set_up()
        try:
            await self.app.start()
        except BaseException:
            self._tear_down()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        try:
            await self.app.stop()
        finally:
            self._tear_down()
        self._raise_unexpected(kind)

    def _set_up(self) -> None:
        if self._before is not None:
            raise IllegalStateError("the test of the app has begun already")
        if self._owns_broker:
            self.broker.start()
        servers = self.broker.bootstrap_servers
        try:
            if self.app.uses_schemas:
                self.registry = _registry(servers)
            self._before = self.app.adopt_test(
                servers,
                _Recording(self.app.instruments, self.failures),
                None if self.registry is None else self.registry.url,
            )
        except BaseException:
            self._stop_servers()
            raise

    def _tear_down(self) -> None:
        self.app.end_test(self._before)
        self._before = None
        self._stop_servers()

    def _stop_servers(self) -> None:
        registry, self.registry = self.registry, None
        if registry is not None:
            registry.stop()
        if self._owns_broker:
            self.broker.stop()

    def _raise_unexpected(self, kind: type[BaseException] | None) -> None:
        """A test that ended well must not hide that a handler failed."""
        if kind is None:
            self.check()

    def check(self) -> None:
        """Raise the first failure of a handler that its listener does not expect."""
        for failure in self.failures:
            if not failure.is_expected:
                raise failure.error

    # What tests do

    async def send(
        self,
        topic: str | DeclaredTopic,
        value: Any,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: HeadersToSend = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Send a record with the app's template."""
        return await self.app.send(
            topic,
            value,
            key=key,
            partition=partition,
            headers=headers,
            timestamp_ms=timestamp_ms,
        )

    async def settled(self, timeout: Duration = SETTLE_SECONDS) -> None:
        """Wait until all listeners have done and committed everything; raises what a handler raised unexpectedly."""
        deadline = time.monotonic() + seconds_of(timeout)
        waiting = asyncio.ensure_future(self.app.on_loop(self._all_settled()))
        try:
            while not waiting.done():
                self.check()
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the app did not settle within {timeout}{self._reasons()}")
                await asyncio.wait([waiting], timeout=_PAUSE_SECONDS)
            self.check()
            waiting.result()
        finally:
            waiting.cancel()

    async def _all_settled(self) -> None:
        await self.app.runtime.settled()
        # What leaves the outbox may be work for a listener again.
        while not await self.app.outbox.settled():
            await self.app.runtime.settled()

    def _reasons(self) -> str:
        reasons = [
            f"{health.listener}: {health.reason}"
            for health in self.app.runtime.health()
            if health.reason is not None
        ]
        reasons += [
            f"{failure.spec.name} failed {failure.attempt} time(s): {failure.error!r}"
            for failure in self.failures[-3:]
        ]
        return f": {'; '.join(reasons)}" if reasons else ""

    def sent(self, topic: str | DeclaredTopic, wanted: Any = None) -> list[Any]:
        """The values in a topic, by partition and offset: of a type, or of the one that the app declares for it."""
        return self.app.decoded(str(topic), self.records(topic), wanted)

    def records(self, topic: str | DeclaredTopic) -> list[RawRecord]:
        """The records in a topic as a read_committed consumer sees them; keys and values are bytes."""
        return self.broker.records(str(topic)) if self._exists(str(topic)) else []

    def _exists(self, topic: str) -> bool:
        with self.broker._admin() as admin:
            return topic in admin.list_topics(list_internal=True)

    async def advance(self, duration: Duration) -> None:
        """Let time pass for the app and the broker at once: retries become due, sessions end."""
        await asyncio.to_thread(self.broker.clock.advance, duration)
        await self.app.on_loop(_advance(self.app, duration))


class BlockingTest:
    """`t.blocking`: for tests without asyncio."""

    def __init__(self, test: AppUnderTest) -> None:
        self._test = test

    def send(self, topic: str | DeclaredTopic, value: Any, **fields: Any) -> RecordMetadata:
        """Send a record with the app's template."""
        return self._wait(self._test.send(topic, value, **fields))

    def settled(self, timeout: Duration = SETTLE_SECONDS) -> None:
        """Wait until all listeners have done and committed everything."""
        self._wait(self._test.settled(timeout))

    def advance(self, duration: Duration) -> None:
        """Let time pass for the app and the broker at once."""
        self._wait(self._test.advance(duration))

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(coroutine)


def _registry(bootstrap_servers: str) -> SchemaRegistry:
    from ottla.schemas.registry.embedded import SchemaRegistry

    registry = SchemaRegistry(bootstrap_servers=bootstrap_servers)
    registry.start()
    return registry


async def _advance(app: App, duration: Duration) -> None:
    app.runtime.clock.advance(duration)


class _Recording:
    """Instruments that note failures, around those of the app."""

    def __init__(self, inner: Instruments, failures: list[HandlerFailure]) -> None:
        self._inner = inner
        self._failures = failures

    def handling(
        self, spec: ListenerSpec, records: Sequence[RawRecord], attempt: int
    ) -> AbstractContextManager[None]:
        """Note an exception that passes through."""
        return self._noting(spec, records, attempt)

    @contextmanager
    def _noting(
        self, spec: ListenerSpec, records: Sequence[RawRecord], attempt: int
    ) -> Iterator[None]:
        with self._inner.handling(spec, records, attempt):
            try:
                yield
            except Exception as error:
                self._failures.append(HandlerFailure(spec, tuple(records), attempt, error))
                raise

    def finished(self, spec: ListenerSpec, outcome: str, records: int) -> None:
        """As the app's."""
        self._inner.finished(spec, outcome, records)

    def committed(self, spec: ListenerSpec, records: int, seconds: float) -> None:
        """As the app's."""
        self._inner.committed(spec, records, seconds)

    def outgoing_headers(self, topic: str, headers: Headers) -> Headers:
        """As the app's."""
        return self._inner.outgoing_headers(topic, headers)
