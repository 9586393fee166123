"""Connections to the database that fail, end, or lead to a server that would lose records."""

from __future__ import annotations

import asyncio
import time
import uuid
from urllib.parse import urlsplit

import asyncpg
import pytest
from tests.postgres_server import StartedServer, find_newest_binaries, started_server
from tests.storage.shared.postgres_server import SETTINGS, new_schema_url
from tests.storage.shared.sequencer.backends import (
    LEASE_MS,
    Place,
    PostgresBackend,
    broker,
    claim_all,
    part,
    refs,
)
from tests.storage.shared.sequencer.breaking_proxy import BreakingProxy
from tests.waiting import in_time

from ottla.ports import StorageError
from ottla.storage.shared.errors import SequencerUnavailableError
from ottla.storage.shared.sequencer.postgres.connections import Database
from ottla.storage.shared.sequencer.postgres.database_url import DatabaseUrl, parse_database_url
from ottla.storage.shared.sequencer.postgres.postgres_sequencer import (
    PostgresSequencer,
    open_postgres_sequencer,
)
from ottla.storage.shared.sequencer.postgres.schema import init
from ottla.storage.shared.sequencer.records import AppendOutcome, NotClaimed, PartitionEnd


async def through(proxy: BreakingProxy, backend: PostgresBackend) -> PostgresSequencer:
    url = parse_database_url(f"{proxy.url}?schema={backend.url.schema}")
    return await open_postgres_sequencer(url, LEASE_MS)


def test_an_append_whose_answer_was_lost_is_already(postgres: Place, shared_postgres: str) -> None:
    async def story(backend: PostgresBackend) -> None:
        async with BreakingProxy(shared_postgres) as proxy:
            sequencer = await through(proxy, backend)
            session = (await sequencer.register(broker("a"))).session
            claimed = await claim_all(sequencer, session, refs(3))
            await sequencer.append(session, uuid.uuid4(), [], [part(each, 0) for each in claimed])
            flush, parts = uuid.uuid4(), [part(each, 1) for each in claimed]
            proxy.loses_answers = True
            with pytest.raises(SequencerUnavailableError) as lost:
                await sequencer.append(session, flush, [], parts)
            assert "\n" not in str(lost.value)
            proxy.loses_answers = False
            # Meanwhile another broker takes one of them over.
            other = await backend.connect()
            b = (await other.register(broker("b"))).session
            await backend.run("UPDATE @.partitions SET session = NULL WHERE number = 2")
            [taken] = await claim_all(other, b, refs(3)[2:])
            assert taken.end_offset == 2
            answers = await sequencer.append(session, flush, [], parts)
            assert list(answers) == [AppendOutcome.ALREADY] * 3
            await sequencer.close()

    postgres.play(story)


@pytest.mark.parametrize("is_pooled", [False, True])
def test_a_heartbeat_without_an_answer_fails_within_the_lease(
    postgres: Place, shared_postgres: str, is_pooled: bool
) -> None:
    async def story(backend: PostgresBackend) -> None:
        async with BreakingProxy(shared_postgres) as proxy:
            url = parse_database_url(f"{proxy.url}?schema={backend.url.schema}")
            sequencer = await open_postgres_sequencer(url, 900)
            sequencer._database._is_pooled = is_pooled
            session = (await sequencer.register(broker("a"))).session
            await sequencer.heartbeat(session, 0, 0)
            proxy.delivers.clear()
            began = time.monotonic()
            with pytest.raises(SequencerUnavailableError, match="no answer in time"):
                await sequencer.heartbeat(session, 0, 0)
            assert time.monotonic() - began < 5
            # A new connection leads to the server again.
            proxy.delivers.set()
            await sequencer.heartbeat(session, 0, 0)
            await sequencer.close()

    postgres.play(story)


def test_reads_are_repeated_on_a_new_connection(postgres: Place, shared_postgres: str) -> None:
    async def story(backend: PostgresBackend) -> None:
        async with BreakingProxy(shared_postgres) as proxy:
            sequencer = await through(proxy, backend)
            for _ in range(3):
                assert (await sequencer.load_catalog()).revision == 0
                await backend.run(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE pid <> pg_backend_pid() AND application_name = ''"
                    " AND backend_type = 'client backend' AND strpos(query, $1) > 0",
                    backend.url.schema,
                )
            await sequencer.close()

    postgres.play(story)


def test_notifications_go_on_after_the_connection_was_lost(
    postgres: Place, shared_postgres: str
) -> None:
    async def story(backend: PostgresBackend) -> None:
        direct = await backend.connect()
        session = (await direct.register(broker("a"))).session
        async with BreakingProxy(shared_postgres) as proxy:
            sequencer = await through(proxy, backend)
            news = sequencer.notifications()
            assert await anext(news) == "lost"
            proxy.break_connections()
            assert await anext(news) == "lost"
            await direct.commit_catalog(session, uuid.uuid4(), {"x": 1}, 0)
            assert await anext(news) == "catalog"
            await news.aclose()  # type: ignore[attr-defined]
            await sequencer.close()

    postgres.play(story)


def test_behind_a_pooler_changes_are_found_by_asking(
    postgres: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ottla.storage.shared.sequencer.postgres.postgres_sequencer.POLL_SECONDS", 0.01
    )

    async def story(backend: PostgresBackend) -> None:
        sequencer = await backend.connect()
        sequencer._database._is_pooled = True
        session = (await sequencer.register(broker("a"))).session
        news = sequencer.notifications()
        assert await anext(news) == "lost"
        await sequencer.commit_catalog(session, uuid.uuid4(), {"x": 1}, 0)
        assert await anext(news) == "catalog"
        await news.aclose()  # type: ignore[attr-defined]

    postgres.play(story)


