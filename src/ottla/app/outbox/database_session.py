"""Sessions and connections of the supported libraries behind one small port.

What is done with a session is written once, as a generator of operations; `run` awaits each of them, `run_blocking`
does not have to. The libraries are not imported: who passes a session has done so.
"""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Generator
from inspect import isawaitable
from typing import Any, Final, NamedTuple, TypeVar

from ottla.app.outbox.statements import Dialect, Statement
from ottla.errors import IllegalStateError

T = TypeVar("T")

_PARAMETER: Final = re.compile(r":([a-z_]+)")
_SUPPORTED: Final = (
    "SQLAlchemy's Session, AsyncSession, Connection and AsyncConnection, connections of asyncpg, psycopg, sqlite3 "
    "and aiosqlite"
)
_BEGUN: Final = (
    "the session has a transaction already: enter app.transaction(session) before the first statement, "
    "or commit first"
)


class Begin:
    """Begin a transaction."""


class Flush:
    """Write what the session still holds in memory."""


class Commit:
    """Commit."""


class Rollback:
    """Roll back."""


Operation = Begin | Flush | Commit | Rollback | Statement


class Rows(NamedTuple):
    """The result of a statement."""

    changed: int
    """How many rows were changed; anything for a query."""
    rows: list[tuple[Any, ...]]


Steps = Generator[Operation, Any, T]


class DatabaseSession(ABC):
    """A user's session or connection."""

    is_async: bool = False
    dialect: Dialect

    @abstractmethod
    def perform(self, operation: Operation) -> Any:
        """Do it; an async session returns an awaitable. Statements give `Rows`."""


async def run(session: DatabaseSession, steps: Steps[T]) -> T:
    """Do the steps on a session of either kind."""
    given: Any = None
    failure: BaseException | None = None
    while True:
        try:
            operation = steps.send(given) if failure is None else steps.throw(failure)
        except StopIteration as end:
            result: T = end.value
            return result
        given = failure = None
        try:
            given = session.perform(operation)
            if isawaitable(given):
                given = await given
        except BaseException as error:
            failure = error


def run_blocking(session: DatabaseSession, steps: Steps[T]) -> T:
    """Do the steps on a session that does not have to be awaited."""
    given: Any = None
    failure: BaseException | None = None
    while True:
        try:
            operation = steps.send(given) if failure is None else steps.throw(failure)
        except StopIteration as end:
            result: T = end.value
            return result
        given = failure = None
        try:
            given = session.perform(operation)
        except BaseException as error:
            failure = error


def session_of(session: Any) -> DatabaseSession:
    """The port of a session; TypeError for anything that is not supported."""
    for module, kinds in _KINDS.items():
        library = sys.modules.get(module)
        for name, kind in kinds.items():
            expected = getattr(library, name, None)
            if isinstance(expected, type) and isinstance(session, expected):
                found: DatabaseSession = kind(session)
                return found
    raise TypeError(
        f"app.transaction takes {_SUPPORTED}, not {type(session).__module__}.{type(session).__qualname__}"
    )


def _ends_by_sql(session: Any) -> bool:
    """Whether a connection of sqlite3 is not in Python 3.12's mode that always has a transaction open."""
    return getattr(session, "autocommit", None) is not False


class _Sqlite(DatabaseSession):
    """sqlite3."""

    dialect = Dialect.SQLITE

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def perform(self, operation: Operation) -> Any:
        match operation:
            case Begin():
                if not _ends_by_sql(self._connection):
                    return None
                if self._connection.in_transaction:
                    raise IllegalStateError(_BEGUN)
                # The lock at once: a reader that becomes a writer fails if another one was faster.
                self._connection.execute("BEGIN IMMEDIATE")
            case Commit():
                self._connection.commit()
            case Rollback():
                self._connection.rollback()
            case Flush():
                pass
            case Statement(sql, parameters):
                cursor = self._connection.execute(sql, dict(parameters))
                return Rows(cursor.rowcount, cursor.fetchall())
        return None


