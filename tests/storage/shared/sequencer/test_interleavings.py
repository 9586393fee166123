"""Two transactions at once, in a forced order: the second one waits for a lock of the first, which then commits."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import asyncpg
import pytest
from tests.storage.shared.sequencer.backends import (
    GRACE_MS,
    LEASE_MS,
    Place,
    PostgresBackend,
    broker,
    claim_all,
    part,
    refs,
    segment,
)
from tests.waiting import in_time

from ottla.ports import FencedError
from ottla.storage.shared.sequencer.postgres.connections import Database, Lane
from ottla.storage.shared.sequencer.postgres.postgres_sequencer import PostgresSequencer
from ottla.storage.shared.sequencer.records import (
    AppendOutcome,
    Claimed,
    NotClaimed,
    ObjectState,
    Replacement,
    WrittenObject,
)

T = TypeVar("T")

OK, ALREADY, FENCED = AppendOutcome.OK, AppendOutcome.ALREADY, AppendOutcome.FENCED


class TransactionLane(Lane):
    """Calls within a transaction that the test ends."""

    def __init__(self, database: Database, connection: Any) -> None:
        super().__init__(database)
        self._connection = connection


class First:
    """A sequencer whose calls are not committed before the test says so."""

    def __init__(self, url: Any, connection: Any) -> None:
        database = Database(url)
        self._transaction = connection
        self.sequencer = PostgresSequencer(database, "", LEASE_MS)
        lane = TransactionLane(database, connection)
        for name in ("_inline", "_objects", "_control", "_claims", "_upkeep"):
            setattr(self.sequencer, name, lane)

    async def commit(self) -> None:
        await self._transaction.execute("COMMIT")

    async def roll_back(self) -> None:
        await self._transaction.execute("ROLLBACK")


@asynccontextmanager
async def uncommitted(backend: PostgresBackend) -> AsyncIterator[First]:
    connection = await asyncpg.connect(backend.url.dsn)
    try:
        await connection.execute("BEGIN")
        yield First(backend.url, connection)
    finally:
        connection.terminate()


async def waiting(backend: PostgresBackend, call: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Starts a call, and returns when it waits for a lock."""
    before = await waits(backend)
    task = asyncio.ensure_future(call)
    deadline = time.monotonic() + 30
    while await waits(backend) <= before:
        assert not task.done(), "the call did not wait"
        in_time(deadline, "the call does not wait for a lock")
        await asyncio.sleep(0.002)
    return task


async def waits(backend: PostgresBackend) -> int:
    [row] = await backend.run(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        " AND strpos(query, $1) > 0",
        backend.url.schema,
    )
    return int(row[0])


class Brokers:
    """Two brokers, the first with a claimed partition."""

    def __init__(self, backend: PostgresBackend) -> None:
        self.backend = backend
        self.a = self.b = uuid.UUID(int=0)

    async def start(self) -> Claimed:
        self.one, self.two = await self.backend.connect(), await self.backend.connect()
        self.a = (await self.one.register(broker("a"))).session
        self.b = (await self.two.register(broker("b"))).session
        [claimed] = await claim_all(self.one, self.a, refs(1))
        return claimed

    async def expire(self, session: uuid.UUID) -> None:
        await self.backend.run(
            "UPDATE @.brokers SET expires_at = clock_timestamp() WHERE session = $1", session
        )


def test_a_claim_that_waited_for_an_append_has_it(postgres: Place) -> None:
    async def story(backend: PostgresBackend) -> None:
        brokers = Brokers(backend)
        claimed = await brokers.start()
        await brokers.expire(brokers.a)
        async with uncommitted(backend) as first:
            parts = [part(claimed, 0, 3)]
            assert await outcomes(first.sequencer, brokers.a, uuid.uuid4(), parts) == [OK]
            claim = await waiting(backend, brokers.two.claim(brokers.b, refs(1), 0))
            await first.commit()
            assert list(await claim) == [claimed._replace(epoch=2, end_offset=3)]

    postgres.play(story)


def test_a_claim_that_waited_for_an_append_that_failed_has_it_not(postgres: Place) -> None:
    async def story(backend: PostgresBackend) -> None:
        brokers = Brokers(backend)
        claimed = await brokers.start()
        await brokers.expire(brokers.a)
        async with uncommitted(backend) as first:
            flush, parts = uuid.uuid4(), [part(claimed, 0, 3)]
            assert await outcomes(first.sequencer, brokers.a, flush, parts) == [OK]
            claim = await waiting(backend, brokers.two.claim(brokers.b, refs(1), 0))
            await first.roll_back()
            assert list(await claim) == [claimed._replace(epoch=2)]
            assert await outcomes(brokers.one, brokers.a, flush, parts) == [FENCED]

    postgres.play(story)