def test_a_server_without_fsync_is_refused() -> None:
    with started_server(find_newest_binaries(), {"fsync": "off"}) as server:

        async def story() -> None:
            with pytest.raises(StorageError, match="fsync=off") as refused:
                await init(parse_database_url(server.url))
            assert not isinstance(refused.value, SequencerUnavailableError)

        asyncio.run(story())


def test_calls_go_on_when_the_server_is_back() -> None:
    async def story(server: StartedServer) -> None:
        url = parse_database_url(f"{server.url}?schema=restarted")
        await init(url)
        sequencer = await open_postgres_sequencer(url, LEASE_MS)
        session = (await sequencer.register(broker("a"))).session
        [claimed] = await claim_all(sequencer, session, refs(1))
        await sequencer.append(session, uuid.uuid4(), [], [part(claimed, 0)])
        server.crash()
        with pytest.raises(SequencerUnavailableError):
            await sequencer.append(session, uuid.uuid4(), [], [part(claimed, 1)])
        with pytest.raises(SequencerUnavailableError) as down:
            await sequencer.load_catalog()
        assert "\n" not in str(down.value)
        server.start()
        deadline = time.monotonic() + 30
        while not await is_renewed(sequencer, session):
            in_time(deadline, "the sequencer does not come back")
        ends = await sequencer.ends([claimed.partition_id])
        assert ends == {claimed.partition_id: PartitionEnd(1, 1)}
        outcomes = await sequencer.append(session, uuid.uuid4(), [], [part(claimed, 1)])
        assert list(outcomes) == [AppendOutcome.OK]
        # The lease of another broker would have ended while the server was down; it has the time to renew it.
        b = (await sequencer.register(broker("b"))).session
        await sequencer.heartbeat(b, 0, 0)
        await expire(url, session)
        assert list(await sequencer.claim(b, refs(1), 0)) == [NotClaimed.HELD]
        await sequencer.close()

    with started_server(find_newest_binaries(), SETTINGS) as server:
        asyncio.run(story(server))


async def is_renewed(sequencer: PostgresSequencer, session: uuid.UUID) -> bool:
    try:
        await sequencer.heartbeat(session, 0, 0)
    except SequencerUnavailableError:
        return False
    return True


async def expire(url: DatabaseUrl, session: uuid.UUID) -> None:
    owner = await asyncpg.connect(url.dsn)
    await owner.execute(
        f"UPDATE {url.quoted_schema}.brokers SET expires_at = clock_timestamp() WHERE session = $1",
        session,
    )
    await owner.close()


def test_several_hosts_are_tried(shared_postgres: str) -> None:
    async def story() -> None:
        port = urlsplit(shared_postgres).port
        text = new_schema_url(f"postgresql://ottla@127.0.0.1:1,127.0.0.1:{port}/postgres")
        await init(parse_database_url(text))
        sequencer = await open_postgres_sequencer(parse_database_url(text))
        await sequencer.close()

    asyncio.run(story())


def test_a_socket_folder_is_a_host(shared_postgres: str) -> None:
    async def story() -> None:
        connection = await asyncpg.connect(shared_postgres)
        folder = await connection.fetchval("SHOW unix_socket_directories")
        await connection.close()
        port = urlsplit(shared_postgres).port
        found = await Database(
            parse_database_url(f"postgresql:///postgres?user=ottla&host={folder}&port={port}")
        ).connect()
        await found.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("change", "said", "is_transient"),
    [
        ("127.0.0.1:1/postgres", "cannot connect", True),
        ("{host}/nothing", 'database "nothing" does not exist', False),
        (
            "{host}/postgres?sslmode=verify-full&sslrootcert=/nothing",
            "sslrootcert: there is no file /nothing",
            False,
        ),
        ("{host}/postgres?sslmode=require", "cannot connect", True),
        ("{host}/postgres?target_session_attrs=standby", "cannot connect", True),
    ],
)
def test_what_is_wrong_with_a_connection_is_one_line(
    shared_postgres: str, change: str, said: str, is_transient: bool
) -> None:
    host = urlsplit(shared_postgres).netloc.rpartition("@")[2]
    url = parse_database_url("postgresql://ottla:geheim@" + change.format(host=host))

    async def story() -> None:
        with pytest.raises(StorageError) as refused:
            await Database(url).connect()
        text = str(refused.value)
        assert said in text
        assert "ottla:***@" in text
        assert "geheim" not in text
        assert "\n" not in text
        assert isinstance(refused.value, SequencerUnavailableError) == is_transient

    asyncio.run(story())


def test_a_standby_is_not_asked(shared_postgres: str) -> None:
    """A server that takes no writes is passed over, even if it is the only one."""

    async def story() -> None:
        owner = await asyncpg.connect(shared_postgres)
        await owner.execute("DROP ROLE IF EXISTS reader")
        await owner.execute("CREATE ROLE reader LOGIN")
        await owner.execute("ALTER ROLE reader SET default_transaction_read_only = on")
        await owner.close()
        url = parse_database_url(shared_postgres.replace("ottla@", "reader@"))
        with pytest.raises(SequencerUnavailableError):
            await Database(url).connect()

    asyncio.run(story())


def test_failed_connections_are_tried_less_and_less() -> None:
    async def story() -> None:
        database = Database(parse_database_url("postgresql://ottla@127.0.0.1:1/x"))
        began = time.monotonic()
        for _ in range(5):
            with pytest.raises(SequencerUnavailableError):
                await database.connect()
        assert time.monotonic() - began > (0.1 + 0.2 + 0.4 + 0.8) / 2

    asyncio.run(story())
