"""Databases for the tests of the outbox."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from tests.app.outbox.drivers import POSTGRESQL, SQLITE, Driver, sqlite_path
from tests.postgres_server import postgres_server

from ottla.app.outbox import Tables
from ottla.app.outbox.statements import Dialect

EFFECTS = "CREATE TABLE IF NOT EXISTS effects (what TEXT NOT NULL)"
ALL_TABLES = ("effects", "ottla_offsets", "ottla_inbox", "ottla_outbox", "ottla_relays")


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    with postgres_server() as url:
        yield url


class Shop(NamedTuple):
    """A database with the tables, and one for effects; `rows` looks into it from outside."""

    url: str
    dialect: Dialect

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        if self.dialect is Dialect.SQLITE:
            with closing(sqlite3.connect(self.url)) as connection:
                return connection.execute(sql).fetchall()
        with psycopg.connect(self.url) as other:
            return other.execute(sql.encode()).fetchall()

    def run(self, *statements: str) -> None:
        if self.dialect is Dialect.SQLITE:
            with closing(sqlite3.connect(self.url)) as connection:
                for sql in statements:
                    connection.execute(sql)
                connection.commit()
            return
        with psycopg.connect(self.url) as other:
            for sql in statements:
                other.execute(sql.encode())

    @property
    def effects(self) -> list[str]:
        return sorted(row[0] for row in self.rows("SELECT what FROM effects"))

    @property
    def outbox(self) -> list[bytes]:
        found = self.rows("SELECT record_value FROM ottla_outbox ORDER BY id")
        return [bytes(row[0]) for row in found]

    @property
    def next_offset(self) -> int | None:
        found = self.rows("SELECT next_offset FROM ottla_offsets")
        return None if not found else int(found[0][0])


def sqlite_shop(folder: Path) -> Shop:
    shop = Shop(sqlite_path(folder), Dialect.SQLITE)
    shop.run(EFFECTS, *Tables().ddl(Dialect.SQLITE), "PRAGMA journal_mode=WAL")
    return shop


def postgres_shop(url: str) -> Shop:
    shop = Shop(url, Dialect.POSTGRESQL)
    shop.run(EFFECTS, *Tables().ddl(Dialect.POSTGRESQL), f"TRUNCATE {', '.join(ALL_TABLES)}")
    return shop


def _params() -> list[Any]:
    """All drivers; most of them only in campaigns, since what differs is little."""
    usual = {("sqlite", "sqlite3"), ("postgresql", "asyncpg"), ("postgresql", "psycopg")}
    usual.add(("postgresql", "sqlalchemy-async-session"))
    return [
        pytest.param(
            each,
            id=f"{each.dialect}-{each.name}",
            marks=[] if (each.dialect, each.name) in usual else [pytest.mark.campaign],
        )
        for each in [*SQLITE, *POSTGRESQL]
    ]


@pytest.fixture(params=_params())
def driver(request: pytest.FixtureRequest) -> Driver:
    found: Driver = request.param
    return found


@pytest.fixture
def shop(driver: Driver, request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    if driver.dialect == "sqlite":
        return sqlite_shop(tmp_path)
    return postgres_shop(request.getfixturevalue("postgres"))
