"""The schema: made by `init`, brought to this version by `upgrade`, compared by `check_schema`.

It has the tables of objects in PostgreSQL too, which are empty where there is another object store.
"""

from __future__ import annotations

import uuid
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final, NamedTuple

import asyncpg

from ottla.model import topic_id_text
from ottla.ports import StorageError
from ottla.ports.errors import NewerFormatError
from ottla.storage.shared.objects.postgres_chunks import chunk_tables_sql
from ottla.storage.shared.sequencer.postgres.connections import Database
from ottla.storage.shared.sequencer.postgres.database_url import DatabaseUrl

_SQL: Final = "ottla.storage.shared.sequencer.postgres"
_LOCK: Final = 0x6F74746C61  # of inits and upgrades, in the whole database


class Step(NamedTuple):
    """What brings a schema of the version before to this one; functions are made anew after the last step."""

    version: int
    file: str


STEPS: Final = (Step(1, "0001_tables.sql"),)
VERSION: Final = STEPS[-1].version
FUNCTIONS: Final = (
    "sessions.sql",
    "catalog.sql",
    "claims.sql",
    "appends.sql",
    "replacements.sql",
    "collection.sql",
)


class SchemaState(NamedTuple):
    cluster_id: str
    version: int


async def init(
    url: DatabaseUrl, cluster_id: str | None = None, broker_role: str | None = None
) -> SchemaState:
    """Makes the schema with its tables and functions; StorageError if there is one already.

    `broker_role` may do what brokers do, and nothing else. Without one, brokers log in as the owner.
    """
    cluster_id = cluster_id or topic_id_text(uuid.uuid4())
    connection = await Database(url).connect()
    try:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
            if await _has_schema(connection, url):
                raise StorageError(
                    f'{url}: there is a schema "{url.schema}" already; nothing was changed'
                )
            await connection.execute(f"CREATE SCHEMA {url.quoted_schema}")
            await _enter(connection, url)
            await connection.execute(
                "CREATE TABLE schema_version (one boolean PRIMARY KEY DEFAULT true CHECK (one),"
                " version integer NOT NULL); INSERT INTO schema_version (version) VALUES (0)"
            )
            await _go_through(connection, 0)
            await connection.execute("INSERT INTO cluster (id) VALUES ($1)", cluster_id)
            if broker_role is not None:
                await _grant(connection, url, broker_role)
    except (asyncpg.PostgresError, OSError, asyncpg.InterfaceError) as error:
        raise Database(url).error_of(error, "the schema was not made") from error
    finally:
        await connection.close()
    return SchemaState(cluster_id, VERSION)


async def upgrade(url: DatabaseUrl, broker_role: str | None = None) -> int:
    """Brings the schema to this version, in one transaction; returns the version that it had.

    Brokers must be stopped. A broker role gets its rights again.
    """
    connection = await Database(url).connect()
    try:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
            version = await _version(connection, url)
            await _enter(connection, url)
            if version < VERSION:
                await _drop_functions(connection, url)
                await _go_through(connection, version)
            if broker_role is not None:
                await _grant(connection, url, broker_role)
    except (asyncpg.PostgresError, OSError, asyncpg.InterfaceError) as error:
        raise Database(url).error_of(error, "the schema was not upgraded") from error
    finally:
        await connection.close()
    return version


async def check_schema(connection: Any, url: DatabaseUrl) -> SchemaState:
    """A StorageError of one line if brokers of this version cannot work on the schema."""
    state = await check_schema_version(connection, url)
    importing = await connection.fetchval(
        "SELECT to_regclass($1)::text", f"{url.quoted_schema}.import_progress"
    )
    if importing is not None:
        raise StorageError(
            f"{url}: an import into the storage has not been finished: run `ottla storage import` again"
        )
    return state


async def check_schema_version(connection: Any, url: DatabaseUrl) -> SchemaState:
    """As `check_schema`, also while a folder is imported."""
    version = await _version(connection, url)
    if version < VERSION:
        raise StorageError(
            f'{url}: the schema "{url.schema}" has version {version}, and this Ottla works with {VERSION}:'
            " stop all brokers and run `ottla storage upgrade`"
        )
    cluster_id: str | None = await connection.fetchval(
        f"SELECT id FROM {url.quoted_schema}.cluster"
    )
    if cluster_id is None:
        raise StorageError(f'{url}: the schema "{url.schema}" has no cluster in it')
    return SchemaState(cluster_id, version)


async def _has_schema(connection: Any, url: DatabaseUrl) -> bool:
    return bool(
        await connection.fetchval(
            "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", url.schema
        )
    )


async def _version(connection: Any, url: DatabaseUrl) -> int:
    """The schema's version; a StorageError if there is none, or if it is later than this program's."""
    table = await connection.fetchval(
        "SELECT to_regclass($1)::text", f"{url.quoted_schema}.schema_version"
    )
    if table is None:
        missing = (
            "is no schema of Ottla" if await _has_schema(connection, url) else "does not exist"
        )
        raise StorageError(f'{url}: the schema "{url.schema}" {missing}: run `ottla storage init`')
    version: int = await connection.fetchval(
        f"SELECT version FROM {url.quoted_schema}.schema_version"
    )
    if version > VERSION:
        raise NewerFormatError(
            f'{url}: the schema "{url.schema}" has version {version}, and this Ottla knows versions up to {VERSION}:'
            " use a later Ottla"
        )
    return version


async def _enter(connection: Any, url: DatabaseUrl) -> None:
    """The search path for tables, and the one that functions keep (SET search_path FROM CURRENT)."""
    await connection.execute(f"SET LOCAL search_path = {url.quoted_schema}, pg_temp")


def sql_folder() -> Traversable:
    return files(_SQL) / "sql"


def sql_text(folder: str, name: str) -> str:
    return (sql_folder() / folder / name).read_text("utf-8")


async def _go_through(connection: Any, version: int) -> None:
    for step in STEPS:
        if step.version > version:
            await connection.execute(sql_text("steps", step.file))
    await connection.execute(chunk_tables_sql())
    for name in FUNCTIONS:
        await connection.execute(sql_text("functions", name))
    await connection.execute("UPDATE schema_version SET version = $1", VERSION)
    # Everybody may execute a new function, and these have the rights of the owner.
    await connection.execute(
        """DO $$ BEGIN
            EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA %I FROM PUBLIC', current_schema());
        END $$"""
    )


async def _drop_functions(connection: Any, url: DatabaseUrl) -> None:
    names = await connection.fetch(
        "SELECT oid::regprocedure::text AS name FROM pg_proc WHERE pronamespace = $1::text::regnamespace",
        url.quoted_schema,
    )
    for row in names:
        await connection.execute(f"DROP FUNCTION {row['name']}")


async def _grant(connection: Any, url: DatabaseUrl, role: str) -> None:
    quoted = await connection.fetchval("SELECT quote_ident($1)", role)
    for right in (
        f"USAGE ON SCHEMA {url.quoted_schema}",
        f"SELECT ON ALL TABLES IN SCHEMA {url.quoted_schema}",
        f"EXECUTE ON ALL FUNCTIONS IN SCHEMA {url.quoted_schema}",
    ):
        await connection.execute(f"GRANT {right} TO {quoted}")
