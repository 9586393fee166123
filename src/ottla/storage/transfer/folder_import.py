"""Copies a local data folder into an empty shared storage: same offsets, leader epochs, snapshots and catalog.

The batches go the way of a broker's appends. What an append does not carry over (where a log begins, its leader epochs,
the catalog) is written by the owner of the tables, the last of it in the transaction that ends the import. Until then
the table `import_progress` keeps brokers away, and another run goes on where this one stopped.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import asyncpg

from ottla.config.topic import TopicConfig
from ottla.core.catalog import Catalog
from ottla.ports import (
    ClaimPendingError,
    Clock,
    DamagedError,
    Extent,
    JsonValue,
    PartitionLog,
    PartitionRef,
    StorageError,
)
from ottla.ports.errors import InUseError
from ottla.ports.futures import when_read
from ottla.records.batch import crc_matches, read_header, split_batches
from ottla.storage.local.folder import layout
from ottla.storage.local.store import LocalStore, open_local_store
from ottla.storage.shared.cluster_storage import check_objects, open_objects
from ottla.storage.shared.objects.objects import Objects
from ottla.storage.shared.open_store import open_shared_store
from ottla.storage.shared.options import SharedOptions
from ottla.storage.shared.sequencer.limits import DEFAULT_LEASE_MS
from ottla.storage.shared.sequencer.postgres.connections import Database
from ottla.storage.shared.sequencer.postgres.database_url import DatabaseUrl, parse_database_url
from ottla.storage.shared.sequencer.postgres.postgres_sequencer import PostgresSequencer
from ottla.storage.shared.sequencer.postgres.schema import check_schema_version
from ottla.storage.shared.sequencer.records import BrokerDescription
from ottla.storage.shared.storage_urls import StorageUrls
from ottla.storage.shared.store import SharedStore

IMPORTER: Final = "ottla storage import"
_PARALLEL: Final = 4
_READ_BYTES: Final = 1 << 20
_UNSETTLED_BYTES: Final = 16 << 20  # of one partition
_TICK_SECONDS: Final = 1.0
_LEASE_SECONDS: Final = 10.0  # of a run that was killed, and time for a busy machine
# Large objects, since nobody waits for one append.
_OPTIONS: Final = SharedOptions(objects_flush_bytes=16 << 20, objects_linger_seconds=0.2)


@dataclass
class ImportCounts:
    """What was imported; partitions that an earlier run had imported are among them, their bytes are not."""

    topics: int = 0
    partitions: int = 0
    partitions_done: int = 0
    bytes_copied: int = 0


class _Source:
    """A claimed log of the folder, and what is known of it before anything is copied."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.segment_starts = [segment.base_offset for segment in log.segments()]
        self.base_offset = log.start_offset
        first = log.scan(log.start_offset, 0, log.end_offset)
        if first:
            # Records were perhaps deleted up to the middle of a batch, which is copied whole.
            self.base_offset = min(log.start_offset, read_header(first, 0).base_offset)


async def import_folder(
    folder: str, urls: StorageUrls, clock: Clock, counts: ImportCounts
) -> ImportCounts:
    """Imports a folder that no broker uses; a StorageError of one line says why not."""
    if not os.path.exists(os.path.join(folder, layout.META_PROPERTIES_FILE)):
        raise StorageError(
            f"{folder} is no data folder: it has no {layout.META_PROPERTIES_FILE}; nothing was changed"
        )
    url = parse_database_url(urls.storage)
    owner = await Database(url).connect()
    try:
        return await _Import(url, urls, owner, clock, counts).run(folder)
    except (asyncpg.PostgresError, OSError, asyncpg.InterfaceError) as error:
        raise Database(url).error_of(error, "the import stopped") from error
    finally:
        await owner.close()


