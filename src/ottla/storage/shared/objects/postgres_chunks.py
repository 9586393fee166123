"""Objects in PostgreSQL, for clusters that have nothing else: rows of up to 1 MiB, beside the sequencer's tables."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from importlib import resources
from typing import Any, Final, TypeVar

from ottla.ports import Buffer, DamagedError, StorageError, StorageFullError
from ottla.storage.shared.errors import (
    ObjectMissingError,
    ObjectsRefusedError,
    ObjectsUnavailableError,
)
from ottla.storage.shared.objects.objects import ListedObject

T = TypeVar("T")

# A stored format: chunk n has the bytes from n * CHUNK_BYTES on.
CHUNK_BYTES: Final = 1024 * 1024
# More of an object goes in several statements of one transaction.
_CHUNKS_PER_CALL: Final = 8
_LISTED_AT_ONCE: Final = 1000
_DELETED_AT_ONCE: Final = 100
_TIMEOUT_SECONDS: Final = 10.0
_BYTES_PER_SECOND: Final = 1024 * 1024
_CONNECTIONS: Final = 3

# A connection of asyncpg, which has no types.
Connection = Any

_PUT: Final = "SELECT {schema}.put_object_chunks($1, $2, $3, $4)"
_DELETE: Final = "SELECT {schema}.delete_chunked_objects($1)"
_SIZE: Final = "SELECT size_bytes FROM {schema}.chunked_objects WHERE key = $1"
_GET: Final = f"""
SELECT wanted.ordinal, substr(
    chunks.data,
    (greatest(wanted.start, chunks.number::bigint * {CHUNK_BYTES})
        - chunks.number::bigint * {CHUNK_BYTES})::integer + 1,
    (least(wanted.start + wanted.size, (chunks.number::bigint + 1) * {CHUNK_BYTES})
        - greatest(wanted.start, chunks.number::bigint * {CHUNK_BYTES}))::integer
) AS part
FROM unnest($2::bigint[], $3::bigint[]) WITH ORDINALITY AS wanted (start, size, ordinal)
CROSS JOIN LATERAL (
    SELECT number, data FROM {{schema}}.object_chunks
    WHERE key = $1
    AND number BETWEEN wanted.start / {CHUNK_BYTES} AND (wanted.start + wanted.size - 1) / {CHUNK_BYTES}
    ORDER BY number
) AS chunks
ORDER BY wanted.ordinal, chunks.number
"""
_LIST: Final = """
SELECT key, size_bytes, (extract(epoch FROM modified) * 1000)::bigint AS modified_ms
FROM {schema}.chunked_objects WHERE key > $1 AND starts_with(key, $2) AND key < $3
ORDER BY key LIMIT $4
"""
_ALL_BELOW: Final = "\U0010ffff"
# Only where a server or a role says otherwise: what is stored has to survive a crash.
_DURABLE: Final = """
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'
"""


def chunk_tables_sql() -> str:
    """The tables and functions; to be executed with the schema first in search_path and pg_temp last."""
    return resources.files(__package__).joinpath("postgres_chunks.sql").read_text(encoding="utf-8")


class PostgresChunks:
    """Objects in the tables of a schema, over a few connections that it opens by `connect` when it needs them."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]], schema: str) -> None:
        quoted = '"' + schema.replace('"', '""') + '"'
        self._connect = connect
        self._put, self._delete, self._size, self._get, self._list = (
            text.format(schema=quoted) for text in (_PUT, _DELETE, _SIZE, _GET, _LIST)
        )
        self._idle: list[Connection] = []
        self._free = asyncio.Semaphore(_CONNECTIONS)
        self._is_closed = False

    async def put(self, key: str, parts: Sequence[Buffer]) -> None:
        size_bytes = sum(map(len, parts))

        async def put(connection: Connection) -> None:
            if size_bytes <= _CHUNKS_PER_CALL * CHUNK_BYTES:
                await connection.execute(self._put, key, size_bytes, 0, list(_chunks(parts)))
                return
            async with connection.transaction():
                number = 0
                chunks: list[bytes] = []
                for chunk in _chunks(parts):
                    chunks.append(chunk)
                    if len(chunks) == _CHUNKS_PER_CALL:
                        await connection.execute(self._put, key, size_bytes, number, chunks)
                        number += len(chunks)
                        chunks = []
                if chunks:
                    await connection.execute(self._put, key, size_bytes, number, chunks)

        await self._use(put, f"storing object {key}", size_bytes)

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Sequence[Buffer]:
        async def get(connection: Connection) -> Sequence[Buffer]:
            rows = await connection.fetch(
                self._get, key, [start for start, _ in ranges], [size for _, size in ranges]
            )
            found: list[list[bytes]] = [[] for _ in ranges]
            for ordinal, part in rows:
                found[ordinal - 1].append(part)
            answer = [parts[0] if len(parts) == 1 else b"".join(parts) for parts in found]
            if [len(part) for part in answer] != [size for _, size in ranges]:
                # Asked afterwards: a deletion between both is a missing object, not a damaged one.
                size_bytes = await connection.fetchval(self._size, key)
                if size_bytes is None:
                    raise ObjectMissingError(f"there is no object {key}")
                raise DamagedError(f"object {key} has {size_bytes} bytes, or lacks a chunk")
            return answer

        size_bytes = sum(size for _, size in ranges)
        return await self._use(get, f"reading object {key}", size_bytes)

    async def delete(self, keys: Sequence[str]) -> None:
        for start in range(0, len(keys), _DELETED_AT_ONCE):
            some = list(keys[start : start + _DELETED_AT_ONCE])

            async def delete(connection: Connection, some: list[str] = some) -> None:
                await connection.execute(self._delete, some)

            await self._use(delete, f"deleting {len(some)} objects", 0)

    async def list(self, prefix: str) -> AsyncIterator[ListedObject]:
        after = ""
        while True:

            async def fetch(connection: Connection, after: str = after) -> Sequence[Any]:
                rows: Sequence[Any] = await connection.fetch(
                    self._list, after, prefix, prefix + _ALL_BELOW, _LISTED_AT_ONCE
                )
                return rows

            rows = await self._use(fetch, f"listing objects {prefix}*", 0)
            for key, size_bytes, modified_ms in rows:
                yield ListedObject(key, size_bytes, modified_ms)
                after = key
            if len(rows) < _LISTED_AT_ONCE:
                return

    async def close(self) -> None:
        self._is_closed = True
        while self._idle:
            self._idle.pop().terminate()

    async def _use(
        self, work: Callable[[Connection], Awaitable[T]], what: str, size_bytes: int
    ) -> T:
        limit_seconds = _TIMEOUT_SECONDS + size_bytes / _BYTES_PER_SECOND
        async with self._free:
            connection = None
            try:
                async with asyncio.timeout(limit_seconds):
                    connection = await self._connected()
                    result = await work(connection)
            except StorageError:
                # It is about the object: the connection has answered.
                self._put_back(connection)
                raise
            except BaseException as error:
                # Whatever became of the statement, the next one gets another connection.
                if connection is not None:
                    connection.terminate()
                if isinstance(error, TimeoutError):
                    raise ObjectsUnavailableError(
                        f"PostgreSQL: {what} took more than {limit_seconds:.0f} seconds"
                    ) from None
                if isinstance(error, Exception):
                    raise _storage_error(error, what) from error
                raise
            self._put_back(connection)
            return result

    async def _connected(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        connection = await self._connect()
        await connection.execute(_DURABLE)
        return connection

    def _put_back(self, connection: Connection) -> None:
        if self._is_closed:
            connection.terminate()
        else:
            self._idle.append(connection)


def _chunks(parts: Sequence[Buffer]) -> Iterator[bytes]:
    """The parts cut into chunks, all but the last of CHUNK_BYTES."""
    pieces: list[memoryview] = []
    missing_bytes = CHUNK_BYTES
    for part in parts:
        view = memoryview(part)
        while len(view) >= missing_bytes:
            pieces.append(view[:missing_bytes])
            view = view[missing_bytes:]
            yield b"".join(pieces)
            pieces.clear()
            missing_bytes = CHUNK_BYTES
        if len(view):
            pieces.append(view)
            missing_bytes -= len(view)
    if pieces:
        yield b"".join(pieces)


def _storage_error(error: Exception, what: str) -> StorageError:
    import asyncpg

    about = f"PostgreSQL: {what}: {' '.join(str(error).split())}"
    if isinstance(error, asyncpg.DiskFullError):
        return StorageFullError(about)
    if isinstance(
        error,
        asyncpg.InsufficientPrivilegeError
        | asyncpg.UndefinedTableError
        | asyncpg.UndefinedFunctionError
        | asyncpg.InvalidSchemaNameError
        | asyncpg.InvalidAuthorizationSpecificationError
        | asyncpg.ReadOnlySQLTransactionError,
    ):
        return ObjectsRefusedError(about)
    return ObjectsUnavailableError(about)
