"""The schema of the sequencer: made once, upgraded in steps, refused where it does not fit."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest
from tests.storage.shared.postgres_server import new_schema_url
from tests.storage.shared.sequencer.backends import (
    LEASE_MS,
    PostgresBackend,
    broker,
    claim_all,
    new_schema_place,
    part,
    refs,
    segment,
)

from ottla.ports import StorageError
from ottla.ports.errors import NewerFormatError
from ottla.storage.shared.sequencer.postgres import schema
from ottla.storage.shared.sequencer.postgres.database_url import DatabaseUrl, parse_database_url
from ottla.storage.shared.sequencer.postgres.postgres_sequencer import open_postgres_sequencer
from ottla.storage.shared.sequencer.postgres.schema import init, upgrade
from ottla.storage.shared.sequencer.records import AppendOutcome, Replacement, WrittenObject


@pytest.fixture
def url(shared_postgres: str) -> DatabaseUrl:
    return parse_database_url(new_schema_url(shared_postgres))


async def run(url: DatabaseUrl, sql: str) -> list[Any]:
    connection = await asyncpg.connect(url.dsn)
    try:
        rows: list[Any] = await connection.fetch(sql.replace("@", url.quoted_schema))
        return rows
    finally:
        await connection.close()


async def contents(url: DatabaseUrl) -> set[tuple[str, str]]:
    """What is in the schema: tables with columns, functions with arguments."""
    rows = await run(
        url,
        f"""SELECT c.relname, string_agg(a.attname || ' ' || a.atttypid::regtype, ', ' ORDER BY a.attnum)
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
        WHERE c.relnamespace = '{url.schema}'::regnamespace AND c.relkind IN ('r', 'p', 'i') GROUP BY 1
        UNION SELECT proname, pg_get_function_arguments(oid) || proacl::text || prosrc FROM pg_proc
        WHERE pronamespace = '{url.schema}'::regnamespace""",
    )
    return {(row[0], row[1]) for row in rows}


def test_init_makes_a_cluster_once(url: DatabaseUrl) -> None:
    async def story() -> None:
        state = await init(url)
        assert len(state.cluster_id) == 22
        with pytest.raises(StorageError, match=r"already; nothing was changed$"):
            await init(url)
        sequencer = await open_postgres_sequencer(url)
        assert sequencer.cluster_id == state.cluster_id
        await sequencer.close()

    asyncio.run(story())


def test_two_inits_at_once_make_one_cluster(url: DatabaseUrl) -> None:
    async def story() -> None:
        answers = await asyncio.gather(init(url, "one"), init(url, "two"), return_exceptions=True)
        failures = [each for each in answers if isinstance(each, BaseException)]
        assert [type(each) for each in failures] == [StorageError]

    asyncio.run(story())


async def _do_nothing(url: DatabaseUrl) -> None:
    """The schema does not exist."""


async def _make_a_foreign_schema(url: DatabaseUrl) -> None:
    await run(url, "CREATE SCHEMA @")


async def _make_a_newer_schema(url: DatabaseUrl) -> None:
    await init(url)
    await run(url, "UPDATE @.schema_version SET version = 99")


async def _make_an_older_schema(url: DatabaseUrl) -> None:
    await init(url)
    await run(url, "UPDATE @.schema_version SET version = 0")


@pytest.mark.parametrize(
    ("prepare", "error", "said"),
    [
        (_do_nothing, StorageError, "does not exist: run `ottla storage init`"),
        (_make_a_foreign_schema, StorageError, "is no schema of Ottla: run `ottla storage init`"),
        (_make_a_newer_schema, NewerFormatError, "has version 99, and this Ottla knows"),
        (_make_an_older_schema, StorageError, "stop all brokers and run `ottla storage upgrade`"),
    ],
)
def test_a_broker_refuses_a_schema_that_does_not_fit(
    url: DatabaseUrl,
    prepare: Callable[[DatabaseUrl], Awaitable[None]],
    error: type[StorageError],
    said: str,
) -> None:
    async def story() -> None:
        await prepare(url)
        with pytest.raises(error) as refused:
            await open_postgres_sequencer(url)
        assert said in str(refused.value)
        assert "\n" not in str(refused.value)
        if prepare is not _make_an_older_schema:
            with pytest.raises(error):
                await upgrade(url)

    asyncio.run(story())


def test_an_upgrade_goes_through_the_steps(url: DatabaseUrl, shared_postgres: str) -> None:
    """A schema of version 0 has its version and nothing else, but for an old function."""

    async def story() -> None:
        for sql in (
            "CREATE SCHEMA @",
            "CREATE TABLE @.schema_version"
            " (one boolean PRIMARY KEY DEFAULT true CHECK (one), version integer NOT NULL)",
            "INSERT INTO @.schema_version (version) VALUES (0)",
            "CREATE FUNCTION @.claim(integer) RETURNS integer LANGUAGE sql AS 'SELECT 1'",
        ):
            await run(url, sql)
        assert await upgrade(url) == 0
        assert await upgrade(url) == 1
        other = parse_database_url(new_schema_url(shared_postgres))
        await init(other)
        assert await contents(url) == await contents(other)

    asyncio.run(story())


def test_an_upgrade_that_fails_changes_nothing(
    url: DatabaseUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        await _make_an_older_schema(url)
        before = await contents(url)
        with pytest.raises(StorageError, match="the schema was not upgraded"):
            await upgrade(url)  # the tables of step 1 are there
        assert await contents(url) == before

    asyncio.run(story())


def test_all_sql_files_are_used() -> None:
    folder = schema.sql_folder()
    steps = {each.name for each in (folder / "steps").iterdir()}
    assert steps == {step.file for step in schema.STEPS}
    assert {each.name for each in (folder / "functions").iterdir()} == set(schema.FUNCTIONS)
    assert [step.version for step in schema.STEPS] == list(range(1, schema.VERSION + 1))


def test_brokers_need_only_execute_and_select(url: DatabaseUrl) -> None:
    """A role that can change no table does all that a broker does."""
    role = f"broker_{url.schema}"
    broker_url = parse_database_url(str(url).replace("://ottla@", f"://{role}@"))

    async def story() -> None:
        await run(url, f"CREATE ROLE {role} LOGIN")
        await init(url, broker_role=role)
        sequencer = await open_postgres_sequencer(broker_url, LEASE_MS)
        session = (await sequencer.register(broker("a"))).session
        [reserved] = (await sequencer.heartbeat(session, 0, 1)).objects
        await sequencer.commit_catalog(session, uuid.uuid4(), {"x": 1}, 0)
        [one] = await claim_all(sequencer, session, refs(1), 1)
        parts = [part(one, 0, object_id=reserved.object_id), part(one, 1)]
        written = [WrittenObject(reserved.object_id, 1)]
        outcomes = await sequencer.append(session, uuid.uuid4(), written, parts)
        assert list(outcomes) == [AppendOutcome.OK] * 2
        number = one.partition_id
        assert list(
            await sequencer.replace([Replacement(number, 1, 0, 1, [segment(0, 1)])], [])
        ) == [True]
        assert list(await sequencer.trim([(number, 1, 1)])) == [True]
        assert await sequencer.save_snapshot(number, 1, 1, b"s")
        assert await sequencer.turn_tail()
        await sequencer.find_garbage(10)
        await sequencer.note_deleted([reserved.object_id])
        assert len((await sequencer.open(number, 1)).tail) == 1
        await sequencer.release(session, {number: None})
        await sequencer.delete(refs(1))
        await sequencer.close()
        rows = await run(url, f"SELECT tablename FROM pg_tables WHERE schemaname = '{url.schema}'")
        for row in rows:
            for sql in ("DELETE FROM", "TRUNCATE"):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await run(broker_url, f"{sql} @.{row[0]}")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await run(broker_url, "UPDATE @.partitions SET epoch = 7")

    asyncio.run(story())


def test_others_may_call_no_function(url: DatabaseUrl) -> None:
    role = f"stranger_{url.schema}"
    stranger = parse_database_url(str(url).replace("://ottla@", f"://{role}@"))

    async def story() -> None:
        await run(url, f"CREATE ROLE {role} LOGIN")
        await init(url)
        await run(url, f"GRANT USAGE ON SCHEMA @ TO {role}")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await run(stranger, "SELECT @.turn_tail()")

    asyncio.run(story())


def test_a_table_in_the_callers_way_changes_nothing(url: DatabaseUrl) -> None:
    """The functions keep their search path, whatever a session has in front of it."""

    async def story() -> None:
        await init(url)
        connection = await asyncpg.connect(url.dsn)
        await connection.execute(
            "CREATE TEMPORARY TABLE brokers (n integer); CREATE TEMPORARY TABLE node_ids (next integer)"
        )
        await connection.execute("SET search_path = pg_temp")
        [row] = await connection.fetch(
            f"SELECT * FROM {url.quoted_schema}.register('a', NULL, '{{}}', 1000)"
        )
        assert row[0] == 1
        await connection.close()

    asyncio.run(story())


def test_functions_refuse_other_isolation_and_commit_durably(shared_postgres: str) -> None:
    async def story(backend: PostgresBackend) -> None:
        connection = await backend.owner()
        name = backend.url.quoted_schema
        with pytest.raises(asyncpg.PostgresError, match='has to be "read committed"'):
            async with connection.transaction(isolation="repeatable_read"):
                await connection.execute(f"SELECT {name}.end_session('{uuid.uuid4()}')")
        for asked, given in (("off", "on"), ("local", "on"), ("remote_apply", "remote_apply")):
            async with connection.transaction():
                await connection.execute(f"SET LOCAL synchronous_commit = {asked}")
                await connection.execute(f"SELECT {name}.end_session('{uuid.uuid4()}')")
                assert await connection.fetchval("SHOW synchronous_commit") == given

    new_schema_place(shared_postgres).play(story)
