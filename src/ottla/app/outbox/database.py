"""The database of an app's outbox, as the relay and the start of listeners reach it: connections of their own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from inspect import isawaitable
from typing import Any, TypeVar

from ottla.app.outbox.database_session import (
    Begin,
    Commit,
    DatabaseSession,
    Rollback,
    Steps,
    run,
    run_blocking,
    session_of,
)
from ottla.errors import ConfigError

T = TypeVar("T")

Connect = Callable[[], Any]


class DatabaseConnection:
    """A connection for steps, each in a transaction; connections that are not awaited have a thread of their own."""

    def __init__(self, session: DatabaseSession, thread: ThreadPoolExecutor | None) -> None:
        self.dialect = session.dialect
        self._session = session
        self._thread = thread

    async def transact(self, steps: Steps[T]) -> T:
        """Do the steps in a transaction."""
        return await self.run(_in_transaction(steps))

    async def run(self, steps: Steps[T]) -> T:
        """Do the steps as they are."""
        if self._thread is None:
            return await run(self._session, steps)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, run_blocking, self._session, steps)


def _in_transaction(steps: Steps[T]) -> Steps[T]:
    yield Begin()
    try:
        result = yield from steps
        yield Commit()
    except BaseException:
        yield Rollback()
        raise
    return result


class Database:
    """Opens connections to a database: by a SQLAlchemy engine, or by a function that connects."""

    def __init__(self, source: Any) -> None:
        self._connect: Connect = _connect_of(source)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[DatabaseConnection]:
        """A connection, closed at the end of the block."""
        thread = ThreadPoolExecutor(1, thread_name_prefix="ottla-outbox")
        loop = asyncio.get_running_loop()
        raw = None
        try:
            # In the thread, since SQLite's connections belong to the thread that made them.
            raw = await loop.run_in_executor(thread, self._connect)
            if isawaitable(raw):
                raw = await raw
            session = session_of(raw)
            yield DatabaseConnection(session, None if session.is_async else thread)
        finally:
            try:
                if raw is not None:
                    closed = await loop.run_in_executor(thread, raw.close)
                    if isawaitable(closed):
                        await closed
            finally:
                thread.shutdown(wait=False)


def _connect_of(source: Any) -> Connect:
    for module, name in (("sqlalchemy.ext.asyncio", "AsyncEngine"), ("sqlalchemy", "Engine")):
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and isinstance(source, kind):
            connect: Connect = source.connect
            return connect
    if callable(source):
        found: Connect = source
        return found
    raise ConfigError(
        f"app.outbox.use({source!r}): give a SQLAlchemy engine, or a function that opens a connection, as "
        'lambda: sqlite3.connect("shop.db") or lambda: asyncpg.connect(dsn)'
    )
