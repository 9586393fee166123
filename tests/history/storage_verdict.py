"""Whether the storage of a run is in order when all brokers have stopped: what is in it, and what collection leaves."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from ottla.storage.shared.cluster_storage import open_objects
from ottla.storage.shared.collection import collect_garbage
from ottla.storage.shared.objects.objects import Objects
from ottla.storage.shared.sequencer.postgres.connections import Database
from ottla.storage.shared.sequencer.postgres.database_url import parse_database_url
from ottla.storage.shared.sequencer.postgres.postgres_sequencer import (
    PostgresSequencer,
    open_postgres_sequencer,
)
from ottla.storage.shared.sequencer.records import BrokerDescription
from ottla.storage.shared.storage_check import CheckedObject, StorageCheck
from ottla.storage.shared.storage_urls import StorageUrls

# Longer than anything is kept that nothing refers to: two days for late puts of brokers that were away.
LATER: Final = "3 days"
PASSES: Final = 6
_TIMES: Final = {
    "brokers": ["expires_at", "steady_since"],
    "ended_sessions": ["ended_at"],
    "tasks": ["until"],
    "objects": ["since"],
}


async def check_storage(urls: StorageUrls) -> Counter[str]:
    """Counts of what is stored; an AssertionError if the check of the storage finds anything wrong.

    Then time passes for the database, everything that is garbage is collected, and all that is left must be in use.
    """
    url = parse_database_url(urls.storage)
    sequencer = await open_postgres_sequencer(url)
    objects = open_objects(urls)
    owner = await Database(url).connect()
    try:
        schema = url.quoted_schema
        rows = await owner.fetchval(
            f"SELECT count(*) FROM {schema}.tail t JOIN {schema}.partitions p ON p.id = t.partition_id"
            " WHERE t.end_offset > p.tail_start"
        )
        counts = Counter({"tail rows": rows})
        counts["segments"] = await owner.fetchval(f"SELECT count(*) FROM {schema}.segments")
        found = await _differences(sequencer, objects)
        counts["objects before collection"] = await _listed(objects)
        await _collect_all(owner, schema, sequencer, objects)
        found += await _differences(sequencer, objects)
        live = await owner.fetchval(f"SELECT count(*) FROM {schema}.objects WHERE state = 'live'")
        counts["objects after collection"] = left = await _listed(objects)
        assert not found, found[:10]
        assert left == live, f"{left} objects are stored after collection, {live} are in use"
        return counts
    finally:
        await owner.close()
        await objects.close()
        await sequencer.close()


async def _listed(objects: Objects) -> int:
    """How many objects there are, but for the one that names the cluster."""
    return len([each async for each in objects.list("")]) - 1


async def _differences(sequencer: PostgresSequencer, objects: Objects) -> list[CheckedObject]:
    check = StorageCheck(sequencer, objects, sequencer.cluster_id)
    found = [each async for each in check.compare()]
    return found + [each async for each in check.verify()]


async def _collect_all(
    owner: Any, schema: str, sequencer: PostgresSequencer, objects: Objects
) -> None:
    """Collects until nothing is left to be, as days would do it."""
    for number in range(PASSES):
        for table, columns in _TIMES.items():
            changes = ", ".join(f"{each} = {each} - interval '{LATER}'" for each in columns)
            await owner.execute(f"UPDATE {schema}.{table} SET {changes}")
        collector = BrokerDescription(f"collector {number}", None, {}, {}, "", None)
        session = (await sequencer.register(collector)).session
        await collect_garbage(sequencer, objects, session)
        await sequencer.end_session(session)