class _AioSqlite(DatabaseSession):
    """aiosqlite."""

    is_async = True
    dialect = Dialect.SQLITE

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def perform(self, operation: Operation) -> Any:
        match operation:
            case Begin():
                if self._connection.in_transaction:
                    raise IllegalStateError(_BEGUN)
                await self._connection.execute("BEGIN IMMEDIATE")
            case Commit():
                await self._connection.commit()
            case Rollback():
                await self._connection.rollback()
            case Flush():
                pass
            case Statement(sql, parameters):
                async with self._connection.execute(sql, dict(parameters)) as cursor:
                    return Rows(cursor.rowcount, [tuple(row) for row in await cursor.fetchall()])
        return None


class _Asyncpg(DatabaseSession):
    """asyncpg: a connection, also one of a pool."""

    is_async = True
    dialect = Dialect.POSTGRESQL

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._transaction: Any = None

    async def perform(self, operation: Operation) -> Any:
        match operation:
            case Begin():
                if self._connection.is_in_transaction():
                    raise IllegalStateError(_BEGUN)
                self._transaction = self._connection.transaction()
                await self._transaction.start()
            case Commit():
                await self._transaction.commit()
            case Rollback():
                await self._transaction.rollback()
            case Flush():
                pass
            case Statement():
                return await self._execute(operation)
        return None

    async def _execute(self, statement: Statement) -> Rows:
        names = list(dict.fromkeys(_PARAMETER.findall(statement.sql)))
        numbers = {name: number for number, name in enumerate(names, 1)}
        sql = _PARAMETER.sub(lambda match: f"${numbers[match[1]]}", statement.sql)
        values = [statement.parameters[name] for name in names]
        if sql.startswith("SELECT"):
            found = await self._connection.fetch(sql, *values)
            return Rows(len(found), [tuple(row) for row in found])
        status: str = await self._connection.execute(sql, *values)
        count = status.rpartition(" ")[2]  # as in "UPDATE 1" and "INSERT 0 1"
        return Rows(int(count) if count.isdecimal() else 0, [])


def _psycopg_sql(sql: str) -> str:
    return _PARAMETER.sub(r"%(\1)s", sql)


class _Psycopg(DatabaseSession):
    """psycopg."""

    dialect = Dialect.POSTGRESQL

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._transaction: Any = None

    def perform(self, operation: Operation) -> Any:
        match operation:
            case Begin():
                _check_idle(self._connection)
                self._transaction = self._connection.transaction()
                self._transaction.__enter__()
            case Commit():
                self._transaction.__exit__(None, None, None)
            case Rollback():
                self._transaction.__exit__(*_rollback_of(self._transaction))
            case Flush():
                pass
            case Statement(sql, parameters):
                cursor = self._connection.execute(_psycopg_sql(sql), parameters or None)
                return Rows(cursor.rowcount, cursor.fetchall() if cursor.description else [])
        return None


class _AsyncPsycopg(DatabaseSession):
    """psycopg's AsyncConnection."""

    is_async = True
    dialect = Dialect.POSTGRESQL

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._transaction: Any = None

    async def perform(self, operation: Operation) -> Any:
        match operation:
            case Begin():
                _check_idle(self._connection)
                self._transaction = self._connection.transaction()
                await self._transaction.__aenter__()
            case Commit():
                await self._transaction.__aexit__(None, None, None)
            case Rollback():
                await self._transaction.__aexit__(*_rollback_of(self._transaction))
            case Flush():
                pass
            case Statement(sql, parameters):
                cursor = await self._connection.execute(_psycopg_sql(sql), parameters or None)
                rows = await cursor.fetchall() if cursor.description else []
                return Rows(cursor.rowcount, rows)
        return None


def _check_idle(connection: Any) -> None:
    # psycopg begins transactions by itself; one inside another would be a mere savepoint.
    if connection.info.transaction_status.name != "IDLE":
        raise IllegalStateError(_BEGUN)


