"""Connections to the database: one for each kind of work, so that none waits for another's."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

import asyncpg

from ottla.errors import ConfigError
from ottla.ports import CatalogConflictError, FencedError, StorageError, StorageFullError
from ottla.ports.errors import InUseError
from ottla.storage.shared.errors import SequencerUnavailableError
from ottla.storage.shared.sequencer.postgres.database_url import DatabaseUrl

STATEMENT_TIMEOUT_SECONDS: Final = (
    20.0  # below the minute that rows stay in a tail table from which they have moved
)
FIRST_WAIT_SECONDS: Final = 0.05
MAX_WAIT_SECONDS: Final = 2.0
MIN_SERVER_VERSION: Final = 14

# Raised by the functions, and by PostgreSQL where its message is not enough.
_REFUSALS: Final[dict[str, type[StorageError]]] = {
    "OT001": FencedError,
    "OT002": InUseError,
    "OT003": CatalogConflictError,
    "OT009": StorageError,
    "53100": StorageFullError,
}
# Classes of errors after which the same call may succeed: connections, resources, operators, deadlocks.
_TRANSIENT_CLASSES: Final = ("08", "40", "53", "57", "58", "XX")
_TRANSIENT: Final = ("55P03", "25006")  # a lock timeout, a server that has become a standby
# The server gives a connection up, or is not the one that takes writes any more.
_ENDS_CONNECTION: Final = ("08", "57P", "25006", "XX")


class Database:
    """A database that connections are made to."""

    def __init__(self, url: DatabaseUrl) -> None:
        self.url = url
        self._is_pooled: bool | None = None  # None before the first connection
        self._failures = 0
        self._retry_at = 0.0

    @property
    def is_pooled(self) -> bool:
        """Whether a pooler is between, as pgbouncer, which may give each transaction another session of the server."""
        return bool(self._is_pooled)

    async def connect(self) -> Any:
        """A connection of asyncpg, checked; after a failure the next try waits, longer each time."""
        wait = self._retry_at - time.monotonic()
        if wait > 0:
            await asyncio.sleep(wait)
        try:
            connection = await self._connect_once()
        except StorageError:
            self._failures += 1
            wait = min(MAX_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** min(self._failures, 10))
            self._retry_at = time.monotonic() + wait * random.uniform(0.5, 1.0)
            raise
        self._failures = 0
        self._retry_at = 0.0
        return connection

    async def _connect_once(self) -> Any:
        for parameter, file in self.url.files:
            if not os.path.isfile(file):
                raise StorageError(f"{self.url}: {parameter}: there is no file {file}")
        try:
            if self._is_pooled is None:
                self._is_pooled = await self._finds_pooler()
            connection = await self._open(self._is_pooled)
        except Exception as error:
            raise self.error_of(error, "cannot connect") from error
        try:
            await self._check(connection)
        except BaseException as error:
            connection.terminate()
            if isinstance(error, StorageError) or not isinstance(error, Exception):
                raise
            raise self.error_of(error, "cannot connect") from error
        return connection

    async def _finds_pooler(self) -> bool:
        """A pooler refuses most settings in the first packet, or ignores them and gives another process id."""
        try:
            connection = await self._open(False, statement_cache_size=0)
        except asyncpg.PostgresError as error:
            if "startup parameter" in str(error):
                return True
            raise
        try:
            async with connection.transaction():
                backend = await connection.fetchval("SELECT pg_backend_pid()")
            return bool(backend != connection.get_server_pid())
        finally:
            connection.terminate()

    async def _open(self, is_pooled: bool, **options: object) -> Any:
        if is_pooled:
            # A statement that is prepared for one transaction is not there in the next.
            options["statement_cache_size"] = 0
        else:
            options["server_settings"] = {
                "statement_timeout": str(int(STATEMENT_TIMEOUT_SECONDS * 1000)),
                "idle_in_transaction_session_timeout": "60000",
                "default_transaction_isolation": "read committed",
                "jit": "off",
            }
            if not self.url.has_session_attributes and "PGTARGETSESSIONATTRS" not in os.environ:
                options["target_session_attrs"] = "read-write"
        return await asyncpg.connect(
            self.url.dsn,
            timeout=self.url.connect_timeout_seconds,
            command_timeout=STATEMENT_TIMEOUT_SECONDS,
            max_cached_statement_lifetime=0,
            **options,
        )

    async def _check(self, connection: Any) -> None:
        """Refuses what would lose acknowledged records, and a server that takes no writes."""
        async with connection.transaction():
            fsync, read_only, version = await connection.fetchrow(
                "SELECT current_setting('fsync'), current_setting('transaction_read_only'),"
                " current_setting('server_version_num')::integer"
            )
        if fsync != "on":
            raise StorageError(
                f"{self.url}: the server runs with fsync=off and would lose records when its machine stops; turn it on"
            )
        if read_only != "off":
            raise SequencerUnavailableError(f"{self.url}: the server takes no writes")
        if version < MIN_SERVER_VERSION * 10_000:
            raise StorageError(
                f"{self.url}: the server is PostgreSQL {version // 10_000}; {MIN_SERVER_VERSION} or later is needed"
            )

    def error_of(self, error: Exception, what: str) -> StorageError:
        """The error to raise for one of asyncpg or of the system, in one line."""
        if isinstance(error, StorageError):
            return error
        text = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, ConfigError | asyncpg.ClientConfigurationError):
            return StorageError(f"{self.url}: {text}")
        if isinstance(error, TimeoutError):
            return SequencerUnavailableError(f"{self.url}: {what}: no answer in time")
        if isinstance(error, asyncpg.PostgresError):
            code: str = error.sqlstate or ""
            if code in _REFUSALS:
                message = text if code.startswith("OT") else f"{self.url}: {text}"
                return _REFUSALS[code](message)
            if code.startswith(_TRANSIENT_CLASSES) or code in _TRANSIENT:
                return SequencerUnavailableError(f"{self.url}: {what}: {text}")
            return StorageError(f"{self.url}: {what}: {text} ({code})")
        # Of asyncpg itself: the connection was closed, no host has the wanted attributes.
        if isinstance(
            error, OSError | asyncpg.InterfaceError | asyncpg.InternalClientError | EOFError
        ):
            return SequencerUnavailableError(f"{self.url}: {what}: {text}")
        return StorageError(f"{self.url}: {what}: {type(error).__name__}: {text}")


class Lane:
    """One connection, for one call after the other; it is made when it is needed, and again after it was lost."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: Any = None
        self._turn = asyncio.Lock()
        self._closed = False

    @property
    def is_busy(self) -> bool:
        return self._turn.locked()

    async def fetch(
        self, sql: str, *arguments: object, limit_seconds: float | None = None
    ) -> Sequence[Any]:
        """SequencerUnavailableError: whether the statement was executed is unknown.

        After `limit_seconds` without an answer the connection is given up.
        """
        async with self._turn:
            connection = await self._connected()
            try:
                if limit_seconds is None:
                    rows = await self._execute(connection, sql, arguments)
                else:
                    rows = await self._execute_within(limit_seconds, connection, sql, arguments)
            except asyncio.CancelledError:
                # The server may be out of reach, and asyncpg would wait for it to confirm the cancellation.
                self._drop()
                raise
            except Exception as error:
                self._drop_if_broken(error)
                raise self._database.error_of(error, "the call failed") from error
            return rows

    async def _execute_within(
        self, limit_seconds: float, connection: Any, sql: str, arguments: Sequence[object]
    ) -> Sequence[Any]:
        """Not by a cancellation: it would wait for a server that may be out of reach to end the transaction."""
        is_late = False

        def give_up() -> None:
            nonlocal is_late
            is_late = True
            self._drop()

        timer = asyncio.get_running_loop().call_later(limit_seconds, give_up)
        try:
            return await self._execute(connection, sql, arguments)
        except Exception as error:
            if is_late:
                raise TimeoutError from error
            raise
        finally:
            timer.cancel()

    async def _execute(
        self, connection: Any, sql: str, arguments: Sequence[object]
    ) -> Sequence[Any]:
        if not self._database.is_pooled:
            rows: Sequence[Any] = await connection.fetch(sql, *arguments)
            return rows
        # Between preparing and executing a statement a pooler may change the server's session, but for a transaction.
        async with connection.transaction():
            rows = await connection.fetch(sql, *arguments)
        return rows

    async def fetch_again(self, sql: str, *arguments: object) -> Sequence[Any]:
        """As `fetch` of something that changes nothing: a second time if the connection was lost meanwhile."""
        try:
            return await self.fetch(sql, *arguments)
        except SequencerUnavailableError:
            if self._connection is not None or self._closed:
                raise
        return await self.fetch(sql, *arguments)

    async def _connected(self) -> Any:
        if self._closed:
            raise StorageError("the sequencer is closed")
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._database.connect()
        return self._connection

    def _drop_if_broken(self, error: Exception) -> None:
        """The next call makes a new connection where this one is, or may be, of no more use."""
        code = getattr(error, "sqlstate", None)
        if isinstance(error, asyncpg.PostgresError) and not (code or "08").startswith(
            _ENDS_CONNECTION
        ):
            return
        self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    async def close(self) -> None:
        self._closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            await _close(connection)


