"""Appends, trims, replacements, reads and the collection of objects, on both sequencers."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pytest
from tests.storage.shared.sequencer.backends import (
    GRACE_MS,
    LEASE_MS,
    Backend,
    broker,
    claim_all,
    part,
    refs,
    segment,
    story,
)

from ottla.core.leader_epochs import EpochStart
from ottla.ports import FencedError, UnclaimedLog
from ottla.storage.shared.sequencer.records import (
    AppendOutcome,
    Claimed,
    ObjectState,
    PartitionEnd,
    Replacement,
    ReservedObject,
    StoredRun,
    WrittenObject,
)
from ottla.storage.shared.sequencer.sequencer import Sequencer

OK, ALREADY = AppendOutcome.OK, AppendOutcome.ALREADY
FENCED, MISPLACED = AppendOutcome.FENCED, AppendOutcome.MISPLACED


class Started:
    """A broker with a session and claimed partitions."""

    def __init__(self, sequencer: Sequencer, session: uuid.UUID, claimed: list[Claimed]) -> None:
        self.sequencer = sequencer
        self.session = session
        self.claimed = claimed

    async def fill(self, count: int, claimed: Claimed | None = None, at: int = 0) -> None:
        """Flushes of one record each, without objects."""
        for offset in range(at, at + count):
            parts = [part(claimed or self.claimed[0], offset)]
            assert await self.append(uuid.uuid4(), parts) == [OK]

    async def append(
        self, flush: uuid.UUID, parts: Sequence[object], objects: Sequence[WrittenObject] = ()
    ) -> list[AppendOutcome]:
        return list(await self.sequencer.append(self.session, flush, objects, parts))  # type: ignore[arg-type]

    async def reserve(self, count: int) -> list[ReservedObject]:
        return list((await self.sequencer.heartbeat(self.session, 0, count)).objects)

    async def states(self) -> dict[int, ObjectState]:
        return {each.object_id: each.state for each in await self.sequencer.objects(0, 100)}


async def start(place: Backend, partitions: int = 1, name: str = "a") -> Started:
    sequencer = await place.connect()
    session = (await sequencer.register(broker(name))).session
    return Started(sequencer, session, await claim_all(sequencer, session, refs(partitions)))


async def take_over(place: Backend, victim: Started) -> Started:
    await victim.sequencer.end_session(victim.session)
    return await start(place, len(victim.claimed), f"successor-of-{victim.session}")


def offsets(runs: Sequence[StoredRun]) -> list[tuple[int, int]]:
    return [(run.base_offset, run.end_offset) for run in runs]


# Appends.


@story
async def test_a_fenced_part_holds_up_no_other(place: Backend) -> None:
    a = await start(place, 3)
    [other] = await claim_all(a.sequencer, a.session, refs(3)[1:2])
    one, two, three = a.claimed
    parts = [part(three, 0, 4), part(two, 0), part(one, 1), part(other, 0, 2), part(one, 0)]
    assert await a.append(uuid.uuid4(), parts) == [OK, FENCED, MISPLACED, OK, OK]
    assert await a.sequencer.ends([each.partition_id for each in a.claimed] + [99]) == {
        one.partition_id: PartitionEnd(1, 1),
        two.partition_id: PartitionEnd(2, 2),
        three.partition_id: PartitionEnd(1, 4),
    }


@story
async def test_parts_of_one_partition_follow_each_other(place: Backend) -> None:
    a = await start(place, 2)
    one, two = a.claimed
    flush = uuid.uuid4()
    parts = [part(one, 0, 2), part(two, 0), part(one, 2, 3), part(one, 5)]
    assert await a.append(flush, parts) == [OK] * 4
    assert await a.append(flush, parts) == [ALREADY] * 4
    runs = await a.sequencer.read_runs(one.partition_id, 0, 10_000)
    assert offsets(runs) == [(0, 2), (2, 5), (5, 6)]
    gap = [part(one, 6), part(one, 8), part(one, 7)]
    assert await a.append(uuid.uuid4(), gap) == [OK, MISPLACED, OK]


@story
async def test_a_repeated_flush_is_already_even_after_a_takeover(place: Backend) -> None:
    a = await start(place, 2)
    flush, late = uuid.uuid4(), uuid.uuid4()
    parts = [part(each, 0) for each in a.claimed]
    assert await a.append(flush, parts) == [OK, OK]
    b = await take_over(place, a)
    assert [each.end_offset for each in b.claimed] == [1, 1]
    assert await a.append(flush, parts) == [ALREADY, ALREADY]
    assert await a.append(late, [part(each, 1) for each in a.claimed]) == [FENCED, FENCED]
    assert await b.append(late, [part(each, 1) for each in b.claimed]) == [OK, OK]
    assert await a.append(flush, parts) == [ALREADY, ALREADY]
    both = [part(a.claimed[0], 0), part(a.claimed[0], 1)]
    assert await a.append(flush, both) == [ALREADY, FENCED]


@story
async def test_what_was_appended_can_be_read_and_opened(place: Backend) -> None:
    a = await start(place)
    [reserved] = await a.reserve(1)
    one = a.claimed[0]
    inline, uploaded = uuid.uuid4(), uuid.uuid4()
    assert await a.append(inline, [part(one, 0, 3, timestamp_ms=77)]) == [OK]
    large = part(one, 3, 2, object_id=reserved.object_id, size_bytes=5000)
    assert await a.append(uploaded, [large], [WrittenObject(reserved.object_id, 6000)]) == [OK]
    first, second = await a.sequencer.read_runs(one.partition_id, 1, 10_000)
    assert (first.base_offset, first.end_offset, first.epoch, first.flush) == (0, 3, 1, inline)
    assert (first.data, first.headers, first.max_timestamp_ms) == (b"\0" * 100, b"", 77)
    assert (second.object_id, second.object_key, second.data) == (*reserved, None)
    assert (second.position, second.size_bytes) == (0, 5000)
    headers = await a.sequencer.run_headers(one.partition_id, 0, 5)
    assert [run.headers for run in headers] == [b"headers of 0", b"headers of 3"]
    assert {run.data for run in headers} == {None}
    assert len(await a.sequencer.run_headers(one.partition_id, 0, 3)) == 1
    opened = await a.sequencer.open(one.partition_id, one.epoch)
    assert list(opened.tail) == list(headers)
    assert list(opened.epochs) == [EpochStart(1, 0)]
    assert (list(opened.snapshots), opened.cleaned_offset, list(opened.segments)) == ([], None, [])
    assert (await a.states())[reserved.object_id] is ObjectState.LIVE
    with pytest.raises(FencedError):
        await a.sequencer.open(one.partition_id, one.epoch + 1)
    with pytest.raises(FencedError):
        await a.sequencer.open(99, 1)


@story
async def test_reads_stop_after_the_bytes_that_were_asked_for(place: Backend) -> None:
    a = await start(place)
    await a.fill(10)
    partition_id = a.claimed[0].partition_id
    assert offsets(await a.sequencer.read_runs(partition_id, 4, 1)) == [(4, 5)]
    assert offsets(await a.sequencer.read_runs(partition_id, 4, 101)) == [(4, 5), (5, 6)]
    assert offsets(await a.sequencer.read_runs(partition_id, 10, 100)) == []


@story
async def test_epochs_begin_with_their_first_record(place: Backend) -> None:
    a = await start(place)
    await a.fill(2)
    [second] = await claim_all(a.sequencer, a.session, refs(1))
    [third] = await claim_all(a.sequencer, a.session, refs(1))
    assert second.epoch == 2
    await a.fill(3, third, at=2)
    opened = await a.sequencer.open(third.partition_id, third.epoch)
    assert list(opened.epochs) == [EpochStart(1, 0), EpochStart(3, 2)]
    assert list(await a.sequencer.trim([(third.partition_id, third.epoch, 3)])) == [True]
    opened = await a.sequencer.open(third.partition_id, third.epoch)
    assert list(opened.epochs) == [EpochStart(3, 2)]


# Snapshots, trims.


@story
async def test_the_newest_two_snapshots_are_kept(place: Backend) -> None:
    a = await start(place)
    await a.fill(5)
    one = a.claimed[0]
    for offset in (1, 3, 2):
        assert await a.sequencer.save_snapshot(one.partition_id, 1, offset, b"s%d" % offset)
    assert await a.sequencer.save_snapshot(one.partition_id, 1, 3, b"again")
    opened = await a.sequencer.open(one.partition_id, 1)
    assert list(opened.snapshots) == [(3, b"again"), (2, b"s2")]
    assert not await a.sequencer.save_snapshot(one.partition_id, 1, 6, b"above the end")
    assert await a.sequencer.save_cleaned_offset(one.partition_id, 1, 4)
    b = await take_over(place, a)
    assert not await a.sequencer.save_snapshot(one.partition_id, 1, 5, b"fenced")
    assert not await a.sequencer.save_cleaned_offset(one.partition_id, 1, 5)
    opened = await b.sequencer.open(one.partition_id, 2)
    assert [offset for offset, _ in opened.snapshots] == [3, 2]
    assert opened.cleaned_offset == 4


@story
async def test_a_trim_removes_what_is_wholly_below(place: Backend) -> None:
    a = await start(place, 2)
    one, two = (each.partition_id for each in a.claimed)
    for base_offset in (0, 2, 4):
        assert await a.append(uuid.uuid4(), [part(a.claimed[0], base_offset, 2)]) == [OK]
    change = Replacement(one, 1, 0, 2, [segment(0, 1, size_bytes=30), segment(1, 2)])
    assert list(await a.sequencer.replace([change], [])) == [True]
    assert list(await a.sequencer.trim([(one, 1, 1), (two, 1, 1), (99, 1, 0)])) == [
        True,
        False,
        False,
    ]
    assert offsets(await a.sequencer.read_runs(one, 0, 10_000)) == [(1, 2), (2, 4), (4, 6)]
    found = await a.sequencer.unclaimed(refs(3))
    assert found == {
        refs(2)[0]: UnclaimedLog(300, 1000, 1, 6),
        refs(2)[1]: UnclaimedLog(0, -1, 0, 0),
    }
    assert list(await a.sequencer.trim([(one, 1, 5), (one, 1, 3)])) == [True, True]
    assert offsets(await a.sequencer.read_runs(one, 0, 10_000)) == [(4, 6)]
    assert list(await a.sequencer.trim([(one, 1, 6)])) == [True]
    assert (await a.sequencer.unclaimed(refs(1)))[refs(1)[0]] == UnclaimedLog(0, -1, 6, 6)
    await a.fill(1, at=6)
    assert offsets(await a.sequencer.read_runs(one, 0, 10_000)) == [(6, 7)]
    b = await take_over(place, a)
    assert (b.claimed[0].start_offset, b.claimed[0].end_offset) == (6, 7)
    assert list(await a.sequencer.trim([(one, 1, 7)])) == [False]


# Replacements.


@story
async def test_segments_take_the_place_of_the_tails_beginning(place: Backend) -> None:
    a = await start(place)
    await a.fill(6)
    one = a.claimed[0].partition_id
    [reserved] = await a.reserve(1)
    made = [segment(0, 3, object_id=reserved.object_id), segment(3, 4, size_bytes=10)]
    written = [WrittenObject(reserved.object_id, 500)]
    assert list(await a.sequencer.replace([Replacement(one, 1, 0, 4, made)], written)) == [True]
    runs = await a.sequencer.read_runs(one, 0, 10_000)
    assert offsets(runs) == [(0, 3), (3, 4), (4, 5), (5, 6)]
    assert (runs[0].object_key, runs[0].epoch, runs[0].flush) == (reserved.key, -1, None)
    assert runs[1].data == b"s" * 10
    assert await a.sequencer.segment_marks(one, 3) == b"marks of 3"
    assert await a.sequencer.segment_marks(one, 2) is None
    assert await a.sequencer.segment_marks(one, 4) is None
    opened = await a.sequencer.open(one, 1)
    assert (offsets(opened.segments), offsets(opened.tail)) == ([(0, 3), (3, 4)], [(4, 5), (5, 6)])
    assert (await a.sequencer.unclaimed(refs(1)))[refs(1)[0]].size_bytes == 310
    # A repetition after a lost answer changes nothing.
    assert list(await a.sequencer.replace([Replacement(one, 1, 0, 4, made)], written)) == [True]
    assert await a.sequencer.read_runs(one, 0, 10_000) == runs


@story
async def test_replacements_fit_exactly_or_change_nothing(place: Backend) -> None:
    a = await start(place)
    one = a.claimed[0].partition_id
    for base_offset in (0, 2, 4, 6):
        await a.append(uuid.uuid4(), [part(a.claimed[0], base_offset, 2)])
    await a.sequencer.replace([Replacement(one, 1, 0, 4, [segment(0, 2), segment(2, 4)])], [])
    before = await a.sequencer.read_runs(one, 0, 10_000)
    for start_offset, end_offset in ((1, 4), (0, 3), (4, 5), (6, 8), (0, 9), (8, 8)):
        change = Replacement(one, 1, start_offset, end_offset, [])
        assert list(await a.sequencer.replace([change], [])) == [False], change
    fenced = Replacement(one, 0, 0, 4, [])
    gone = Replacement(99, 1, 0, 4, [])
    assert list(await a.sequencer.replace([fenced, gone], [])) == [False, False]
    assert await a.sequencer.read_runs(one, 0, 10_000) == before


@story
async def test_segments_and_tail_are_replaced_together(place: Backend) -> None:
    a = await start(place, 2)
    one, two = (each.partition_id for each in a.claimed)
    await a.fill(4)
    await a.fill(2, a.claimed[1])
    await a.sequencer.replace([Replacement(one, 1, 0, 2, [segment(0, 2)])], [])
    changes = [
        Replacement(two, 1, 0, 2, []),
        Replacement(one, 1, 0, 3, [segment(1, 3, size_bytes=7)]),
    ]
    assert list(await a.sequencer.replace(changes, [])) == [True, True]
    assert offsets(await a.sequencer.read_runs(one, 0, 10_000)) == [(1, 3), (3, 4)]
    assert offsets(await a.sequencer.read_runs(two, 0, 10_000)) == []
    assert (await a.sequencer.unclaimed(refs(1)))[refs(1)[0]].size_bytes == 107
    b = await take_over(place, a)
    assert [each.end_offset for each in b.claimed] == [4, 2]
    assert list(await a.sequencer.replace([Replacement(one, 1, 1, 3, [])], [])) == [False]


# Objects and their collection.


@story
async def test_objects_without_an_appended_part_are_dead(place: Backend) -> None:
    a = await start(place)
    used, unused, left, replaced = await a.reserve(4)
    sizes = [WrittenObject(used.object_id, 10), WrittenObject(unused.object_id, 20)]
    parts = [
        part(a.claimed[0], 0, object_id=used.object_id),
        part(a.claimed[0], 7, object_id=unused.object_id),
    ]
    assert await a.append(uuid.uuid4(), parts, sizes) == [OK, MISPLACED]
    await a.sequencer.abandon_objects([used.object_id, left.object_id])
    refused = Replacement(
        a.claimed[0].partition_id, 9, 0, 1, [segment(0, 1, object_id=replaced.object_id)]
    )
    await a.sequencer.replace([refused], [WrittenObject(replaced.object_id, 1)])
    assert list((await a.states()).values()) == [
        ObjectState.LIVE,
        ObjectState.DEAD,
        ObjectState.DEAD,
        ObjectState.DEAD,
    ]
    dead = [part(a.claimed[0], 1, object_id=left.object_id)]
    assert await a.append(uuid.uuid4(), dead, [WrittenObject(left.object_id, 1)]) == [FENCED]


@story
async def test_an_object_is_collected_after_its_last_row(place: Backend) -> None:
    a = await start(place, 2)
    one, two = a.claimed
    [shared] = await a.reserve(1)
    parts = [part(each, 0, object_id=shared.object_id) for each in a.claimed]
    assert await a.append(uuid.uuid4(), parts, [WrittenObject(shared.object_id, 10)]) == [OK, OK]
    await a.sequencer.replace([Replacement(one.partition_id, 1, 0, 1, [segment(0, 1)])], [])
    assert list(await a.sequencer.find_garbage(10)) == []
    assert (await a.states())[shared.object_id] is ObjectState.LIVE
    await a.sequencer.trim([(two.partition_id, 1, 1)])
    assert list(await a.sequencer.find_garbage(10)) == []
    assert (await a.states())[shared.object_id] is ObjectState.DEAD
    await place.advance(GRACE_MS + 1)
    [due] = await a.sequencer.find_garbage(10)
    assert due == (shared.object_id, shared.key, 10, ObjectState.DEAD)
    await a.sequencer.note_deleted([shared.object_id])
    assert list(await a.sequencer.find_garbage(10)) == []
    await place.advance(24 * 3_600_000 + 1)
    [again] = await a.sequencer.find_garbage(10)
    assert (again.object_id, again.state) == (shared.object_id, ObjectState.DELETED)
    await a.sequencer.note_deleted([shared.object_id])
    assert await a.states() == {}


@story
async def test_objects_of_a_deleted_partition_are_collected(place: Backend) -> None:
    a = await start(place)
    first, second = await a.reserve(2)
    one = a.claimed[0]
    for base_offset, reserved in enumerate((first, second)):
        parts = [part(one, base_offset, object_id=reserved.object_id)]
        await a.append(uuid.uuid4(), parts, [WrittenObject(reserved.object_id, 10)])
    moved = segment(0, 1, object_id=first.object_id)
    change = Replacement(one.partition_id, 1, 0, 1, [moved])
    assert list(await a.sequencer.replace([change], [WrittenObject(first.object_id, 10)])) == [True]
    await a.sequencer.find_garbage(10)
    assert set((await a.states()).values()) == {ObjectState.LIVE}
    await a.sequencer.delete(refs(1))
    await a.sequencer.find_garbage(10)
    assert set((await a.states()).values()) == {ObjectState.DEAD}


@story
async def test_reserved_objects_die_ten_minutes_after_their_session(place: Backend) -> None:
    a = await start(place)
    [reserved] = await a.reserve(1)
    b = await take_over(place, a)
    await place.advance(GRACE_MS - 1000)
    await b.sequencer.heartbeat(b.session, 0, 0)
    await b.sequencer.find_garbage(10)
    assert await b.states() == {reserved.object_id: ObjectState.RESERVED}
    await place.advance(1001)
    await b.sequencer.find_garbage(10)
    assert await b.states() == {reserved.object_id: ObjectState.DEAD}
    # A session that held nothing, and that no claim has ended.
    c = await b.sequencer.register(broker("c"))
    [lost] = (await b.sequencer.heartbeat(c.session, 0, 1)).objects
    await place.advance(GRACE_MS + LEASE_MS + 1)
    await b.sequencer.find_garbage(10)
    await place.advance(GRACE_MS + 1)
    await b.sequencer.find_garbage(10)
    assert (await b.states())[lost.object_id] is ObjectState.DEAD


# The ring.


@story
async def test_the_ring_turns_and_keeps_what_counts(place: Backend) -> None:
    a = await start(place)
    one = a.claimed[0].partition_id
    flushes = []
    for offset in range(40):
        flush = uuid.uuid4()
        flushes.append(flush)
        assert await a.append(flush, [part(a.claimed[0], offset)]) == [OK]
        if offset % 3 == 0 and offset:
            change = Replacement(one, 1, offset - 3, offset, [segment(offset - 3, offset)])
            assert list(await a.sequencer.replace([change], [])) == [True]
        await place.advance(30_000)
        assert await a.sequencer.turn_tail()
        runs = await a.sequencer.read_runs(one, 0, 100_000)
        assert [run.base_offset for run in runs] == [
            *range(0, offset - offset % 3 if offset else 0, 3),
            *range(offset - offset % 3 if offset else 0, offset + 1),
        ]
    # A flush is known for four minutes at least, also one that has become a segment.
    for age in range(1, 8):
        place_in_log = len(flushes) - age
        again = [part(a.claimed[0], place_in_log)]
        assert await a.append(flushes[place_in_log], again) == [ALREADY], age
    assert await a.append(flushes[0], [part(a.claimed[0], 0)]) == [MISPLACED]


@story
async def test_what_is_not_replaced_stays_readable_for_hours(place: Backend) -> None:
    a = await start(place)
    [reserved] = await a.reserve(1)
    one = a.claimed[0]
    flush = uuid.uuid4()
    parts = [part(one, 0), part(one, 1, object_id=reserved.object_id)]
    await a.append(flush, parts, [WrittenObject(reserved.object_id, 10)])
    for _ in range(40):
        await place.advance(60_000)
        await a.sequencer.heartbeat(a.session, 0, 0)
        assert await a.sequencer.turn_tail()
        assert list(await a.sequencer.find_garbage(10)) == []
    runs = await a.sequencer.read_runs(one.partition_id, 0, 1000)
    assert offsets(runs) == [(0, 1), (1, 2)]
    assert await a.append(flush, parts, [WrittenObject(reserved.object_id, 10)]) == [ALREADY] * 2
