"""Reads: out of memory what is new, pending what has to be fetched, and damage is not served."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import pytest
from tests.storage.batches import joined, offsets_of, ref_of
from tests.storage.shared.engine.brokers import (
    END,
    QUICK,
    Machine,
    append,
    begin_append,
    claimed,
    read_all,
)
from tests.storage.shared.engine.conftest import Play

from ottla.ports import DamagedError, ReadPendingError, StorageError, StorageUnavailableError
from ottla.ports.futures import when_read
from ottla.storage.shared.errors import ObjectsUnavailableError
from ottla.storage.shared.log.consolidation import consolidate
from ottla.storage.shared.log.partition_log import SharedLog
from ottla.storage.shared.read.tail_cache import BLOCK_OVERHEAD_BYTES
from ottla.storage.shared.store import SharedStore

LARGE = 200_000
TEN_BLOCKS_BYTES = 10 * (100 + BLOCK_OVERHEAD_BYTES)
SMALL_CACHES = replace(QUICK, tail_cache_bytes=TEN_BLOCKS_BYTES, cold_cache_bytes=1000)


async def rewrite_tail(log: SharedLog) -> None:
    """Makes segments of all rows."""
    async with log.replacing:
        assert await consolidate(log, log._parts, log.settled_offset)


def test_what_was_just_appended_is_read_at_once(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, seam = await machine.broker("one")
        log = await claimed(store)
        batches, waits = begin_append(log, 3)
        batches += begin_append(log, 1, body_bytes=LARGE)[0]
        assert bytes(log.read(0, 1 << 20, END)) == joined(batches)
        await asyncio.gather(*waits)
        assert bytes(log.read(0, 1 << 20, END)) == joined(batches)
        assert not seam.calls["read_runs"]

    play(scenario)


def test_the_next_broker_fetches_what_is_there_once_however_many_ask(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, seam = await machine.broker("one")
        log = await claimed(store)
        batches = await append(log, 5) + await append(log, 2, body_bytes=LARGE)
        again = await claimed(store)
        pending = []
        for _ in range(10):
            with pytest.raises(ReadPendingError) as error:
                again.read(0, 1 << 20, END)
            pending.append(error.value.done)
        await asyncio.wait(pending)
        assert seam.calls["read_runs"] == 1
        assert await read_all(again) == joined(batches)
        assert seam.calls["read_runs"] == 1, "what lies behind it was fetched with it"

    play(scenario)


def test_laggards_do_not_push_the_newest_batches_out(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, seam = await machine.broker("one", SMALL_CACHES)
        log = await claimed(store)
        batches = [batch for _ in range(30) for batch in await append(log)]
        assert store.tails.size_bytes <= TEN_BLOCKS_BYTES
        assert await read_all(log) == joined(batches)
        calls = seam.calls["read_runs"]
        assert calls
        assert bytes(log.read(25, 1 << 20, END)) == joined(batches[25:])
        assert seam.calls["read_runs"] == calls
        assert store._reads.cache.size_bytes <= 1000

    play(scenario)


def test_batches_that_are_not_settled_are_never_evicted(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, seam = await machine.broker("one", SMALL_CACHES)
        log, other = await claimed(store), await claimed(store, ref_of(partition=1))
        held = seam.hold("append")
        batches, waits = begin_append(log, 30)
        waits += begin_append(other, 30)[1]
        assert bytes(log.read(0, 1 << 20, END)) == joined(batches)
        held.set()
        await asyncio.gather(*waits)
        await append(other)
        assert store.tails.size_bytes <= TEN_BLOCKS_BYTES + 5000

    play(scenario)


def test_rewritten_batches_are_read_from_wherever_they_are(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, seam = await machine.broker("one")
        log = await claimed(store)
        batches = await append(log, 5) + await append(log, 20, body_bytes=LARGE)
        log.roll()
        batches += await append(log, 5)
        rows = len(log.runs)
        segments = log.segments()
        await rewrite_tail(log)
        assert len(log.runs) == 2 < rows
        assert log.segments() == segments
        batches += await append(log, 5)
        assert await read_all(log) == joined(batches), "out of memory"
        assert not seam.calls["read_runs"]
        again = await claimed(store)
        assert again.segments() == log.segments()
        assert await read_all(again) == joined(batches)
        for offset in (0, 4, 7, 24, 26, 33):
            found = await when_read(partial(again.read, offset, 0, END))
            assert offsets_of(found) == [offset]
            at_time = await when_read(partial(again.batch_at_timestamp, 1000 + offset, 0))
            assert at_time is not None
            assert offsets_of(at_time) == [offset]
        largest = await when_read(again.batch_of_max_timestamp)
        assert largest is not None
        assert offsets_of(largest) == [34]

    play(scenario)


def test_of_a_large_segment_only_the_part_around_an_offset_is_fetched(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, _ = await machine.broker("one", replace(QUICK, read_ahead_bytes=100_000))
        log = await claimed(store)
        for _ in range(10):
            await append(log, 10, body_bytes=LARGE)
        await rewrite_tail(log)
        again = await claimed(store)
        await when_read(partial(again.read, 50, 0, END))
        assert store.metrics.cold_bytes < 1_000_000
        counts = store._reads.ranges.counts
        assert counts.request_bytes < 3_000_000

    play(scenario)


def test_parts_of_a_segment_that_overlap_are_read_in_any_order(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, _ = await machine.broker("one", replace(QUICK, read_ahead_bytes=500_000))
        log = await claimed(store)
        for _ in range(3):
            await append(log, 10, body_bytes=LARGE)
        await rewrite_tail(log)
        again = await claimed(store)
        for offset in (20, 18, 19, 29, 0, 27, 1, 12, 10, 11, 14):
            read = partial(again.read, offset, 0, END)
            assert offsets_of(await asyncio.wait_for(when_read(read), 10)) == [offset]

    play(scenario)


async def _lose_objects(store: SharedStore, machine: Machine) -> SharedLog:
    log = await claimed(store)
    await append(log, 1, body_bytes=LARGE)
    return await claimed(store)


def test_a_lost_object_takes_the_partition_offline(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, _ = await machine.broker("one")
        log = await _lose_objects(store, machine)
        machine.objects.stored.clear()
        with pytest.raises(DamagedError, match="lost an object"):
            await asyncio.wait_for(when_read(partial(log.read, 0, 1000, END)), 10)
        assert not log.is_open

    play(scenario)


def test_a_damaged_object_is_not_served(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, _ = await machine.broker("one")
        log = await _lose_objects(store, machine)
        machine.objects.stored = {
            key: data[:64] + bytes(100) + data[164:] for key, data in machine.objects.stored.items()
        }
        with pytest.raises(DamagedError, match="damaged"):
            await asyncio.wait_for(when_read(partial(log.read, 0, 1000, END)), 10)

    play(scenario)


def test_an_object_store_that_is_away_ends_no_claim(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, _ = await machine.broker("one", replace(QUICK, read_budget_seconds=0.05))
        log = await _lose_objects(store, machine)
        good = machine.objects.fault

        async def away(*_: object) -> None:
            raise ObjectsUnavailableError("503")

        machine.objects.fault = away  # type: ignore[assignment]
        with pytest.raises(StorageUnavailableError, match="cannot be read now"):
            await asyncio.wait_for(when_read(partial(log.read, 0, 1000, END)), 10)
        assert log.is_open
        machine.objects.fault = good
        found = await asyncio.wait_for(when_read(partial(log.read, 0, 1000, END)), 10)
        assert offsets_of(found) == [0]

    play(scenario)


def test_the_tail_is_rewritten_by_itself_and_old_objects_are_deleted(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, _ = await machine.broker("one")
        logs = [await claimed(store, ref_of(partition=number)) for number in range(4)]
        made = [await append(log, 3) + await append(log, 1, body_bytes=LARGE) for log in logs]
        before = dict(machine.objects.stored)
        machine.clock.value_ms += 61_000
        store.tick(machine.clock.value_ms)
        for _ in range(1000):
            if store.metrics.consolidated_logs == 4:
                break
            await asyncio.sleep(0.002)
        assert [len(log.runs) for log in logs] == [1, 1, 1, 1]
        (new,) = set(machine.objects.stored) - set(before)
        for _ in range(40):
            machine.clock.value_ms += 61_000
            assert await store.session.beat()
            store.tick(machine.clock.value_ms)
            await asyncio.sleep(0.005)
        assert set(machine.objects.stored) == {new}
        for log, batches in zip(logs, made, strict=True):
            again = await claimed(store, log.ref)
            assert await read_all(again) == joined(batches)

    play(scenario)


def test_compaction_is_not_undone_by_a_rewrite_of_the_tail(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, _ = await machine.broker("one")
        log = await claimed(store)
        batches = await append(log, 10)
        log.roll()
        batches += await append(log, 3)
        replacement = log.begin_replacement([0])
        machine.clock.value_ms += 61_000
        store.tick(machine.clock.value_ms)
        await asyncio.sleep(0.02)
        assert store.metrics.consolidated_logs == 0, "not while it is being replaced"
        replacement.append(batches[3].data, [batches[3].extent])
        await replacement.flush()
        assert await replacement.commit()
        store.tick(machine.clock.value_ms)
        for _ in range(1000):
            if store.metrics.consolidated_logs:
                break
            await asyncio.sleep(0.002)
        for _ in range(2):
            assert await read_all(log) == joined([batches[3], *batches[10:]])
            assert [info.base_offset for info in log.segments()] == [0, 10]
            log = await claimed(store)

    play(scenario)


def test_a_read_during_a_trim_of_everything_finds_no_damage(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, seam = await machine.broker("one")
        await append(await claimed(store), 3)
        log = await claimed(store)
        held = seam.hold("read_runs")
        with pytest.raises(ReadPendingError) as pending:
            log.read(0, 1000, END)
        await log.trim(3)
        held.set()
        await asyncio.wait_for(pending.value.done, 10)
        assert log.read(0, 1000, END) == b""
        assert log.is_open

    play(scenario)


def test_a_log_that_cannot_be_read_holds_up_no_other(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, _ = await machine.broker("one")
        await append(await claimed(store), 1, body_bytes=LARGE)
        machine.objects.stored.clear()
        damaged, sound = await claimed(store), await claimed(store, ref_of(partition=1))
        await append(sound, 3)
        machine.clock.value_ms += 61_000
        for _ in range(3):
            store.tick(machine.clock.value_ms)
            for _ in range(1000):
                if store.metrics.consolidated_logs == 1:
                    break
                await asyncio.sleep(0.002)
        assert len(sound.runs.rows()) == 0
        assert len(damaged.runs.rows()) == 1

    play(scenario)


def test_deletions_are_one_call_and_the_catalog_waits_for_them(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        one, seam = await machine.broker("one")
        two, other = await machine.broker("two")
        log = await claimed(one)
        other.hold("holders")
        unseen = await claimed(one, ref_of(partition=1))
        for number in range(3):
            two.delete(ref_of(partition=number))
        await asyncio.wait_for(two.catalog.commit({"deleted": True}, 0), 10)
        assert other.calls["delete"] == 1
        assert not machine.state.partitions
        for each in (log, unseen):
            with pytest.raises(StorageError):
                await append(each)
        assert seam.calls["delete"] == 0
        other.held["holders"].set()

    play(scenario)