class LanePool:
    """A few lanes for calls that may run at the same time."""

    def __init__(self, database: Database, size: int) -> None:
        self._idle = [Lane(database) for _ in range(size)]
        self._all = tuple(self._idle)
        self._free = asyncio.Semaphore(size)

    async def fetch_again(self, sql: str, *arguments: object) -> Sequence[Any]:
        async with self._free:
            lane = self._idle.pop()
            try:
                return await lane.fetch_again(sql, *arguments)
            finally:
                self._idle.append(lane)

    async def close(self) -> None:
        for lane in self._all:
            await lane.close()


LISTEN_CHECK_SECONDS: Final = 10.0
LOST: Final = "lost"


async def listen(database: Database, channel: str) -> AsyncGenerator[str, None]:
    """Notifications of a channel; `lost` at the beginning, and whenever the connection was lost.

    It ends where a pooler loses them.
    """
    while True:
        try:
            connection = await database.connect()
        except SequencerUnavailableError:
            continue
        try:
            if database.is_pooled:
                return
            news = await _subscribe(connection, channel)
            yield LOST
            while (text := await _next_news(connection, news)) != LOST:
                yield text
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            continue
        finally:
            connection.terminate()


async def _subscribe(connection: Any, channel: str) -> asyncio.Queue[str]:
    news: asyncio.Queue[str] = asyncio.Queue()
    await connection.add_listener(channel, lambda _c, _p, _n, text: news.put_nowait(text))
    connection.add_termination_listener(lambda _: news.put_nowait(LOST))
    return news


async def _next_news(connection: Any, news: asyncio.Queue[str]) -> str:
    """Looks now and then whether the server is still there."""
    while True:
        try:
            # Not by `wait_for`, which forgets that its task was cancelled if news come at that moment.
            async with asyncio.timeout(LISTEN_CHECK_SECONDS):
                return await news.get()
        except TimeoutError:
            await connection.fetchval("SELECT 1", timeout=LISTEN_CHECK_SECONDS)


async def _close(connection: Any) -> None:
    try:
        with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            await connection.close(timeout=2)
    except TimeoutError:
        connection.terminate()
