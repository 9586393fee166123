"""Shared stores for the tests of the contract."""

from __future__ import annotations

from contextlib import ExitStack
from typing import cast

from tests.storage.batches import SteppingClock
from tests.storage.shared.postgres_server import new_schema_url
from tests.storage.shared.sequencer.backends import PostgresBackend
from tests.storage_contract.settled_store import LoopThread, SettledStore

from ottla.ports import LogStore
from ottla.storage.shared.objects.memory import MemoryObjects
from ottla.storage.shared.open_store import open_shared_store
from ottla.storage.shared.options import SharedOptions
from ottla.storage.shared.sequencer.memory import MemorySequencer, MemorySequencerState
from ottla.storage.shared.sequencer.postgres.database_url import parse_database_url
from ottla.storage.shared.sequencer.records import BrokerDescription
from ottla.storage.shared.store import SharedStore

BROKER = BrokerDescription("one", None, {}, {}, "", None)
# Nothing waits for company: each call of these tests is settled before the next.
OPTIONS = SharedOptions(inline_linger_seconds=0.0, objects_linger_seconds=0.0)


def shared_in_memory(clock: SteppingClock, options: SharedOptions = OPTIONS) -> LogStore:
    """A store on a sequencer and objects in this process."""
    state = MemorySequencerState(clock=clock, cluster_id="A" * 22)
    sequencer, objects = MemorySequencer(state), MemoryObjects()
    return cast(
        LogStore,
        SettledStore(lambda: open_shared_store(sequencer, objects, BROKER, clock, options=options)),
    )


def shared_in_postgres(server: str, clock: SteppingClock, opened: ExitStack) -> LogStore:
    """A store on a schema of its own in PostgreSQL, and objects in this process."""
    backend = PostgresBackend(parse_database_url(new_schema_url(server)))

    async def open_store() -> SharedStore:
        await backend.prepare()
        sequencer = await backend.connect()
        return await open_shared_store(sequencer, MemoryObjects(), BROKER, clock, options=OPTIONS)

    thread = LoopThread()
    opened.callback(thread.stop)
    opened.callback(thread.run, backend.close)
    return cast(LogStore, SettledStore(open_store, thread))
