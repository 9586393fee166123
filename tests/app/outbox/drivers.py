"""The same database through each library: how a test opens a session and runs SQL in it."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from inspect import isawaitable
from pathlib import Path
from typing import Any, NamedTuple

import aiosqlite
import asyncpg
import psycopg
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

Opened = AbstractAsyncContextManager[Any]


class Driver(NamedTuple):
    """A library, or one of its ways to connect."""

    name: str
    dialect: str
    open: Callable[[str], Opened]
    """A session for a URL, or for the path of a SQLite file."""
    is_async: bool = False

    async def execute(self, session: Any, sql: str) -> list[tuple[Any, ...]]:
        """Run SQL without parameters; the rows of a query."""
        if self.name.startswith("sqlalchemy"):
            result = session.execute(sqlalchemy.text(sql))
            result = await result if isawaitable(result) else result
            return [tuple(row) for row in result] if result.returns_rows else []
        if self.name == "asyncpg":
            return [tuple(row) for row in await session.fetch(sql)]
        cursor = session.execute(sql)
        cursor = await cursor if isawaitable(cursor) else cursor
        if cursor.description is None:
            return []
        rows = cursor.fetchall()
        rows = await rows if isawaitable(rows) else rows
        return [tuple(row) for row in rows]


@asynccontextmanager
async def _sqlite(path: str, **options: Any) -> AsyncIterator[Any]:
    connection = sqlite3.connect(path, **options)
    try:
        yield connection
    finally:
        connection.close()


def _sqlite_autocommit(path: str) -> Opened:
    return _sqlite(path, isolation_level=None)


@asynccontextmanager
async def _aiosqlite(path: str) -> AsyncIterator[Any]:
    async with aiosqlite.connect(path) as connection:
        yield connection


@asynccontextmanager
async def _asyncpg(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def _psycopg(url: str, **options: Any) -> AsyncIterator[Any]:
    connection = psycopg.connect(url, **options)
    try:
        yield connection
    finally:
        connection.close()


def _psycopg_autocommit(url: str) -> Opened:
    return _psycopg(url, autocommit=True)


@asynccontextmanager
async def _async_psycopg(url: str) -> AsyncIterator[Any]:
    connection = await psycopg.AsyncConnection.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


def sqlalchemy_url(url: str, driver: str) -> str:
    """The URL with SQLAlchemy's name of a driver."""
    if url.startswith("postgresql://"):
        return url.replace("postgresql://", f"postgresql+{driver}://")
    return f"sqlite+{driver}:///{url}"


def _alchemy(driver: str, kind: str) -> Callable[[str], Opened]:
    @asynccontextmanager
    async def open_session(url: str) -> AsyncIterator[Any]:
        engine = sqlalchemy.create_engine(sqlalchemy_url(url, driver))
        try:
            with Session(engine) if kind == "session" else engine.connect() as session:
                yield session
        finally:
            engine.dispose()

    return open_session


def _async_alchemy(driver: str, kind: str) -> Callable[[str], Opened]:
    @asynccontextmanager
    async def open_session(url: str) -> AsyncIterator[Any]:
        engine = create_async_engine(sqlalchemy_url(url, driver))
        try:
            async with AsyncSession(engine) if kind == "session" else engine.connect() as session:
                yield session
        finally:
            await engine.dispose()

    return open_session


SQLITE = [
    Driver("sqlite3", "sqlite", _sqlite),
    Driver("sqlite3-autocommit", "sqlite", _sqlite_autocommit),
    Driver("aiosqlite", "sqlite", _aiosqlite, is_async=True),
    Driver("sqlalchemy-session", "sqlite", _alchemy("pysqlite", "session")),
    Driver("sqlalchemy-connection", "sqlite", _alchemy("pysqlite", "connection")),
    Driver(
        "sqlalchemy-async-session", "sqlite", _async_alchemy("aiosqlite", "session"), is_async=True
    ),
    Driver(
        "sqlalchemy-async-connection",
        "sqlite",
        _async_alchemy("aiosqlite", "connection"),
        is_async=True,
    ),
]
POSTGRESQL = [
    Driver("asyncpg", "postgresql", _asyncpg, is_async=True),
    Driver("psycopg", "postgresql", _psycopg),
    Driver("psycopg-autocommit", "postgresql", _psycopg_autocommit),
    Driver("async-psycopg", "postgresql", _async_psycopg, is_async=True),
    Driver("sqlalchemy-session", "postgresql", _alchemy("psycopg", "session")),
    Driver("sqlalchemy-connection", "postgresql", _alchemy("psycopg", "connection")),
    Driver(
        "sqlalchemy-async-session",
        "postgresql",
        _async_alchemy("asyncpg", "session"),
        is_async=True,
    ),
    Driver(
        "sqlalchemy-async-connection",
        "postgresql",
        _async_alchemy("asyncpg", "connection"),
        is_async=True,
    ),
]


def sqlite_path(folder: Path) -> str:
    """A database file."""
    return str(folder / "shop.db")
