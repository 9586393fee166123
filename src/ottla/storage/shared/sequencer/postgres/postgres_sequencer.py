"""The sequencer in PostgreSQL: one call, one round trip."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

import asyncpg

from ottla.ports import FencedError, JsonValue, PartitionRef, UnclaimedLog
from ottla.storage.shared.errors import SequencerUnavailableError
from ottla.storage.shared.sequencer.limits import (
    DEFAULT_LEASE_MS,
    check_claim,
    check_parts,
    check_replacements,
)
from ottla.storage.shared.sequencer.postgres import queries
from ottla.storage.shared.sequencer.postgres.connections import (
    LOST,
    Database,
    Lane,
    LanePool,
    listen,
)
from ottla.storage.shared.sequencer.postgres.database_url import DatabaseUrl
from ottla.storage.shared.sequencer.postgres.schema import check_schema
from ottla.storage.shared.sequencer.records import (
    AppendOutcome,
    BrokerDescription,
    CatalogChange,
    CatalogState,
    Claimed,
    Heartbeat,
    Holder,
    HolderChanges,
    NotClaimed,
    ObjectState,
    OpenedPartition,
    PartAppend,
    PartitionEnd,
    Registration,
    Replacement,
    ReservedObject,
    StoredObject,
    StoredRun,
    WrittenObject,
)

READERS: Final = 4
POLL_SECONDS: Final = 1.0
# Heartbeats that may go unanswered, one after the other, in the time of a lease.
HEARTBEATS_PER_LEASE: Final = 3

_POLLED: Final = ("catalog", "holders", "applied")

_OUTCOMES: Final = (
    AppendOutcome.OK,
    AppendOutcome.ALREADY,
    AppendOutcome.FENCED,
    AppendOutcome.MISPLACED,
)
_NOT_CLAIMED: Final = {1: NotClaimed.HELD, 2: NotClaimed.STALE}

_APPEND: Final = "SELECT @.append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)"
_REPLACE: Final = (
    "SELECT @.replace_runs($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)"
)


async def open_postgres_sequencer(
    url: DatabaseUrl, lease_ms: int = DEFAULT_LEASE_MS
) -> PostgresSequencer:
    """Connects once and compares the schema: a StorageError says in one line what is wrong."""
    database = Database(url)
    connection = await database.connect()
    try:
        state = await check_schema(connection, url)
    except (asyncpg.PostgresError, OSError, asyncpg.InterfaceError) as error:
        raise database.error_of(error, "the schema cannot be read") from error
    finally:
        await connection.close()
    return PostgresSequencer(database, state.cluster_id, lease_ms)


class PostgresSequencer:
    """Implements Sequencer. Each kind of work has a connection of its own."""

    def __init__(self, database: Database, cluster_id: str, lease_ms: int) -> None:
        self._database = database
        self._cluster_id = cluster_id
        self._lease_ms = lease_ms
        self._schema = database.url.quoted_schema
        self._inline = Lane(database)
        self._objects = Lane(database)
        self._control = Lane(database)
        self._claims = Lane(database)
        self._upkeep = Lane(database)
        self._readers = LanePool(database, READERS)
        self._texts: dict[str, str] = {}

    @property
    def cluster_id(self) -> str:
        return self._cluster_id

    def _in_schema(self, sql: str) -> str:
        text = self._texts.get(sql)
        if text is None:
            text = self._texts[sql] = sql.replace("@.", f"{self._schema}.")
        return text

    async def _call(self, lane: Lane, sql: str, *arguments: object) -> Any:
        """The only value of the only row."""
        return (await lane.fetch(self._in_schema(sql), *arguments))[0][0]

    async def _rows(self, sql: str, *arguments: object) -> Sequence[Any]:
        return await self._readers.fetch_again(self._in_schema(sql), *arguments)

    # Sessions.

    async def register(self, broker: BrokerDescription) -> Registration:
        [row] = await self._control.fetch(
            self._in_schema("SELECT * FROM @.register($1, $2, $3, $4)"),
            broker.name,
            broker.node_id,
            queries.description_text(broker),
            self._lease_ms,
        )
        return Registration(
            row["registered_id"],
            row["registered_session"],
            self._lease_ms,
            row["registered_cluster"],
        )

    async def heartbeat(
        self, session: uuid.UUID, applied_revision: int, object_count: int
    ) -> Heartbeat:
        [row] = await self._control.fetch(
            self._in_schema("SELECT * FROM @.heartbeat($1, $2, $3, $4)"),
            session,
            applied_revision,
            object_count,
            self._lease_ms,
            # So that another connection can be tried before the lease has run out.
            limit_seconds=self._lease_ms / 1000 / HEARTBEATS_PER_LEASE,
        )
        return Heartbeat(
            lease_ms=self._lease_ms,
            members=queries.members_of(row["members"]),
            catalog_revision=row["catalog_revision"],
            holders_revision=row["holders_revision"],
            objects=[ReservedObject(*each) for each in zip(row["ids"], row["keys"], strict=True)],
        )

    async def end_session(self, session: uuid.UUID) -> None:
        await self._call(self._control, "SELECT @.end_session($1)", session)

    async def remove_broker(self, node_id: int) -> bool:
        return bool(await self._call(self._control, "SELECT @.remove_broker($1)", node_id))

    async def describe_broker(self, session: uuid.UUID, broker: BrokerDescription) -> None:
        text = queries.description_text(broker)
        await self._call(self._control, "SELECT @.describe_broker($1, $2)", session, text)

    # The catalog.

    async def load_catalog(self) -> CatalogState:
        rows = await self._rows(queries.LOAD_CATALOG)
        entries = {row["key"]: json.loads(row["value"]) for row in rows if row["key"] is not None}
        return CatalogState(rows[0]["revision"], entries)

    async def catalog_changes(self, after_revision: int) -> Sequence[CatalogChange]:
        rows = await self._rows(queries.CATALOG_CHANGES, after_revision)
        if after_revision < rows[0]["forgotten"]:
            raise FencedError(
                f"the changes of the catalog after revision {after_revision} are no longer kept"
            )
        return [
            CatalogChange(row["revision"], json.loads(row["changes"]))
            for row in rows
            if row["revision"] is not None
        ]

    async def commit_catalog(
        self,
        session: uuid.UUID,
        commit: uuid.UUID,
        changes: Mapping[str, JsonValue],
        expected_revision: int,
    ) -> int:
        texts = [None if value is None else json.dumps(value) for value in changes.values()]
        revision: int = await self._call(
            self._claims,
            "SELECT @.commit_catalog($1, $2, $3, $4, $5, $6)",
            session,
            commit,
            list(changes),
            texts,
            json.dumps(dict(changes)),
            expected_revision,
        )
        return revision

    # Who holds what.

    async def holders(self, after_revision: int) -> HolderChanges:
        rows = await self._rows(queries.HOLDERS, after_revision)
        if 0 < after_revision < rows[0]["forgotten"]:
            return await self.holders(0)
        refs = [PartitionRef(row["topic"], row["number"], row["topic_id"]) for row in rows]
        return HolderChanges(
            revision=rows[0]["revision"],
            changed=[
                Holder(
                    ref=ref,
                    partition_id=row["id"],
                    node_id=row["node_id"],
                    session=row["session"],
                    epoch=row["epoch"],
                    wanted_node=row["wanted_node"],
                )
                for ref, row in zip(refs, rows, strict=True)
                if row["exists"]
            ],
            deleted=[ref for ref, row in zip(refs, rows, strict=True) if row["exists"] is False],
            is_complete=after_revision <= 0,
        )

    async def claim(
        self, session: uuid.UUID, refs: Sequence[PartitionRef], catalog_revision: int
    ) -> Sequence[Claimed | NotClaimed]:
        check_claim(refs)
        rows = await self._claims.fetch(
            self._in_schema("SELECT * FROM @.claim($1, $2, $3, $4, $5)"),
            session,
            [ref.topic for ref in refs],
            [ref.topic_id for ref in refs],
            [ref.partition for ref in refs],
            catalog_revision,
        )
        return [
            _NOT_CLAIMED[row["outcome"]]
            if row["outcome"]
            else Claimed(
                ref,
                row["claimed_id"],
                row["claimed_epoch"],
                row["claimed_start"],
                row["claimed_end"],
            )
            for ref, row in zip(refs, rows, strict=True)
        ]

    async def release(self, session: uuid.UUID, wanted: Mapping[int, int | None]) -> None:
        await self._call(
            self._claims,
            "SELECT @.release($1, $2, $3)",
            session,
            list(wanted),
            list(wanted.values()),
        )

    async def delete(self, refs: Sequence[PartitionRef]) -> None:
        await self._call(
            self._upkeep,
            "SELECT @.delete_partitions($1, $2)",
            [ref.topic_id for ref in refs],
            [ref.partition for ref in refs],
        )

    def notifications(self) -> AsyncIterator[str]:
        return self._notifications()

    async def _notifications(self) -> AsyncIterator[str]:
        heard = listen(self._database, f"ottla:{self._database.url.schema}")
        async with contextlib.aclosing(heard):
            async for news in heard:
                yield news
        async for news in self._polled_changes():
            yield news

    async def _polled_changes(self) -> AsyncIterator[str]:
        """Poolers lose notifications: asks once a second.

        It has asked before it says `lost`: what the caller reads then is not older than what is compared later.
        """
        known: Sequence[Any] | None = None
        while True:
            try:
                [row] = await self._rows(queries.REVISIONS)
            except SequencerUnavailableError:
                known = None
                continue
            if known is None:
                yield LOST
            else:
                for name, before, after in zip(_POLLED, known, row, strict=True):
                    if before != after:
                        yield name
            known = tuple(row)
            await asyncio.sleep(POLL_SECONDS)

    # A claimed partition.

    async def ends(self, partition_ids: Sequence[int]) -> Mapping[int, PartitionEnd]:
        rows = await self._rows(queries.ENDS, list(partition_ids))
        return {row["id"]: PartitionEnd(row["epoch"], row["end_offset"]) for row in rows}

    async def open(self, partition_id: int, epoch: int) -> OpenedPartition:
        found = queries.opened_of(await self._rows(queries.OPEN, partition_id))
        if found is None or found.epoch != epoch:
            raise FencedError("the partition was claimed again, or deleted")
        return found.opened

    async def append(
        self,
        session: uuid.UUID,
        flush: uuid.UUID,
        objects: Sequence[WrittenObject],
        parts: Sequence[PartAppend],
    ) -> Sequence[AppendOutcome]:
        check_parts(objects, parts)
        outcomes = await self._call(
            self._objects if objects else self._inline,
            _APPEND,
            flush,
            [written.object_id for written in objects],
            [written.size_bytes for written in objects],
            *_columns(parts, _PART_FIELDS),
        )
        return [_OUTCOMES[outcome] for outcome in outcomes]

    async def trim(self, starts: Sequence[tuple[int, int, int]]) -> Sequence[bool]:
        ids, epochs, offsets = zip(*starts, strict=True) if starts else ((), (), ())
        answers: Sequence[bool] = await self._call(
            self._upkeep, "SELECT @.trim_partitions($1, $2, $3)", ids, epochs, offsets
        )
        return answers

    async def save_snapshot(self, partition_id: int, epoch: int, offset: int, data: bytes) -> bool:
        sql = "SELECT @.save_snapshot($1, $2, $3, $4)"
        return bool(await self._call(self._upkeep, sql, partition_id, epoch, offset, data))

    async def save_cleaned_offset(self, partition_id: int, epoch: int, offset: int) -> bool:
        sql = "SELECT @.save_cleaned_offset($1, $2, $3)"
        return bool(await self._call(self._upkeep, sql, partition_id, epoch, offset))

    async def replace(
        self, replacements: Sequence[Replacement], objects: Sequence[WrittenObject]
    ) -> Sequence[bool]:
        check_replacements(replacements, objects)
        segments = [segment for each in replacements for segment in each.segments]
        answers: Sequence[bool] = await self._call(
            self._upkeep,
            _REPLACE,
            *_columns(replacements, _REPLACEMENT_FIELDS),
            [place for place, each in enumerate(replacements, 1) for _ in each.segments],
            *_columns(segments, _SEGMENT_FIELDS),
            [written.object_id for written in objects],
            [written.size_bytes for written in objects],
        )
        return answers

    async def abandon_objects(self, object_ids: Sequence[int]) -> None:
        await self._call(self._upkeep, "SELECT @.abandon_objects($1)", list(object_ids))

    # Reading.

    async def read_runs(
        self, partition_id: int, offset: int, max_bytes: int
    ) -> Sequence[StoredRun]:
        rows = await self._rows(queries.READ_RUNS, partition_id, offset, max_bytes)
        return [queries.run_of(row) for row in rows]

    async def run_headers(
        self, partition_id: int, offset: int, end_offset: int
    ) -> Sequence[StoredRun]:
        rows = await self._rows(queries.RUN_HEADERS, partition_id, offset, end_offset)
        return [queries.run_of(row) for row in rows]

    async def segment_marks(self, partition_id: int, base_offset: int) -> bytes | None:
        rows = await self._rows(queries.SEGMENT_MARKS, partition_id, base_offset)
        return rows[0]["marks"] if rows else None

    async def unclaimed(self, refs: Sequence[PartitionRef]) -> Mapping[PartitionRef, UnclaimedLog]:
        rows = await self._rows(
            queries.UNCLAIMED, [ref.topic_id for ref in refs], [ref.partition for ref in refs]
        )
        return {
            refs[row["place"] - 1]: UnclaimedLog(
                row["size_bytes"], row["max_timestamp_ms"], row["start_offset"], row["end_offset"]
            )
            for row in rows
        }

    # Housekeeping.

    async def take_task(self, session: uuid.UUID, task: str, lease_ms: int) -> bool:
        sql = "SELECT @.take_task($1, $2, $3)"
        return bool(await self._call(self._upkeep, sql, session, task, lease_ms))

    async def turn_tail(self) -> bool:
        return bool(await self._call(self._upkeep, "SELECT @.turn_tail()"))

    async def find_garbage(self, max_count: int) -> Sequence[StoredObject]:
        rows = await self._upkeep.fetch(
            self._in_schema("SELECT * FROM @.find_garbage($1)"), max_count
        )
        return [_stored_object(row) for row in rows]

    async def note_deleted(self, object_ids: Sequence[int]) -> None:
        await self._call(self._upkeep, "SELECT @.note_deleted($1)", list(object_ids))

    async def objects(self, after_id: int, max_count: int) -> Sequence[StoredObject]:
        rows = await self._rows(queries.OBJECTS, after_id, max_count)
        return [_stored_object(row) for row in rows]

    async def close(self) -> None:
        for lane in (self._inline, self._objects, self._control, self._claims, self._upkeep):
            await lane.close()
        await self._readers.close()


# In the order of the functions' arguments.
_PART_FIELDS: Final = (
    "partition_id",
    "epoch",
    "base_offset",
    "end_offset",
    "object_id",
    "position",
    "size_bytes",
    "max_timestamp_ms",
    "headers",
    "aborted",
    "data",
)
_REPLACEMENT_FIELDS: Final = ("partition_id", "epoch", "start_offset", "end_offset")
_SEGMENT_FIELDS: Final = (
    "base_offset",
    "end_offset",
    "object_id",
    "position",
    "size_bytes",
    "max_timestamp_ms",
    "marks",
    "aborted",
    "data",
)


def _columns(rows: Sequence[object], fields: Sequence[str]) -> list[list[Any]]:
    return [[getattr(row, field) for row in rows] for field in fields]


def _stored_object(row: Any) -> StoredObject:
    object_id, key, size_bytes, state = row
    return StoredObject(object_id, key, size_bytes, ObjectState(state))