@pytest.mark.parametrize("commits", [True, False])
def test_an_append_that_waited_for_a_claim_is_fenced_by_it(postgres: Place, commits: bool) -> None:
    async def story(backend: PostgresBackend) -> None:
        brokers = Brokers(backend)
        claimed = await brokers.start()
        await brokers.expire(brokers.a)
        async with uncommitted(backend) as first:
            await first.sequencer.claim(brokers.b, refs(1), 0)
            appended = outcomes(brokers.one, brokers.a, uuid.uuid4(), [part(claimed, 0)])
            append = await waiting(backend, appended)
            await (first.commit() if commits else first.roll_back())
            assert await append == [FENCED if commits else OK]

    postgres.play(story)


def test_a_repetition_that_waited_for_its_first_try_is_already(postgres: Place) -> None:
    async def story(backend: PostgresBackend) -> None:
        brokers = Brokers(backend)
        claimed = await brokers.start()
        flush, parts = uuid.uuid4(), [part(claimed, 0, 2)]
        async with uncommitted(backend) as first:
            assert await outcomes(first.sequencer, brokers.a, flush, parts) == [OK]
            again = await waiting(backend, outcomes(brokers.one, brokers.a, flush, parts))
            await first.commit()
            assert await again == [ALREADY]

    postgres.play(story)


def test_a_repetition_behind_a_takeover_is_already(postgres: Place) -> None:
    """The first try and a claim commit while the repetition waits: one statement would call it fenced."""

    async def story(backend: PostgresBackend) -> None:
        brokers = Brokers(backend)
        claimed = await brokers.start()
        await brokers.expire(brokers.a)
        flush, parts = uuid.uuid4(), [part(claimed, 0, 2)]
        async with uncommitted(backend) as first:
            assert await outcomes(first.sequencer, brokers.a, flush, parts) == [OK]
            claim = await waiting(backend, brokers.two.claim(brokers.b, refs(1), 0))
            again = await waiting(backend, outcomes(brokers.one, brokers.a, flush, parts))
            await first.commit()
            assert list(await claim) == [claimed._replace(epoch=2, end_offset=2)]
            assert await again == [ALREADY]

    postgres.play(story)


def test_a_lane_is_free_after_a_call_was_cancelled(postgres: Place) -> None:
    async def story(backend: PostgresBackend) -> None:
        brokers = Brokers(backend)
        claimed = await brokers.start()
        flush, parts = uuid.uuid4(), [part(claimed, 0)]
        async with uncommitted(backend) as first:
            await first.sequencer.save_cleaned_offset(claimed.partition_id, 1, 0)
            append = await waiting(backend, outcomes(brokers.one, brokers.a, flush, parts))
            append.cancel()
            with pytest.raises(asyncio.CancelledError):
                await append
            await first.commit()
        # Whether the server went on with it is unknown, as after a lost answer; the repetition says it.
        assert await outcomes(brokers.one, brokers.a, flush, parts) in ([OK], [ALREADY])
        ends = await brokers.one.ends([claimed.partition_id])
        assert ends[claimed.partition_id].end_offset == 1

    postgres.play(story)


def test_an_append_and_the_collection_agree_about_an_object(postgres: Place) -> None:
    async def story(backend: PostgresBackend) -> None:
        brokers = Brokers(backend)
        claimed = await brokers.start()
        kept, lost = (await brokers.one.heartbeat(brokers.a, 0, 2)).objects
        await brokers.one.end_session(brokers.a)
        await backend.advance(GRACE_MS + 1)
        written = WrittenObject(kept.object_id, 1)
        async with uncommitted(backend) as first:
            parts = [part(claimed, 0, object_id=kept.object_id)]
            flushed = await first.sequencer.append(brokers.a, uuid.uuid4(), [written], parts)
            assert list(flushed) == [OK]
            await brokers.two.find_garbage(10)  # it passes over what is locked
            await first.commit()
        found = {each.object_id: each.state for each in await brokers.two.objects(0, 10)}
        assert found == {kept.object_id: ObjectState.LIVE, lost.object_id: ObjectState.DEAD}

    postgres.play(story)


