"""What nothing refers to is deleted, and nothing else; the check finds what does not fit."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Sequence

import pytest
from tests.storage.shared.sequencer.backends import (
    GRACE_MS,
    Backend,
    Place,
    broker,
    claim_all,
    memory_place,
    part,
    postgres_place,
    refs,
    story,
)

from ottla.ports import DamagedError
from ottla.storage.shared import collection
from ottla.storage.shared.collection import collect_garbage
from ottla.storage.shared.errors import ForeignClusterError, ObjectsUnavailableError
from ottla.storage.shared.objects.cluster_identity import IDENTITY_KEY, write_identity
from ottla.storage.shared.objects.memory import Answer, MemoryObjects, ObjectOperation
from ottla.storage.shared.objects.object_format import ObjectWriter
from ottla.storage.shared.sequencer.records import (
    AppendOutcome,
    Claimed,
    ObjectState,
    ReservedObject,
    StoredObject,
    WrittenObject,
)
from ottla.storage.shared.sequencer.sequencer import Sequencer
from ottla.storage.shared.storage_check import CheckedObject, Difference, StorageCheck

DAY_MS = 24 * 3_600_000


@pytest.fixture(params=["memory", "postgres"])
def place(request: pytest.FixtureRequest) -> Place:
    if request.param == "memory":
        return memory_place()
    return postgres_place(request.getfixturevalue("shared_postgres"))


class Writer:
    """A broker with two partitions, that puts flushes of both into objects."""

    def __init__(self, sequencer: Sequencer, session: uuid.UUID, cluster_id: str) -> None:
        self.sequencer = sequencer
        self.session = session
        self.cluster_id = cluster_id
        self.objects = MemoryObjects()
        self.claimed: list[Claimed] = []
        self.end_offset = 0

    async def reserve(self) -> ReservedObject:
        [reserved] = (await self.sequencer.heartbeat(self.session, 0, 1)).objects
        return reserved

    async def put(self, reserved: ReservedObject, cluster_id: str = "") -> WrittenObject:
        writer = ObjectWriter(cluster_id or self.cluster_id, reserved.object_id)
        for each in self.claimed:
            writer.add(each.partition_id, self.end_offset, self.end_offset + 1, [b"x" * 100])
        size_bytes = writer.size_bytes
        await self.objects.put(reserved.key, writer.finish())
        return WrittenObject(reserved.object_id, size_bytes)

    async def append(self, cluster_id: str = "") -> ReservedObject:
        reserved = await self.reserve()
        written = await self.put(reserved, cluster_id)
        parts = [part(each, self.end_offset, object_id=written.object_id) for each in self.claimed]
        outcomes = await self.sequencer.append(self.session, uuid.uuid4(), [written], parts)
        assert set(outcomes) == {AppendOutcome.OK}
        self.end_offset += 1
        return reserved

    async def trim(self, start_offset: int) -> None:
        assert all(
            await self.sequencer.trim(
                [(each.partition_id, each.epoch, start_offset) for each in self.claimed]
            )
        )

    async def collect(self) -> int:
        return await collect_garbage(self.sequencer, self.objects, self.session)

    def check(self) -> StorageCheck:
        return StorageCheck(self.sequencer, self.objects, self.cluster_id)

    async def differences(self) -> list[tuple[str, Difference]]:
        found = [(each.key, each.difference) for each in await all_of(self.check().compare())]
        found += [(each.key, each.difference) for each in await all_of(self.check().verify())]
        return sorted(found, key=str)


async def all_of(found: AsyncIterator[CheckedObject]) -> list[CheckedObject]:
    return [each async for each in found]


async def start(backend: Backend) -> Writer:
    sequencer = await backend.connect()
    registration = await sequencer.register(broker("a"))
    made = Writer(sequencer, registration.session, registration.cluster_id)
    made.claimed = await claim_all(sequencer, registration.session, refs(2))
    await write_identity(made.objects, registration.cluster_id)
    return made


@story
async def test_objects_are_deleted_when_nothing_refers_to_them(place: Backend) -> None:
    a = await start(place)
    first, second = await a.append(), await a.append()
    await a.trim(1)
    assert await a.collect() == 0
    assert first.key in a.objects.stored  # a reader may still have looked it up
    await place.advance(GRACE_MS + 1)
    assert await a.collect() == 1
    assert set(a.objects.stored) == {second.key, IDENTITY_KEY}
    assert await a.differences() == []


@story
async def test_a_late_put_is_deleted_too(place: Backend) -> None:
    a = await start(place)
    lost = await a.reserve()
    await a.sequencer.abandon_objects([lost.object_id])
    await place.advance(GRACE_MS + 1)
    assert await a.collect() == 1
    await a.put(lost)
    check = a.check()
    assert await all_of(check.compare()) == []
    assert check.counts.late == 1
    await place.advance(DAY_MS + 1)
    assert await a.collect() == 1
    assert set(a.objects.stored) == {IDENTITY_KEY}
    assert list(await a.sequencer.objects(-1, 10)) == []


@story
async def test_objects_that_were_put_and_never_appended_are_deleted(place: Backend) -> None:
    a = await start(place)
    reserved = await a.reserve()
    await a.put(reserved)
    assert await a.differences() == []
    await a.sequencer.abandon_objects([reserved.object_id])
    await place.advance(GRACE_MS + 1)
    assert await a.collect() == 1
    assert set(a.objects.stored) == {IDENTITY_KEY}


@story
async def test_a_deletion_whose_answer_is_lost_is_repeated(place: Backend) -> None:
    a = await start(place)
    await a.append()
    await a.trim(1)
    await a.collect()
    await place.advance(GRACE_MS + 1)

    async def lose(operation: ObjectOperation, perform: Callable[[], Answer]) -> Answer:
        perform()
        raise ObjectsUnavailableError("no answer")

    whole, a.objects.fault = a.objects.fault, lose
    with pytest.raises(ObjectsUnavailableError):
        await a.collect()
    a.objects.fault = whole
    assert await a.collect() == 1
    assert await a.collect() == 0


@story
async def test_one_broker_collects_at_a_time(place: Backend) -> None:
    a = await start(place)
    other = await place.connect()
    b = await other.register(broker("b"))
    await a.append()
    await a.trim(1)
    await a.collect()
    await place.advance(GRACE_MS + 1)
    for sequencer, session in ((a.sequencer, a.session), (other, b.session)):
        await sequencer.heartbeat(session, 0, 0)
    assert await other.take_task(b.session, collection.COLLECT_TASK, collection.LEASE_MS)
    assert await a.collect() == 0
    await place.advance(collection.LEASE_MS + 1)
    assert await a.collect() == 1


@story
async def test_a_round_is_bounded_and_goes_in_steps(place: Backend) -> None:
    a = await start(place)
    a.claimed = a.claimed[:1]
    for _ in range(7):
        await a.append()
    await a.trim(7)
    await a.collect()
    await place.advance(GRACE_MS + 1)
    with pytest.MonkeyPatch.context() as limits:
        limits.setattr(collection, "OBJECTS_AT_ONCE", 2)
        limits.setattr(collection, "MAX_OBJECTS", 4)
        assert await a.collect() == 4
        assert await a.collect() == 3
    assert set(a.objects.stored) == {IDENTITY_KEY}


@story
async def test_a_key_that_is_not_that_of_the_object_is_never_deleted(place: Backend) -> None:
    a = await start(place)

    async def garbage(max_count: int) -> Sequence[StoredObject]:
        return [StoredObject(5, IDENTITY_KEY, 1, ObjectState.DEAD)]

    a.sequencer.find_garbage = garbage  # type: ignore[method-assign]
    with pytest.raises(DamagedError, match="not deleted"):
        await a.collect()
    assert IDENTITY_KEY in a.objects.stored


@story
async def test_the_check_finds_orphans_missing_damaged_and_foreign_objects(place: Backend) -> None:
    a = await start(place)
    good, missing, short, flipped = [await a.append() for _ in range(4)]
    foreign = await a.append(cluster_id="another")
    stored = a.objects.stored
    assert await a.differences() == [(foreign.key, Difference.FOREIGN)]
    del stored[foreign.key], stored[missing.key]
    stored[short.key] = stored[short.key][:-1]
    damaged = bytearray(stored[flipped.key])
    damaged[100] ^= 1
    stored[flipped.key] = bytes(damaged)
    stored["00/123456-0123456789abcdef"] = stored["other/name"] = b"?"
    check = a.check()
    compared = {(each.key, each.difference) for each in await all_of(check.compare())}
    assert compared == {
        (foreign.key, Difference.MISSING),
        (missing.key, Difference.MISSING),
        (short.key, Difference.DAMAGED),
        ("00/123456-0123456789abcdef", Difference.ORPHAN),
        ("other/name", Difference.ORPHAN),
    }
    assert check.counts.objects[ObjectState.LIVE] == 5
    assert check.counts.live_bytes > 5 * 200
    verified = {(each.key, each.difference) for each in await all_of(check.verify())}
    assert verified == {
        (foreign.key, Difference.MISSING),
        (missing.key, Difference.MISSING),
        (short.key, Difference.DAMAGED),
        (flipped.key, Difference.DAMAGED),
    }
    assert check.counts.verified_bytes == len(stored[good.key])


@story
async def test_the_check_of_another_clusters_bucket_is_refused(place: Backend) -> None:
    a = await start(place)
    a.objects.stored.clear()
    await write_identity(a.objects, "another")
    for found in (a.check().compare(), a.check().verify()):
        with pytest.raises(ForeignClusterError):
            await all_of(found)


@story
async def test_what_changes_during_a_check_is_no_difference(place: Backend) -> None:
    a = await start(place)
    gone = await a.append()
    listing = a.objects.list

    async def snapshot(prefix: str) -> AsyncIterator[object]:
        found = [each async for each in listing(prefix)]
        await a.append()
        await a.trim(1)
        await a.collect()
        await place.advance(GRACE_MS + 1)
        await a.collect()
        await place.advance(DAY_MS + 1)
        await a.collect()
        for each in found:
            yield each

    a.objects.list = snapshot  # type: ignore[method-assign, assignment]
    assert await all_of(a.check().compare()) == []
    assert gone.key not in a.objects.stored
