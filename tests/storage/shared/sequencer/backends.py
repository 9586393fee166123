"""The sequencers under test: the fake, and the one in PostgreSQL."""

from __future__ import annotations

import asyncio
import functools
import random
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol

import asyncpg
from tests.storage.batches import SteppingClock
from tests.storage.shared.postgres_server import new_schema_url

from ottla.ports import PartitionRef
from ottla.storage.shared.sequencer.memory import MemorySequencer, MemorySequencerState
from ottla.storage.shared.sequencer.postgres.database_url import DatabaseUrl, parse_database_url
from ottla.storage.shared.sequencer.postgres.postgres_sequencer import (
    PostgresSequencer,
    open_postgres_sequencer,
)
from ottla.storage.shared.sequencer.postgres.schema import init
from ottla.storage.shared.sequencer.records import (
    BrokerDescription,
    Claimed,
    PartAppend,
    SegmentWrite,
)
from ottla.storage.shared.sequencer.sequencer import Sequencer

LEASE_MS = 60_000  # long enough for a busy machine; tests move the time
GRACE_MS = 600_000
TOPIC = uuid.UUID(int=7)

P = ParamSpec("P")


class Backend(Protocol):
    """A cluster's sequencer."""

    async def connect(self) -> Sequencer:
        """Another broker's way to it; closed at the end of the test."""
        ...

    async def advance(self, duration_ms: int) -> None:
        """Lets time pass, for leases and waits."""
        ...

    async def close(self) -> None: ...


class MemoryBackend:
    def __init__(self) -> None:
        self.clock = SteppingClock()
        self.state = MemorySequencerState(clock=self.clock, ids=random.Random(1))

    async def connect(self) -> Sequencer:
        return MemorySequencer(self.state, lease_ms=LEASE_MS)

    async def advance(self, duration_ms: int) -> None:
        self.clock.value_ms += duration_ms

    async def close(self) -> None:
        """Nothing is open."""


# What has a time in it; moving it back is as good as moving the clock.
_TIMES = {
    "brokers": ["expires_at", "steady_since"],
    "ended_sessions": ["ended_at"],
    "tasks": ["until"],
    "partition_deletions": ["deleted_at"],
    "objects": ["since"],
    "cluster": ["tail_turned_at", "tail_next_moved_at"],
}


# To empty the tables takes a tenth of the time that it takes to make them, and TRUNCATE would take longer.
_RESET = """
DO $$ DECLARE each text; BEGIN
    FOR each IN SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
        WHERE schemaname = '@' AND tablename <> 'schema_version' LOOP
        EXECUTE 'DELETE FROM ' || each;
    END LOOP;
    FOR each IN SELECT format('%I.%I', schemaname, sequencename) FROM pg_sequences WHERE schemaname = '@' LOOP
        PERFORM setval(each::regclass, 1, false);
    END LOOP;
END $$;
INSERT INTO "@".cluster (id) VALUES ('cluster-of-these-tests');
INSERT INTO "@".node_ids (next) VALUES (1);
INSERT INTO "@".catalog_state (revision, forgotten) VALUES (0, 0);
INSERT INTO "@".holders_state (revision, forgotten) VALUES (0, 0);
"""


class PostgresBackend:
    def __init__(self, url: DatabaseUrl) -> None:
        self.url = url
        self._opened: list[PostgresSequencer] = []
        self._owner: Any = None

    async def reset(self) -> None:
        """Empties the schema."""
        connection = await self.owner()
        await connection.execute(_RESET.replace("@", self.url.schema))

    async def prepare(self) -> None:
        await init(self.url, "cluster-of-these-tests")
        # The server of the tests has just started, after which nobody may judge others for a while.
        await self.run(
            "CREATE OR REPLACE FUNCTION @.server_started_at() RETURNS timestamptz LANGUAGE sql"
            " AS $$ SELECT '-infinity'::timestamptz $$"
        )

    async def connect(self) -> PostgresSequencer:
        made = await open_postgres_sequencer(self.url, LEASE_MS)
        self._opened.append(made)
        return made

    async def owner(self) -> Any:
        """A connection of a person who may do everything."""
        if self._owner is None:
            self._owner = await asyncpg.connect(self.url.dsn)
        return self._owner

    async def run(self, sql: str, *arguments: object) -> Sequence[Any]:
        connection = await self.owner()
        text = sql.replace("@.", f"{self.url.quoted_schema}.")
        rows: Sequence[Any] = await connection.fetch(text, *arguments)
        return rows

    async def advance(self, duration_ms: int) -> None:
        for table, columns in _TIMES.items():
            changes = ", ".join(f"{each} = {each} - $1 * interval '1 ms'" for each in columns)
            await self.run(f"UPDATE @.{table} SET {changes}", duration_ms)

    async def close(self) -> None:
        for each in self._opened:
            await each.close()
        if self._owner is not None:
            await self._owner.close()