class _Import:
    def __init__(
        self,
        url: DatabaseUrl,
        urls: StorageUrls,
        owner: Any,
        clock: Clock,
        counts: ImportCounts,
    ) -> None:
        self._url = url
        self._urls = urls
        self._owner = owner
        self._clock = clock
        self._counts = counts

    def _sql(self, text: str) -> str:
        return text.replace("@.", f"{self._url.quoted_schema}.")

    async def run(self, folder: str) -> ImportCounts:
        state = await check_schema_version(self._owner, self._url)
        objects = open_objects(self._urls)
        try:
            await check_objects(self._urls, objects, state.cluster_id)
        finally:
            await objects.close()
        await self._check_before_opening()
        source = open_local_store(folder, clock=self._clock)
        try:
            await self._begin(source.cluster_id)
            logs = await _claim_all(source)
            self._counts.topics = len({ref.topic for ref in logs})
            self._counts.partitions = len(logs)
            await self._make_partitions(logs)
            await self._copy_all(logs, state.cluster_id)
            await self._end(logs, source.catalog.entries())
        finally:
            source.close()
        return self._counts

    # Before.

    async def _check_before_opening(self) -> None:
        """The folder is not touched if the storage cannot take it."""
        if await self._source_cluster() is None:
            await self._check_empty()
        await self._check_no_brokers()

    async def _source_cluster(self) -> str | None:
        """The cluster of the folder whose import was begun; None if there is none."""
        if (
            await self._owner.fetchval(
                "SELECT to_regclass($1)::text", self._sql("@.import_progress")
            )
            is None
        ):
            return None
        found: str = await self._owner.fetchval(
            self._sql("SELECT source_cluster FROM @.import_progress")
        )
        return found

    async def _check_empty(self) -> None:
        is_used = await self._owner.fetchval(
            self._sql(
                "SELECT EXISTS (SELECT FROM @.catalog) OR EXISTS (SELECT FROM @.partitions)"
                " OR (SELECT revision FROM @.catalog_state) > 0"
            )
        )
        if is_used:
            raise StorageError(
                f"{self._url}: the storage is not empty, and a folder is only imported into a new one:"
                " use another schema or bucket prefix, and `ottla storage init`; nothing was changed"
            )

    async def _check_no_brokers(self) -> None:
        names = await self._owner.fetch(
            self._sql(
                "SELECT name FROM @.brokers WHERE NOT ended AND expires_at > clock_timestamp()"
                " AND name <> $1 ORDER BY name"
            ),
            IMPORTER,
        )
        if names:
            listed = ", ".join(row["name"] for row in names)
            raise StorageError(f"{self._url}: stop all brokers of the storage first: {listed}")

    async def _begin(self, source_cluster: str) -> None:
        begun = await self._source_cluster()
        if begun is not None and begun != source_cluster:
            raise StorageError(
                f"{self._url}: the import of another folder, of cluster {begun}, was begun and not finished"
            )
        if begun is None:
            async with self._owner.transaction():
                await self._owner.execute(
                    self._sql("CREATE TABLE @.import_progress (source_cluster text NOT NULL)")
                )
                await self._check_empty()
                await self._owner.execute(
                    self._sql("INSERT INTO @.import_progress VALUES ($1)"), source_cluster
                )

    async def _make_partitions(self, logs: Mapping[PartitionRef, _Source]) -> None:
        """Logs begin where those of the folder begin, so that the first append is at that offset."""
        await self._owner.executemany(
            self._sql(
                "INSERT INTO @.partitions (topic_id, topic, number, start_offset, end_offset, tail_start)"
                " VALUES ($1, $2, $3, $4, $4, $4) ON CONFLICT (topic_id, number) DO NOTHING"
            ),
            [
                (ref.topic_id, ref.topic, ref.partition, source.base_offset)
                for ref, source in logs.items()
            ],
        )

    # Copying.

    async def _copy_all(self, logs: Mapping[PartitionRef, _Source], cluster_id: str) -> None:
        sequencer = PostgresSequencer(Database(self._url), cluster_id, DEFAULT_LEASE_MS)
        description = BrokerDescription(
            name=IMPORTER, node_id=None, endpoints={}, advertised={}, peer="", rack=None
        )
        store = await _open(sequencer, open_objects(self._urls), description, self._clock)
        upkeep = asyncio.ensure_future(self._tick(store))
        try:
            turns = asyncio.Semaphore(_PARALLEL)
            async with asyncio.TaskGroup() as tasks:
                for ref, source in logs.items():
                    tasks.create_task(self._copy(store, ref, source, turns))
        except BaseExceptionGroup as errors:
            # The others were cancelled because of it.
            raise errors.exceptions[0] from None
        finally:
            upkeep.cancel()
            await store.close()

    async def _tick(self, store: SharedStore) -> None:
        while True:
            store.tick(self._clock.now_ms())
            await asyncio.sleep(_TICK_SECONDS)

    async def _copy(
        self, store: SharedStore, ref: PartitionRef, source: _Source, turns: asyncio.Semaphore
    ) -> None:
        async with turns:
            log = await _claimed(partial(store.claim, ref, TopicConfig()))
            if log.end_offset > source.log.end_offset:
                raise StorageError(
                    f"{ref.topic}-{ref.partition} was imported up to offset {log.end_offset}, and the folder has it"
                    f" up to {source.log.end_offset}: it is not the folder whose import was begun"
                )
            await self._copy_batches(source, log)
            for snapshot in reversed(list(source.log.snapshots())[:2]):
                saved = log.save_snapshot(snapshot)
                if saved is not None:
                    await saved
            cleaned_offset = source.log.cleaned_offset
            if cleaned_offset is not None:
                await _done(log.save_cleaned_offset(cleaned_offset))
            if log.start_offset < source.log.start_offset:
                await _done(log.trim(source.log.start_offset))
            await _done(log.close())
            self._counts.partitions_done += 1

    async def _copy_batches(self, source: _Source, log: PartitionLog) -> None:
        read_from = source.log
        spans = [
            span for span in read_from.aborted(log.end_offset) if span.last_offset >= log.end_offset
        ]
        spans.sort(key=lambda span: span.last_offset)
        starts = [start for start in source.segment_starts if start > log.end_offset]
        unsettled: list[tuple[int, asyncio.Future[None]]] = []
        while log.end_offset < read_from.end_offset:
            offset = log.end_offset
            end_offset = min(
                [start for start in starts if start > offset][:1] or [read_from.end_offset]
            )
            data = await when_read(partial(read_from.scan, offset, _READ_BYTES, end_offset))
            if not data:
                # What lay here was compacted away.
                if end_offset == read_from.end_offset:
                    break
                data = await when_read(
                    partial(read_from.scan, end_offset, _READ_BYTES, read_from.end_offset)
                )
            extents = _verified(log.ref, data)
            if any(start <= extents[0].base_offset for start in starts):
                log.roll()
                starts = [start for start in starts if start > extents[0].base_offset]
            settled = log.append(data, extents, offset)
            while spans and spans[0].last_offset < log.end_offset:
                log.note_aborted(spans.pop(0))
            self._counts.bytes_copied += len(data)
            if settled is not None:
                unsettled.append((len(data), settled))
            while sum(size for size, _ in unsettled) > _UNSETTLED_BYTES:
                await unsettled.pop(0)[1]
        for _, settled in unsettled:
            await settled

    # After.

    async def _end(
        self, logs: Mapping[PartitionRef, _Source], entries: Mapping[str, JsonValue]
    ) -> None:
        """Leader epochs and the catalog, and with them the end of the import, in one transaction."""
        async with self._owner.transaction():
            await self._owner.execute(self._sql("LOCK TABLE @.catalog_state, @.brokers"))
            await self._check_no_brokers()
            for ref, source in logs.items():
                await self._write_epochs(ref, source.log)
            await self._owner.executemany(
                self._sql("INSERT INTO @.catalog (key, value) VALUES ($1, $2)"),
                [(key, json.dumps(value)) for key, value in entries.items()],
            )
            # Whoever has seen an earlier revision loads the catalog anew.
            await self._owner.execute(
                self._sql(
                    "UPDATE @.catalog_state SET revision = revision + 1, forgotten = revision + 1"
                )
            )
            await self._owner.execute(self._sql("DELETE FROM @.brokers WHERE name = $1"), IMPORTER)
            await self._owner.execute(
                self._sql("UPDATE @.node_ids SET next = 1 WHERE NOT EXISTS (SELECT FROM @.brokers)")
            )
            await self._owner.execute(self._sql("DROP TABLE @.import_progress"))

    async def _write_epochs(self, ref: PartitionRef, log: PartitionLog) -> None:
        row = await self._owner.fetchrow(
            self._sql(
                "SELECT id, start_offset, end_offset FROM @.partitions WHERE topic_id = $1 AND number = $2"
            ),
            ref.topic_id,
            ref.partition,
        )
        found = (row["start_offset"], row["end_offset"])
        if found != (log.start_offset, log.end_offset):
            raise StorageError(
                f"{ref.topic}-{ref.partition} has offsets {found[0]} to {found[1]} in the storage, and"
                f" {log.start_offset} to {log.end_offset} in the folder: import it into a new storage"
            )
        epochs = log.epochs
        await self._owner.execute(
            self._sql("DELETE FROM @.epochs WHERE partition_id = $1"), row["id"]
        )
        await self._owner.executemany(
            self._sql("INSERT INTO @.epochs VALUES ($1, $2, $3)"),
            [(row["id"], entry.epoch, entry.start_offset) for entry in epochs],
        )
        # The next claim's epoch is above all that clients have seen.
        await self._owner.execute(
            self._sql(
                "UPDATE @.partitions SET epoch = greatest(epoch, $2), last_epoch = $3 WHERE id = $1"
            ),
            row["id"],
            log.epoch,
            epochs[-1].epoch if epochs else -1,
        )


