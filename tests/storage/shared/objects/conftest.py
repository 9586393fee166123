"""Object stores of every kind, empty."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from tests.storage.shared.s3_server import S3Server

from ottla.storage.shared.objects.memory import MemoryObjects
from ottla.storage.shared.objects.objects import Objects
from ottla.storage.shared.objects.postgres_chunks import PostgresChunks, chunk_tables_sql
from ottla.storage.shared.objects.s3 import S3Objects

OpenStore = Callable[[], AbstractAsyncContextManager[Objects]]
_numbers = itertools.count()


@asynccontextmanager
async def open_memory() -> AsyncIterator[Objects]:
    yield MemoryObjects()


@asynccontextmanager
async def open_chunks(url: str) -> AsyncIterator[PostgresChunks]:
    import asyncpg

    schema = f"Objects {next(_numbers)}"
    connection = await asyncpg.connect(url)
    await connection.execute(f'CREATE SCHEMA "{schema}"; SET search_path TO "{schema}", pg_temp')
    for _ in range(2):  # the second time nothing happens
        await connection.execute(chunk_tables_sql())
    await connection.close()
    store = PostgresChunks(lambda: asyncpg.connect(url), schema)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def open_s3(server: S3Server) -> AsyncIterator[Objects]:
    store = S3Objects.of_url(server.url(f"tests/{next(_numbers)}"), {})
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture(params=["memory", "postgres", "seaweed"])
def open_store(request: pytest.FixtureRequest) -> OpenStore:
    if request.param == "memory":
        return open_memory
    if request.param == "postgres":
        url = request.getfixturevalue("shared_postgres")
        return lambda: open_chunks(url)
    server = request.getfixturevalue("shared_s3")
    return lambda: open_s3(server)
