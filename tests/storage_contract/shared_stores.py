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
from tests.storage_contract.settled_store import LoopThread, SettledLog, SettledStore

from ottla.ports import LogStore, PartitionLog
from ottla.storage.shared.log.consolidation import consolidate
from ottla.storage.shared.log.partition_log import SharedLog
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


class SharedPlaces:
    """A sequencer and objects in this process, on which stores are opened one after the other."""

    def __init__(self, clock: SteppingClock) -> None:
        self._clock = clock
        self._state = MemorySequencerState(clock=clock, cluster_id="A" * 22)
        self._objects = MemoryObjects()

    def open(self) -> LogStore:
        sequencer = MemorySequencer(self._state)
        return cast(
            LogStore,
            SettledStore(
                lambda: open_shared_store(
                    sequencer, self._objects, BROKER, self._clock, options=OPTIONS
                )
            ),
        )


def shared_in_memory(clock: SteppingClock) -> LogStore:
    """A store on a sequencer and objects in this process."""
    return SharedPlaces(clock).open()


def rewrite_tail(log: PartitionLog) -> None:
    """Makes segments of all rows of a log."""
    assert isinstance(log, SettledLog)

    async def rewrite(inner: SharedLog) -> None:
        async with inner.replacing:
            assert await consolidate(inner, inner._parts, inner.settled_offset)

    log.in_one_turn(lambda inner: rewrite(cast(SharedLog, inner)))


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