async def _open(
    sequencer: PostgresSequencer, objects: Objects, description: BrokerDescription, clock: Clock
) -> SharedStore:
    """Waits for the lease of a run that was killed just before."""
    deadline = clock.monotonic_seconds() + _LEASE_SECONDS
    while True:
        try:
            return await open_shared_store(sequencer, objects, description, clock, options=_OPTIONS)
        except InUseError:
            if clock.monotonic_seconds() > deadline:
                raise
        await asyncio.sleep(0.2)


async def _claim_all(store: LocalStore) -> dict[PartitionRef, _Source]:
    """The logs of the topics that the catalog has; what is left of deleted ones is not imported."""
    topics = Catalog(store.catalog.entries()).topics_by_id
    offline = store.offline()
    logs: dict[PartitionRef, _Source] = {}
    for ref in sorted(store.partitions()):
        if ref.topic_id not in topics:
            continue
        if ref in offline:
            raise offline[ref]
        logs[ref] = _Source(await _claimed(partial(store.claim, ref, TopicConfig())))
    return logs


async def _claimed(claim: Callable[[], PartitionLog]) -> PartitionLog:
    while True:
        try:
            return claim()
        except ClaimPendingError as pending:
            done = pending.done
        await asyncio.wait([done])


async def _done(outcome: asyncio.Future[None] | None) -> None:
    if outcome is not None:
        await outcome


def _verified(ref: PartitionRef, data: Any) -> list[Extent]:
    """The extents of batches whose checksums are right."""
    extents = []
    for position, header in split_batches(data):
        if not crc_matches(data, position, header):
            raise DamagedError(
                f"{ref.topic}-{ref.partition}: the batch at offset {header.base_offset} of the folder has a wrong"
                " checksum; `ottla log dump` shows its segment"
            )
        extents.append(
            Extent(header.base_offset, header.last_offset, header.max_timestamp, header.size_bytes)
        )
    return extents
