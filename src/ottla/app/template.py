"""The template: sending from anywhere in an app, alone, in a transaction, or as part of a handler's unit."""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, Final, Protocol, TypeVar

from ottla.app.declarations.record_decoding import SchemaNeededError
from ottla.app.declarations.record_encoding import Encoding
from ottla.app.delivery.unit import CURRENT_UNIT, OutgoingRecord, Unit
from ottla.app.outbox.session_transaction import CURRENT_OUTBOX
from ottla.client.aio.producer.producer import Producer
from ottla.client.model import NO_OFFSET, NO_TIMESTAMP, RecordMetadata
from ottla.errors import IllegalStateError

log = logging.getLogger("ottla.app")

T = TypeVar("T")

MAX_TRANSACTIONS: Final = 8
_NO_PARTITION: Final = -1


class CollectedRecord(RecordMetadata):
    """The answer of `send` in an exactly-once handler or in `app.transaction(session)`: the record is sent afterwards.

    It has no offset yet: `offset` is -1.
    """

    __slots__ = ()


def collected(record: OutgoingRecord) -> CollectedRecord:
    """What `send` returns for a record that was collected."""
    return CollectedRecord(
        topic=record.topic,
        partition=_NO_PARTITION if record.partition is None else record.partition,
        offset=NO_OFFSET,
        timestamp_ms=NO_TIMESTAMP if record.timestamp_ms is None else record.timestamp_ms,
        serialized_key_size=-1 if record.key is None else len(record.key),
        serialized_value_size=-1 if record.value is None else len(record.value),
    )


class TemplateClients(Protocol):
    """The producers of a running app."""

    @property
    def producer(self) -> Producer:
        """The producer of everything outside of transactions."""

    def transactional_producer(self, options: dict[str, object]) -> Producer:
        """A producer of its own."""


class Transaction:
    """Everything that is sent inside `async with app.transaction()`."""

    def __init__(self, producer: Producer) -> None:
        self._producer: Producer | None = producer

    @property
    def producer(self) -> Producer:
        """The producer of the transaction; raises after its end."""
        if self._producer is None:
            raise IllegalStateError("the transaction has ended: nothing can be sent in it any more")
        return self._producer

    def end(self) -> None:
        """Refuse further sends."""
        self._producer = None


CURRENT_TRANSACTION: Final[ContextVar[Transaction | None]] = ContextVar(
    "ottla_app_transaction", default=None
)


class TransactionPool:
    """Transactional producers, made when they are needed, at most so many at a time; further callers wait."""

    def __init__(self, clients: TemplateClients, prefix: str) -> None:
        self._clients = clients
        # Unique in every process: an id that two processes shared would let one fence the other.
        self._prefix = f"{prefix}-{uuid.uuid4().hex[:12]}"
        self._idle: list[Producer] = []
        self._made = 0
        self._room = asyncio.Semaphore(MAX_TRANSACTIONS)
        self._is_closed = False

    async def begin(self) -> tuple[Transaction, Producer]:
        """A transaction that has begun; `end` gives its producer back."""
        await self._room.acquire()
        try:
            producer = self._idle.pop() if self._idle else await self._make()
            producer.begin_transaction()
        except BaseException:
            self._room.release()
            raise
        return Transaction(producer), producer

    async def _make(self) -> Producer:
        self._made += 1
        producer = self._clients.transactional_producer(
            {"transactional.id": f"{self._prefix}-{self._made}"}
        )
        try:
            await producer.init_transactions()
        except BaseException:
            await producer.close(0)
            raise
        return producer

    async def commit(self, transaction: Transaction, producer: Producer) -> None:
        """Commit; if that fails, the producer is closed, which aborts."""
        transaction.end()
        try:
            await producer.commit_transaction()
        except BaseException:
            await self._discard(producer)
            raise
        await self._give_back(producer)

    async def abort(self, transaction: Transaction, producer: Producer) -> None:
        """Abort after an exception of the program, which stays the one to raise."""
        transaction.end()
        try:
            await producer.abort_transaction()
        except Exception as error:
            # The coordinator aborts it after transaction.timeout.ms at the latest.
            log.warning("%s: the abort failed: %s", self._prefix, error)
            await self._discard(producer)
            return
        await self._give_back(producer)

    async def _give_back(self, producer: Producer) -> None:
        if self._is_closed:
            await producer.close()
            return
        self._idle.append(producer)
        self._room.release()

    async def _discard(self, producer: Producer) -> None:
        self._room.release()
        await producer.close()

    async def close(self) -> None:
        """Close the producers: those of open transactions when these have ended."""
        self._is_closed = True
        while self._idle:
            await self._idle.pop().close()