def test_an_append_that_waited_for_the_collection_is_refused(postgres: Place) -> None:
    async def story(backend: PostgresBackend) -> None:
        brokers = Brokers(backend)
        claimed = await brokers.start()
        [reserved] = (await brokers.one.heartbeat(brokers.a, 0, 1)).objects
        await brokers.one.end_session(brokers.a)
        await backend.advance(GRACE_MS + 1)
        async with uncommitted(backend) as first:
            await first.sequencer.find_garbage(10)
            written = [WrittenObject(reserved.object_id, 1)]
            parts = [part(claimed, 0, object_id=reserved.object_id)]
            append = await waiting(
                backend, outcomes(brokers.one, brokers.a, uuid.uuid4(), parts, written)
            )
            await first.commit()
            assert await append == [FENCED]

    postgres.play(story)


def test_the_collection_sees_a_reference_that_it_waited_for(postgres: Place) -> None:
    async def story(backend: PostgresBackend) -> None:
        brokers = Brokers(backend)
        claimed = await brokers.start()
        [reserved] = (await brokers.one.heartbeat(brokers.a, 0, 1)).objects
        written = [WrittenObject(reserved.object_id, 1)]
        parts = [part(claimed, 0, object_id=reserved.object_id), part(claimed, 1)]
        assert await outcomes(brokers.one, brokers.a, uuid.uuid4(), parts, written) == [OK, OK]
        # A repetition of a replacement lets the object go and takes it again, in one transaction.
        change = Replacement(
            claimed.partition_id, 1, 0, 1, [segment(0, 1, object_id=reserved.object_id)]
        )
        await brokers.one.replace([change], written)
        async with uncommitted(backend) as first:
            assert list(await first.sequencer.replace([change], written)) == [True]
            collection = await waiting(backend, brokers.two.find_garbage(10))
            await first.commit()
            assert list(await collection) == []
        [found] = await brokers.two.objects(0, 10)
        assert found.state is ObjectState.LIVE

    postgres.play(story)


def test_a_claim_that_waited_for_a_consolidation_has_the_segments(postgres: Place) -> None:
    async def story(backend: PostgresBackend) -> None:
        brokers = Brokers(backend)
        claimed = await brokers.start()
        await outcomes(brokers.one, brokers.a, uuid.uuid4(), [part(claimed, 0)])
        await brokers.expire(brokers.a)
        change = Replacement(claimed.partition_id, 1, 0, 1, [segment(0, 1)])
        async with uncommitted(backend) as first:
            assert list(await first.sequencer.replace([change], [])) == [True]
            claim = await waiting(backend, brokers.two.claim(brokers.b, refs(1), 0))
            await first.commit()
            await claim
        opened = await brokers.two.open(claimed.partition_id, 2)
        assert (len(opened.segments), len(opened.tail)) == (1, 0)

    postgres.play(story)


def test_a_consolidation_that_waited_for_a_claim_is_fenced(postgres: Place) -> None:
    async def story(backend: PostgresBackend) -> None:
        brokers = Brokers(backend)
        claimed = await brokers.start()
        await outcomes(brokers.one, brokers.a, uuid.uuid4(), [part(claimed, 0)])
        await brokers.expire(brokers.a)
        partition_id = claimed.partition_id
        change = Replacement(partition_id, 1, 0, 1, [])
        async with uncommitted(backend) as first:
            await first.sequencer.claim(brokers.b, refs(1), 0)
            replaced = await waiting(backend, brokers.one.replace([change], []))
            trimmed = await waiting(backend, backend_trim(backend, partition_id))
            await first.commit()
            assert list(await replaced) == [False]
            assert await trimmed == [False]
        opened = await brokers.two.open(partition_id, 2)
        assert len(opened.tail) == 1

    postgres.play(story)


def test_a_claim_that_waited_for_the_catalog_is_stale(postgres: Place) -> None:
    async def story(backend: PostgresBackend) -> None:
        brokers = Brokers(backend)
        await brokers.start()
        async with uncommitted(backend) as first:
            await first.sequencer.commit_catalog(brokers.b, uuid.uuid4(), {"x": 1}, 0)
            claim = await waiting(backend, brokers.one.claim(brokers.a, refs(2), 0))
            await first.commit()
            assert list(await claim) == [NotClaimed.STALE] * 2

    postgres.play(story)


def test_a_heartbeat_in_time_keeps_the_partitions(postgres: Place) -> None:
    async def story(backend: PostgresBackend) -> None:
        brokers = Brokers(backend)
        await brokers.start()
        await brokers.expire(brokers.a)
        async with uncommitted(backend) as first:
            await first.sequencer.heartbeat(brokers.a, 0, 0)
            claim = await waiting(backend, brokers.two.claim(brokers.b, refs(1), 0))
            await first.commit()
            assert list(await claim) == [NotClaimed.HELD]
        await brokers.expire(brokers.a)
        async with uncommitted(backend) as first:
            await claim_all(first.sequencer, brokers.b, refs(1))
            late = await waiting(backend, brokers.one.heartbeat(brokers.a, 0, 0))
            await first.commit()
            with pytest.raises(FencedError):
                await late

    postgres.play(story)