def _rollback_of(transaction: Any) -> tuple[Any, Any, None]:
    rollback = sys.modules["psycopg"].Rollback
    return rollback, rollback(transaction), None


class _SqlAlchemy(DatabaseSession):
    """SQLAlchemy's Session and Connection."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._has_begun = False
        bind = session.get_bind() if hasattr(session, "get_bind") else session
        self.dialect = _dialect_of(bind.dialect.name)

    def perform(self, operation: Operation) -> Any:
        match operation:
            case Begin():
                self._begin()
            case Commit():
                self._session.commit()
            case Rollback():
                self._session.rollback()
            case Flush():
                if hasattr(self._session, "flush"):
                    self._session.flush()
            case Statement(sql, parameters):
                return _rows_of(self._session.execute(_sqlalchemy_text(sql), dict(parameters)))
        return None

    def _begin(self) -> None:
        if self._session.in_transaction():
            raise IllegalStateError(_BEGUN)
        self._session.begin()
        connection = (
            self._session.connection() if hasattr(self._session, "flush") else self._session
        )
        if self.dialect is Dialect.SQLITE and not _is_open(connection):
            connection.exec_driver_sql("BEGIN IMMEDIATE")


class _AsyncSqlAlchemy(DatabaseSession):
    """SQLAlchemy's AsyncSession and AsyncConnection."""

    is_async = True

    def __init__(self, session: Any) -> None:
        self._session = session
        bind = session.get_bind() if hasattr(session, "get_bind") else session
        self.dialect = _dialect_of(bind.dialect.name)

    async def perform(self, operation: Operation) -> Any:
        match operation:
            case Begin():
                await self._begin()
            case Commit():
                await self._session.commit()
            case Rollback():
                await self._session.rollback()
            case Flush():
                if hasattr(self._session, "flush"):
                    await self._session.flush()
            case Statement(sql, parameters):
                return _rows_of(
                    await self._session.execute(_sqlalchemy_text(sql), dict(parameters))
                )
        return None

    async def _begin(self) -> None:
        if self._session.in_transaction():
            raise IllegalStateError(_BEGUN)
        await self._session.begin()
        is_session = hasattr(self._session, "flush")
        connection = await self._session.connection() if is_session else self._session
        if self.dialect is Dialect.SQLITE and not _is_open(connection.sync_connection):
            await connection.exec_driver_sql("BEGIN IMMEDIATE")


def _is_open(connection: Any) -> bool:
    """Whether SQLite has a transaction open: its Python driver begins one only before the first change."""
    return bool(connection.connection.driver_connection.in_transaction)


def _sqlalchemy_text(sql: str) -> Any:
    return sys.modules["sqlalchemy"].text(sql)


def _rows_of(result: Any) -> Rows:
    rows = [tuple(row) for row in result] if result.returns_rows else []
    return Rows(result.rowcount, rows)


def _dialect_of(name: str) -> Dialect:
    try:
        return Dialect(name)
    except ValueError:
        raise TypeError(
            f"app.transaction(session) does not know {name}: it works with PostgreSQL and SQLite"
        ) from None


_KINDS: Final[dict[str, dict[str, Any]]] = {
    "sqlite3": {"Connection": _Sqlite},
    "sqlalchemy.orm": {"Session": _SqlAlchemy, "scoped_session": _SqlAlchemy},
    "sqlalchemy.ext.asyncio": {
        "AsyncSession": _AsyncSqlAlchemy,
        "async_scoped_session": _AsyncSqlAlchemy,
        "AsyncConnection": _AsyncSqlAlchemy,
    },
    "sqlalchemy": {"Connection": _SqlAlchemy},
    "asyncpg": {"Connection": _Asyncpg},
    "asyncpg.pool": {"PoolConnectionProxy": _Asyncpg},
    "psycopg": {"Connection": _Psycopg, "AsyncConnection": _AsyncPsycopg},
    "aiosqlite": {"Connection": _AioSqlite},
}