class Template:
    """Sends records of an app; the app gives it its clients when it starts, and takes them away when it stops."""

    def __init__(self, app_name: str, encoding: Encoding) -> None:
        self._app_name = app_name
        self.encoding = encoding
        self._clients: TemplateClients | None = None
        self._transactions: TransactionPool | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._why_not = "it has not been started: `async with app:` or `await app.start()` first"

    def open(self, clients: TemplateClients, transactional_id_prefix: str) -> None:
        """The app has started on this loop."""
        self._clients = clients
        self._pid = os.getpid()
        self._loop = asyncio.get_running_loop()
        self._transactions = TransactionPool(clients, transactional_id_prefix)

    async def close(self) -> None:
        """The app stops: later sends raise."""
        self._why_not = "it has been stopped"
        transactions, self._transactions = self._transactions, None
        self._clients = None
        if transactions is not None:
            await transactions.close()

    @property
    def is_open(self) -> bool:
        """Whether records can be sent."""
        return self._clients is not None

    def clients(self) -> TemplateClients:
        """The clients; IllegalStateError if the app does not run."""
        if self._clients is None:
            raise IllegalStateError(f"app {self._app_name} sends nothing: {self._why_not}")
        if os.getpid() != self._pid:
            # Its loop and its connections belong to the parent: waiting for them would never end.
            raise IllegalStateError(
                f"app {self._app_name} sends nothing: this process was forked after the app had started; "
                "start the app in the child"
            )
        return self._clients

    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop of the app; IllegalStateError if the app does not run."""
        self.clients()
        assert self._loop is not None
        return self._loop

    # Sending

    async def encode(self, topic: str, value: Any, **others: Any) -> OutgoingRecord:
        """A record as bytes, with the headers that traces add."""
        while True:
            try:
                return self.encode_now(topic, value, **others)
            except SchemaNeededError as needed:
                await self.on_own_loop(_load(needed))

    def encode_now(self, topic: str, value: Any, **others: Any) -> OutgoingRecord:
        """The same without waiting; SchemaNeededError if a codec has to ask the registry."""
        return self.encoding.record(topic, value, **others)

    async def encode_and_send(self, topic: str, value: Any, **others: Any) -> RecordMetadata:
        """Send a value."""
        return await self.send(await self.encode(topic, value, **others))

    async def send(self, record: OutgoingRecord) -> RecordMetadata:
        """Send a record: into the outbox, into the unit of the handler, into the transaction, or alone."""
        outbox = CURRENT_OUTBOX.get()
        if outbox is not None:
            await outbox.send(record)
            return collected(record)
        unit = CURRENT_UNIT.get()
        if unit is not None:
            return collect(unit, record)
        return await self.on_own_loop(self._send_now(record))

    async def _send_now(self, record: OutgoingRecord) -> RecordMetadata:
        clients = self.clients()
        transaction = CURRENT_TRANSACTION.get()
        producer = clients.producer if transaction is None else transaction.producer
        sent = await producer.send(
            record.topic,
            record.value,
            record.key,
            partition=record.partition,
            headers=record.headers,
            timestamp_ms=record.timestamp_ms,
        )
        return await sent

    async def on_own_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine on the app's loop, wherever the caller is."""
        try:
            loop = self.loop()
        except IllegalStateError:
            coroutine.close()
            raise
        if asyncio.get_running_loop() is loop:
            return await coroutine
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, loop))

    def block_on(self, coroutine: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Wait on another thread for a coroutine on the app's loop."""
        try:
            loop = self.loop()
        except IllegalStateError:
            coroutine.close()
            raise
        try:
            here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is loop:
            coroutine.close()
            raise IllegalStateError(
                "app.blocking waits on a thread, and this is the app's event loop: await app.send(…) instead"
            )
        waiting = asyncio.run_coroutine_threadsafe(coroutine, loop)
        try:
            return waiting.result(timeout)
        except BaseException:
            waiting.cancel()
            raise

    # Transactions

    def _begin(self) -> Coroutine[Any, Any, tuple[Transaction, Producer]]:
        if CURRENT_UNIT.get() is not None:
            raise IllegalStateError(
                "an exactly-once handler needs no app.transaction(): what it sends belongs to its transaction"
            )
        if CURRENT_TRANSACTION.get() is not None:
            raise IllegalStateError("there is a transaction already: they cannot be nested")
        if CURRENT_OUTBOX.get() is not None:
            raise IllegalStateError(
                "app.transaction() inside app.transaction(session): what is sent there is part of the session's already"
            )
        self.clients()
        assert self._transactions is not None
        return self._transactions.begin()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Everything sent inside is one Kafka transaction."""
        pool = self._transactions
        transaction, producer = await self.on_own_loop(self._begin())
        assert pool is not None
        token = CURRENT_TRANSACTION.set(transaction)
        try:
            yield
        except BaseException:
            CURRENT_TRANSACTION.reset(token)
            await self.on_own_loop(pool.abort(transaction, producer))
            raise
        CURRENT_TRANSACTION.reset(token)
        await self.on_own_loop(pool.commit(transaction, producer))

    @contextmanager
    def blocking_transaction(self) -> Iterator[None]:
        """The same on a thread."""
        pool = self._transactions
        transaction, producer = self.block_on(self._begin())
        assert pool is not None
        token = CURRENT_TRANSACTION.set(transaction)
        try:
            yield
        except BaseException:
            CURRENT_TRANSACTION.reset(token)
            self.block_on(pool.abort(transaction, producer))
            raise
        CURRENT_TRANSACTION.reset(token)
        self.block_on(pool.commit(transaction, producer))


def collect(unit: Unit, record: OutgoingRecord) -> CollectedRecord:
    """Put a record into the unit of a handler."""
    unit.collect(record)
    return collected(record)


async def _load(needed: SchemaNeededError) -> None:
    await needed.load()
