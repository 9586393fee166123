"""The app for threads: the template without `await`, and an app that runs in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, overload

from ottla.app.declarations.record_decoding import SchemaNeededError
from ottla.app.delivery.unit import CURRENT_UNIT
from ottla.app.outbox.session_transaction import CURRENT_OUTBOX
from ottla.app.template import Template, collect, collected
from ottla.client.model import HeadersToSend, RecordMetadata
from ottla.durations import Duration
from ottla.errors import IllegalStateError
from ottla.event_loop import new_event_loop

if TYPE_CHECKING:
    from ottla.app.application import App
    from ottla.app.declared_topics import DeclaredTopic

T = TypeVar("T")
SessionT = TypeVar("SessionT")

REQUEST_SECONDS: Final = 5.0


class BlockingApp:
    """`app.blocking`: for handlers that are plain functions, and for the threads of a web server.

        app.blocking.send("orders", order, key="t4")

    In a program without asyncio, `with app.blocking:` runs the app in a thread meanwhile.
    """

    def __init__(self, app: App, template: Template) -> None:
        self._app = app
        self._template = template
        self._thread: _LoopThread | None = None

    def send(
        self,
        topic: str | DeclaredTopic,
        value: Any,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: HeadersToSend = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Send a record, and wait until it is acknowledged; in an exactly-once handler it is only collected."""
        template = self._template
        fields = {
            "key": key,
            "partition": partition,
            "headers": headers,
            "timestamp_ms": timestamp_ms,
        }
        unit, outbox = CURRENT_UNIT.get(), CURRENT_OUTBOX.get()
        if unit is None and outbox is None:
            return template.block_on(template.encode_and_send(str(topic), value, **fields))
        try:
            record = template.encode_now(str(topic), value, **fields)
        except SchemaNeededError:
            record = template.block_on(template.encode(str(topic), value, **fields))
        if outbox is not None:
            outbox.send_blocking(record)
            return collected(record)
        assert unit is not None
        return collect(unit, record)

    @overload
    def request(
        self,
        topic: str | DeclaredTopic,
        value: Any,
        *,
        reply: type[T],
        key: Any = None,
        headers: HeadersToSend = None,
        timeout: Duration = REQUEST_SECONDS,
    ) -> T: ...
    @overload
    def request(
        self,
        topic: str | DeclaredTopic,
        value: Any,
        *,
        key: Any = None,
        headers: HeadersToSend = None,
        timeout: Duration = REQUEST_SECONDS,
    ) -> Any: ...
    def request(
        self,
        topic: str | DeclaredTopic,
        value: Any,
        *,
        reply: Any = Any,
        key: Any = None,
        headers: HeadersToSend = None,
        timeout: Duration = REQUEST_SECONDS,
    ) -> Any:
        """Send a record, and wait for the reply."""
        asked = self._app.request(
            topic, value, reply=reply, key=key, headers=headers, timeout=timeout
        )
        return self._template.block_on(asked)

    @overload
    def transaction(self) -> AbstractContextManager[None]: ...
    @overload
    def transaction(self, session: SessionT) -> AbstractContextManager[SessionT]: ...
    def transaction(self, session: Any = None) -> AbstractContextManager[Any]:
        """Everything sent inside is one Kafka transaction; with a database session, part of the session's."""
        if session is None:
            return self._template.blocking_transaction()
        transaction: AbstractContextManager[Any] = self._app.transaction(session)
        return transaction

    # Running in a thread

    def start(self) -> None:
        """Run the app on an event loop in a thread; returns when it has started."""
        if self._thread is not None:
            raise IllegalStateError(f"app {self._app.name} runs in a thread already")
        thread = _LoopThread(f"ottla-app-{self._app.name}")
        try:
            thread.run(self._app.start())
        except BaseException:
            thread.end()
            raise
        self._thread = thread

    def stop(self, timeout_seconds: float | None = None) -> None:
        """Finish what is in hand, and end the thread; nothing happens if it does not run."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            thread.run(self._app.stop(timeout_seconds))
        finally:
            thread.end()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()


class _LoopThread:
    """A daemon thread with an event loop."""

    def __init__(self, name: str) -> None:
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def run(self, coroutine: Any) -> Any:
        """Wait for a coroutine on the loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def end(self) -> None:
        """Stop the loop."""
        asyncio.run_coroutine_threadsafe(self._loop.shutdown_asyncgens(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
