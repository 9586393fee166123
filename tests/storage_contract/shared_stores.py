"""Shared stores for the tests of the contract."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from dataclasses import replace
from typing import cast

import asyncpg
from tests.storage.batches import SteppingClock
from tests.storage.shared.postgres_server import new_schema_url
from tests.storage.shared.sequencer.backends import PostgresBackend
from tests.storage_contract.settled_store import LoopThread, SettledStore

from ottla.ports import LogStore
from ottla.storage.shared.objects.memory import MemoryObjects
from ottla.storage.shared.objects.postgres_chunks import PostgresChunks
from ottla.storage.shared.objects.s3 import S3Objects
from ottla.storage.shared.open_store import open_shared_store
from ottla.storage.shared.options import SharedOptions
from ottla.storage.shared.sequencer.memory import MemorySequencer, MemorySequencerState
from ottla.storage.shared.sequencer.postgres.database_url import parse_database_url
from ottla.storage.shared.sequencer.records import BrokerDescription
from ottla.storage.shared.store import SharedStore

BROKER = BrokerDescription("one", None, {}, {}, "", None)
# Nothing waits for company: each call of these tests is settled before the next.
OPTIONS = SharedOptions(inline_linger_seconds=0.0, objects_linger_seconds=0.0)


# Everything goes through objects, and most of it is read from them.
THROUGH_OBJECTS = replace(OPTIONS, inline_flush_bytes=0, tail_cache_bytes=20_000)
_prefixes = itertools.count()


def shared_in_s3(url: str, clock: SteppingClock) -> LogStore:
    """A store on a sequencer in this process, and objects below an own prefix in S3."""
    state = MemorySequencerState(clock=clock, cluster_id="A" * 22)
    bucket, mark, parameters = url.partition("?")
    prefix = f"{bucket}/{next(_prefixes)}"

    async def open_store() -> SharedStore:
        objects = S3Objects.of_url(f"{prefix}{mark}{parameters}", {})
        return await open_shared_store(
            MemorySequencer(state), objects, BROKER, clock, options=THROUGH_OBJECTS
        )

    return cast(LogStore, SettledStore(open_store))


def shared_in_memory(clock: SteppingClock, options: SharedOptions = OPTIONS) -> LogStore:
    """A store on a sequencer and objects in this process."""
    state = MemorySequencerState(clock=clock, cluster_id="A" * 22)
    sequencer, objects = MemorySequencer(state), MemoryObjects()
    return cast(
        LogStore,
        SettledStore(lambda: open_shared_store(sequencer, objects, BROKER, clock, options=options)),
    )


def shared_in_postgres(server: str, clock: SteppingClock, opened: ExitStack) -> LogStore:
    """A store on a schema of its own in PostgreSQL, and nothing else."""
    backend = PostgresBackend(parse_database_url(new_schema_url(server)))

    async def open_store() -> SharedStore:
        await backend.prepare()
        sequencer = await backend.connect()
        objects = PostgresChunks(lambda: asyncpg.connect(backend.url.dsn), backend.url.schema)
        return await open_shared_store(sequencer, objects, BROKER, clock, options=OPTIONS)

    thread = LoopThread()
    opened.callback(thread.stop)
    opened.callback(thread.run, backend.close)
    return cast(LogStore, SettledStore(open_store, thread))
