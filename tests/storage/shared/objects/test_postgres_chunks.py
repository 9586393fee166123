"""Objects in PostgreSQL: whole or not at all, and what is said when the database fails."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest
from tests.storage.shared.objects.conftest import open_chunks

from ottla.ports import DamagedError
from ottla.storage.shared.errors import (
    ObjectMissingError,
    ObjectsRefusedError,
    ObjectsUnavailableError,
)
from ottla.storage.shared.objects.postgres_chunks import CHUNK_BYTES, PostgresChunks

KEY = "00/1-a"


class Database:
    """A store, and a connection beside it that sees and does everything."""

    def __init__(self, url: str, store: PostgresChunks, owner: Any, schema: str) -> None:
        self.url = url
        self.store = store
        self.owner = owner
        self.schema = schema

    async def run(self, sql: str, *arguments: object) -> Any:
        return await self.owner.fetchval(sql.replace("@.", f'"{self.schema}".'), *arguments)

    async def end_connections(self) -> None:
        await self.owner.fetch(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND application_name = 'chunks'"
        )


def play(url: str, story: Callable[[Database], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with open_chunks(url) as opened:
            schema = opened._put.partition('"')[2].partition('"')[0]
            options = {"application_name": "chunks", "synchronous_commit": "off"}
            store = PostgresChunks(lambda: asyncpg.connect(url, server_settings=options), schema)
            owner = await asyncpg.connect(url)
            try:
                await story(Database(url, store, owner, schema))
            finally:
                await store.close()
                await owner.close()

    asyncio.run(whole())


def test_an_object_appears_whole_or_not_at_all(shared_postgres: str) -> None:
    async def story(database: Database) -> None:
        data = os.urandom(12 * CHUNK_BYTES)
        await database.run(
            "ALTER TABLE @.object_chunks ADD CONSTRAINT full_disk CHECK (number < 10)"
        )
        with pytest.raises(ObjectsUnavailableError, match="full_disk"):
            await database.store.put(KEY, [data])
        with pytest.raises(ObjectMissingError):
            await database.store.get_ranges(KEY, [(0, 1)])
        assert await database.run("SELECT count(*) FROM @.object_chunks") == 0
        await database.run("ALTER TABLE @.object_chunks DROP CONSTRAINT full_disk")
        await database.store.put(KEY, [data])
        (got,) = await database.store.get_ranges(KEY, [(0, len(data))])
        assert got == data

    play(shared_postgres, story)


def test_deleting_an_object_deletes_its_chunks(shared_postgres: str) -> None:
    async def story(database: Database) -> None:
        await database.store.put(KEY, [bytes(3 * CHUNK_BYTES)])
        assert await database.run("SELECT count(*) FROM @.object_chunks") == 3
        await database.store.delete([KEY])
        assert await database.run("SELECT count(*) FROM @.object_chunks") == 0

    play(shared_postgres, story)


def test_a_lost_chunk_is_damage(shared_postgres: str) -> None:
    async def story(database: Database) -> None:
        await database.store.put(KEY, [bytes(3 * CHUNK_BYTES)])
        await database.run("DELETE FROM @.object_chunks WHERE number = 1")
        for wanted in ((0, 3 * CHUNK_BYTES), (CHUNK_BYTES, 1)):
            with pytest.raises(DamagedError, match="lacks a chunk"):
                await database.store.get_ranges(KEY, [wanted])
        await database.store.get_ranges(KEY, [(2 * CHUNK_BYTES, CHUNK_BYTES)])

    play(shared_postgres, story)


def test_a_lost_connection_is_replaced(shared_postgres: str) -> None:
    async def story(database: Database) -> None:
        await database.store.put(KEY, [b"123"])
        await database.end_connections()
        # asyncpg may know of it already; if not, the first operation finds it out.
        for _ in range(2):
            try:
                (got,) = await database.store.get_ranges(KEY, [(0, 3)])
                break
            except ObjectsUnavailableError:
                continue
        assert got == b"123"

    play(shared_postgres, story)


def test_a_statement_that_is_ended_leaves_its_outcome_unknown(shared_postgres: str) -> None:
    async def story(database: Database) -> None:
        await database.store.put(KEY, [b"123"])
        await database.owner.execute("BEGIN")
        await database.run("LOCK TABLE @.chunked_objects")
        waiting = asyncio.create_task(database.store.put("00/2-a", [b"456"]))
        while not await database.run("SELECT count(*) FROM pg_locks WHERE NOT granted"):
            await asyncio.sleep(0.01)
        await database.end_connections()
        with pytest.raises(ObjectsUnavailableError):
            await waiting
        await database.owner.execute("ROLLBACK")
        await database.store.put("00/2-a", [b"456"])

    play(shared_postgres, story)


def test_a_cancelled_put_leaves_a_usable_store(shared_postgres: str) -> None:
    async def story(database: Database) -> None:
        for _ in range(5):
            task = asyncio.create_task(database.store.put(KEY, [bytes(20 * CHUNK_BYTES)]))
            await asyncio.sleep(0.02)
            task.cancel()
            await asyncio.wait([task])
        await database.store.put("00/2-a", [b"456"])
        (got,) = await database.store.get_ranges("00/2-a", [(0, 3)])
        assert got == b"456"

    play(shared_postgres, story)


def test_what_is_stored_is_durable_whatever_the_role_is_set_to(shared_postgres: str) -> None:
    async def story(database: Database) -> None:
        await database.store.put(KEY, [b"123"])
        connection = database.store._idle[0]
        assert await connection.fetchval("SHOW synchronous_commit") == "on"

    play(shared_postgres, story)


def test_what_an_operator_has_to_change_is_refused(shared_postgres: str) -> None:
    async def run() -> None:
        store = PostgresChunks(lambda: asyncpg.connect(shared_postgres), 'no such "schema"')
        for ask in (store.put(KEY, [b"1"]), store.get_ranges(KEY, [(0, 1)]), store.delete([KEY])):
            with pytest.raises(ObjectsRefusedError, match="does not exist") as caught:
                await ask
            assert "\n" not in str(caught.value)
        await store.close()

    asyncio.run(run())


def test_a_database_that_cannot_be_reached_is_unavailable() -> None:
    async def run() -> None:
        store = PostgresChunks(lambda: asyncpg.connect("postgresql://a@127.0.0.1:1/b"), "ottla")
        with pytest.raises(ObjectsUnavailableError):
            await store.put(KEY, [b"1"])

    asyncio.run(run())