def test_the_feed_of_holders_skips_no_commit(postgres: Place) -> None:
    async def story(backend: PostgresBackend) -> None:
        brokers = Brokers(backend)
        await brokers.start()
        one, two = refs(3)[1:]
        async with uncommitted(backend) as first:
            await claim_all(first.sequencer, brokers.a, [one])
            claim = await waiting(backend, brokers.two.claim(brokers.b, [two], 0))
            before = await brokers.two.holders(1)
            assert (before.revision, list(before.changed)) == (1, [])
            await first.commit()
            await claim
        after = await brokers.two.holders(1)
        assert [each.ref for each in after.changed] == [one, two]
        assert after.revision == 3

    postgres.play(story)


def test_two_claims_of_a_new_partition_give_two_epochs(postgres: Place) -> None:
    async def story(backend: PostgresBackend) -> None:
        brokers = Brokers(backend)
        await brokers.start()
        new = refs(2)[1:]
        async with uncommitted(backend) as first:
            [claimed] = await claim_all(first.sequencer, brokers.a, new)
            second = await waiting(backend, brokers.two.claim(brokers.b, new, 0))
            await first.commit()
            assert claimed.epoch == 1
            assert list(await second) == [NotClaimed.HELD]

    postgres.play(story)


def test_a_released_partition_goes_to_one_of_two_claims(postgres: Place) -> None:
    async def story(backend: PostgresBackend) -> None:
        brokers = Brokers(backend)
        claimed = await brokers.start()
        await brokers.one.release(brokers.a, {claimed.partition_id: None})
        async with uncommitted(backend) as first:
            await claim_all(first.sequencer, brokers.a, refs(1))
            second = await waiting(backend, brokers.two.claim(brokers.b, refs(1), 0))
            await first.commit()
            assert list(await second) == [NotClaimed.HELD]

    postgres.play(story)


def test_the_ring_waits_for_readers_and_gives_up_soon(postgres: Place) -> None:
    async def story(backend: PostgresBackend) -> None:
        brokers = Brokers(backend)
        claimed = await brokers.start()
        await outcomes(brokers.one, brokers.a, uuid.uuid4(), [part(claimed, 0)])
        for _ in range(2):
            await backend.advance(130_000)
            await brokers.one.turn_tail()
        await backend.advance(130_000)
        reader = await asyncpg.connect(backend.url.dsn)
        try:
            await reader.execute(f"BEGIN; SELECT * FROM {backend.url.quoted_schema}.tail")
            assert not await brokers.one.turn_tail()
            await reader.execute("COMMIT")
            assert await brokers.one.turn_tail()
        finally:
            reader.terminate()

    postgres.play(story)


def test_an_append_into_an_old_table_is_moved_before_it_is_emptied(postgres: Place) -> None:
    """An append chose its table before the ring turned twice, and commits after the stragglers were moved."""

    async def story(backend: PostgresBackend) -> None:
        brokers = Brokers(backend)
        claimed = await brokers.start()
        async with uncommitted(backend) as first:
            # The next table to be emptied is slot 2: as if slot 2 was current when this append began.
            await backend.run(
                "UPDATE @.cluster SET tail_current = 1, tail_next_is_empty = false,"
                " tail_next_moved_at = clock_timestamp() - interval '2 minutes'"
            )
            assert await outcomes(first.sequencer, brokers.a, uuid.uuid4(), [part(claimed, 0)]) == [
                OK
            ]
            await first.commit()
        await backend.run("UPDATE @.tail SET slot = 2")
        await brokers.one.turn_tail()  # finds it, and begins again
        for _ in range(3):
            assert await brokers.one.turn_tail()
            await backend.advance(130_000)
        runs = await brokers.one.read_runs(claimed.partition_id, 0, 1000)
        assert [run.base_offset for run in runs] == [0]
        [row] = await backend.run("SELECT count(*) FROM @.tail_2")
        assert row[0] == 0

    postgres.play(story)


async def outcomes(
    sequencer: PostgresSequencer,
    session: uuid.UUID,
    flush: uuid.UUID,
    parts: Sequence[Any],
    objects: Sequence[WrittenObject] = (),
) -> list[AppendOutcome]:
    return list(await sequencer.append(session, flush, objects, parts))


async def backend_trim(backend: PostgresBackend, partition_id: int) -> list[bool]:
    """On a connection of its own: a sequencer's upkeep is one call after the other."""
    sequencer = await backend.connect()
    return list(await sequencer.trim([(partition_id, 1, 1)]))