class Place:
    """Where the story of a test is played."""

    def __init__(self, make: Callable[[], Awaitable[Any]]) -> None:
        self._make = make

    def play(self, story: Callable[[Any], Awaitable[None]]) -> None:
        async def whole() -> None:
            backend = await self._make()
            try:
                await story(backend)
            finally:
                await backend.close()

        asyncio.run(whole())


def memory_place() -> Place:
    async def make() -> MemoryBackend:
        return MemoryBackend()

    return Place(make)


# The schema that the tests of this process share, by server; each finds it empty.
_prepared: dict[str, DatabaseUrl] = {}


def postgres_place(server: str) -> Place:
    async def make() -> PostgresBackend:
        if server in _prepared:
            backend = PostgresBackend(_prepared[server])
            await backend.reset()
            return backend
        url = parse_database_url(new_schema_url(server))
        backend = PostgresBackend(url)
        await backend.prepare()
        _prepared[server] = url
        return backend

    return Place(make)


def new_schema_place(server: str) -> Place:
    """With a schema of its own, for a test that changes it."""

    async def make() -> PostgresBackend:
        backend = PostgresBackend(parse_database_url(new_schema_url(server)))
        await backend.prepare()
        return backend

    return Place(make)


def story(body: Callable[Concatenate[Any, P], Awaitable[None]]) -> Callable[..., None]:
    """A test that is a coroutine; its first argument is the backend, and the fixture's name that of the place."""

    @functools.wraps(body)
    def test(place: Place, *args: P.args, **kwargs: P.kwargs) -> None:
        place.play(lambda backend: body(backend, *args, **kwargs))

    return test


# What tests send.


def broker(name: str, node_id: int | None = None) -> BrokerDescription:
    endpoints = {"PLAINTEXT": f"{name}:9092"}
    return BrokerDescription(name, node_id, endpoints, endpoints, f"{name}:9094", None)


def refs(count: int, topic: str = "orders", topic_id: uuid.UUID = TOPIC) -> list[PartitionRef]:
    return [PartitionRef(topic, number, topic_id) for number in range(count)]


async def claim_all(
    sequencer: Sequencer,
    session: uuid.UUID,
    wanted: Sequence[PartitionRef],
    catalog_revision: int = 0,
) -> list[Claimed]:
    claimed: list[Claimed] = []
    for each in await sequencer.claim(session, wanted, catalog_revision):
        assert isinstance(each, Claimed), each
        claimed.append(each)
    return claimed


def part(
    claimed: Claimed,
    base_offset: int,
    records: int = 1,
    *,
    object_id: int | None = None,
    size_bytes: int = 100,
    timestamp_ms: int = 1000,
) -> PartAppend:
    data = bytes([base_offset % 256]) * size_bytes if object_id is None else None
    return PartAppend(
        partition_id=claimed.partition_id,
        epoch=claimed.epoch,
        base_offset=base_offset,
        end_offset=base_offset + records,
        object_id=object_id,
        position=0,
        size_bytes=size_bytes,
        max_timestamp_ms=timestamp_ms,
        headers=b"headers of %d" % base_offset,
        aborted=b"",
        data=data,
    )


def segment(
    base_offset: int, end_offset: int, *, object_id: int | None = None, size_bytes: int = 100
) -> SegmentWrite:
    return SegmentWrite(
        base_offset=base_offset,
        end_offset=end_offset,
        object_id=object_id,
        position=0,
        size_bytes=size_bytes,
        max_timestamp_ms=1000,
        marks=b"marks of %d" % base_offset,
        aborted=b"",
        data=b"s" * size_bytes if object_id is None else None,
    )
