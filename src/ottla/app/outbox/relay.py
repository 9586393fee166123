"""The relay: sends the rows of an outbox to Kafka, each once, and deletes them.

One process relays at a time, by a lease in the database. The lease only saves work; what makes it safe is Kafka's
fencing (ADR 0045): a relay first fences its transactional id, then reads which rows its predecessor sent last, and only
then sends. Rows and position are one Kafka transaction. A predecessor that wakes up can commit nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.app.outbox.database_session import Rows, Steps
from ottla.app.outbox.relay_position import (
    RelayPosition,
    create_position_topic,
    position_topic,
    read_position,
)
from ottla.app.outbox.session_transaction import decode_headers
from ottla.app.outbox.statements import Tables
from ottla.errors import FatalError

if TYPE_CHECKING:
    from ottla.app.listening.clients import Clients
    from ottla.app.outbox.database import Database, DatabaseConnection
    from ottla.client.aio.producer.producer import Producer

_LOG: Final = logging.getLogger(__name__)
_TRANSACTIONAL_ID: Final = "ottla-outbox."
BATCH_ROWS: Final = 500
LEASE_SECONDS: Final = 4.0
POLL_SECONDS: Final = 0.25
_CLEANING_SECONDS: Final = 600.0
_FIRST_BACKOFF_SECONDS: Final = 0.2
_MAX_BACKOFF_SECONDS: Final = 10.0


class OutboxRow(NamedTuple):
    """A row of the outbox."""

    id: int
    token: int
    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: str
    timestamp_ms: int


class _Lease(NamedTuple):
    outbox_id: str
    is_ours: bool


class Relay:
    """Relays the outbox of an app while `run` runs."""

    def __init__(
        self,
        app_name: str,
        tables: Tables,
        database: Database,
        clients: Clients,
        *,
        inbox_groups: Callable[[], Sequence[str]],
        inbox_retention_seconds: float,
    ) -> None:
        self._app_name = app_name
        self._tables = tables
        self._database = database
        self._clients = clients
        self._inbox_groups = inbox_groups
        self._inbox_retention_seconds = inbox_retention_seconds
        self._holder = uuid.uuid4().hex
        self._wake = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._position_topic = position_topic(app_name)
        self._cleaned_at = -_CLEANING_SECONDS
        self._is_empty = asyncio.Event()
        self.problem: str | None = None
        """Why nothing is relayed now; None if all is well."""
        self.is_elected = False

    def wake(self) -> None:
        """There is a new row; may be called on any thread."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._wake.set)

    async def flush(self, timeout_seconds: float) -> None:
        """Wait until the outbox was seen empty, if this process relays; no longer than the timeout."""
        self._is_empty.clear()
        self.wake()
        if self.is_elected:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_seconds):
                    await self._is_empty.wait()

    async def run(self) -> None:
        """Relay until it is cancelled; failures are logged, and tried again."""
        backoff = _FIRST_BACKOFF_SECONDS
        while True:
            try:
                async with self._database.connection() as connection:
                    await self._run_with(connection)
            except FatalError as error:
                # Another relay has taken over, or the broker has forgotten the transactional id.
                _LOG.info("the relay of %s starts again: %s", self._app_name, error)
                backoff = _FIRST_BACKOFF_SECONDS
            except Exception as error:
                self.problem = f"{type(error).__name__}: {error}"
                _LOG.warning(
                    "the relay of %s cannot send its outbox: %s; again in %g s",
                    self._app_name,
                    self.problem,
                    backoff,
                )
            finally:
                self.is_elected = False
            await asyncio.sleep(backoff)
            backoff = min(_MAX_BACKOFF_SECONDS, 2 * backoff)

    async def _run_with(self, connection: DatabaseConnection) -> None:
        try:
            while True:
                lease = await connection.transact(self._take_lease())
                if lease.is_ours:
                    await self._serve(connection, lease.outbox_id)
                self.problem = None
                await self._pause()
        finally:
            # Let another process go on at once; if that fails, it waits for the lease to end.
            with suppress(Exception):
                await asyncio.shield(connection.transact(self._end_lease()))

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            # wait_for of Python 3.11 loses a cancellation that comes together with the event.
            async with asyncio.timeout(POLL_SECONDS):
                await self._wake.wait()
        self._wake.clear()

    # The elected relay

    async def _serve(self, connection: DatabaseConnection, outbox_id: str) -> None:
        """Send rows until the lease is lost."""
        await create_position_topic(self._clients, self._position_topic)
        name = f"{_TRANSACTIONAL_ID}{self._app_name}.{outbox_id}"
        producer = self._clients.transactional_producer({"transactional.id": name})
        try:
            await producer.init_transactions()
            position = await read_position(self._clients, self._position_topic, outbox_id)
            if position is not None:
                await connection.transact(self._delete_sent(position))
            self.is_elected = True
            _LOG.info("this process relays the outbox of %s", self._app_name)
            renew_at = 0.0
            while True:
                self._wake.clear()
                if time.monotonic() >= renew_at:
                    lease = await connection.transact(self._take_lease())
                    if not lease.is_ours or lease.outbox_id != outbox_id:
                        return
                    renew_at = time.monotonic() + LEASE_SECONDS / 3
                rows = await connection.transact(self._oldest())
                if rows:
                    await self._send(producer, outbox_id, rows)
                    await connection.transact(self._delete([row.id for row in rows]))
                else:
                    self._is_empty.set()
                self.problem = None
                await self._clean(connection)
                if len(rows) < BATCH_ROWS:
                    await self._pause()
        finally:
            self.is_elected = False
            await producer.close(0)

    async def _send(self, producer: Producer, outbox_id: str, rows: Sequence[OutboxRow]) -> None:
        position = RelayPosition.of({row.id: row.token for row in rows})
        async with producer.transaction():
            sent = [
                await producer.send(
                    row.topic,
                    row.value,
                    row.key,
                    partition=row.partition,
                    headers=decode_headers(row.headers),
                    timestamp_ms=row.timestamp_ms,
                )
                for row in rows
            ]
            sent.append(
                await producer.send(
                    self._position_topic, position.encode(), outbox_id.encode(), partition=0
                )
            )
            for each in sent:
                await each

    async def _clean(self, connection: DatabaseConnection) -> None:
        """Now and then, forget which records were applied long ago."""
        now = time.monotonic()
        groups = self._inbox_groups()
        if groups and now - self._cleaned_at >= _CLEANING_SECONDS:
            self._cleaned_at = now
            before_ms = _now_ms() - round(self._inbox_retention_seconds * 1000)
            await connection.transact(self._forget(groups, before_ms))

    # Steps

    def _take_lease(self) -> Steps[_Lease]:
        now_ms = _now_ms()
        lease: dict[str, Any] = {
            "app": self._app_name,
            "holder": self._holder,
            "expires_ms": now_ms + round(LEASE_SECONDS * 1000),
            "now_ms": now_ms,
        }
        taken: Rows = yield self._tables.take_lease(lease)
        if taken.changed == 0:
            first = {key: value for key, value in lease.items() if key != "now_ms"}
            yield self._tables.first_lease({**first, "outbox_id": uuid.uuid4().hex})
        found: Rows = yield self._tables.outbox_id(self._app_name)
        outbox_id, holder = found.rows[0]
        return _Lease(outbox_id, holder == self._holder)

    def _end_lease(self) -> Steps[None]:
        yield self._tables.end_lease(self._app_name, self._holder)

    def _oldest(self) -> Steps[list[OutboxRow]]:
        found: Rows = yield self._tables.oldest_of_outbox(self._app_name, BATCH_ROWS)
        return [OutboxRow(*row) for row in found.rows]

    def _delete(self, ids: list[int]) -> Steps[None]:
        yield self._tables.delete_from_outbox(self._app_name, ids)

    def _delete_sent(self, position: RelayPosition) -> Steps[None]:
        """Delete the rows that were sent before a crash; others with the same ids stay."""
        found: Rows = yield self._tables.tokens_of_outbox(self._app_name, [*position.ids])
        if found.rows and RelayPosition.of(dict(found.rows)) == position:
            yield from self._delete([*position.ids])

    def _forget(self, groups: Sequence[str], before_ms: int) -> Steps[None]:
        for group in groups:
            yield self._tables.forget_inbox(group, before_ms)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
