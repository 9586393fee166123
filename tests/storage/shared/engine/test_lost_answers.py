"""The sequencer does not answer: nothing is guessed, nothing is done twice, and what was acknowledged is there."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.storage.batches import joined, ref_of
from tests.storage.shared.engine.brokers import (
    QUICK,
    Machine,
    append,
    begin_append,
    claimed,
    read_all,
)
from tests.storage.shared.engine.conftest import Play

from ottla.ports import DamagedError, Snapshot, StorageError

LARGE = 200_000


@pytest.mark.parametrize("where", ["lost_before", "lost_after"])
@pytest.mark.parametrize("body_bytes", [39, LARGE])
def test_an_append_is_made_once(play: Play, where: str, body_bytes: int) -> None:
    async def scenario(machine: Machine) -> None:
        store, seam = await machine.broker("one")
        log = await claimed(store)
        batches = []
        for _ in range(3):
            getattr(seam, where)["append"] = 2
            batches += await append(log, 2, body_bytes=body_bytes)
        assert await read_all(log) == joined(batches)
        again = await claimed(store)
        assert await read_all(again) == joined(batches)
        assert store.metrics.repeated_commits >= 6

    play(scenario)


@pytest.mark.parametrize("where", ["lost_before", "lost_after"])
@pytest.mark.parametrize(
    "method",
    [
        "claim",
        "open",
        "trim",
        "save_snapshot",
        "save_cleaned_offset",
        "replace",
        "commit_catalog",
        "catalog_changes",
        "release",
        "delete",
        "read_runs",
        "heartbeat",
        "holders",
    ],
)
def test_every_call_may_be_lost(play: Play, where: str, method: str) -> None:
    async def scenario(machine: Machine) -> None:
        store, seam = await machine.broker("one")
        other, _ = await machine.broker("two")
        getattr(seam, where)[method] = 1
        log = await claimed(store)
        batches = await append(log, 5)
        log.roll()
        batches += await append(log, 5)
        saved = log.save_snapshot(Snapshot(5, b"five"))
        assert saved is not None
        await saved
        await log.save_cleaned_offset(3)
        replacement = log.begin_replacement([0])
        replacement.append(joined(batches[1:5]), [batch.extent for batch in batches[1:5]])
        await replacement.flush()
        # After a lost answer it is not known to have been made.
        await replacement.commit()
        revision = await other.catalog.commit({"topic": 1}, store.catalog.revision)
        while store.catalog.revision < revision:
            await asyncio.sleep(0.001)
        await store.catalog.commit({"topic": 2}, revision)
        assert await read_all(log) == joined(batches[1:])
        await log.trim(7)
        again = await claimed(store)
        assert (again.start_offset, again.end_offset, again.cleaned_offset) == (7, 10, 3)
        assert await read_all(again) == joined(batches[7:])
        await append(again)
        doomed = await claimed(store, ref_of(partition=1))
        await append(doomed)
        store.delete(doomed.ref)
        await store.catalog.commit({"topic": None}, store.catalog.revision)
        await store.leases.release({again.ref: None})
        while seam.lost_before[method] > 0 or seam.lost_after[method] > 0:
            await store.session.beat()
            await store.holders.catch_up()
        successor = await claimed(other)
        assert successor.end_offset == 11

    play(scenario)


def test_an_outage_is_waited_out(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, seam = await machine.broker("one")
        log = await claimed(store)
        batches = await append(log)
        seam.is_down = True
        more, waits = begin_append(log, 3)
        await asyncio.sleep(0.02)
        assert not waits[0].done()
        assert bytes(log.read(0, 1000, 1)) == joined(batches), "what is in memory is still read"
        seam.is_down = False
        await asyncio.wait_for(asyncio.gather(*waits), 10)
        assert await read_all(log) == joined(batches + more)

    play(scenario)


def test_without_reserved_objects_large_appends_wait(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, seam = await machine.broker("one", replace(QUICK, objects_reserved=2))
        log = await claimed(store)
        seam.lost_before["heartbeat"] = 1_000_000
        batches = await append(log, 1, body_bytes=LARGE)
        more, waits = begin_append(log, 3, body_bytes=2_000_000)
        await asyncio.sleep(0.05)
        later, late = begin_append(log, 3, body_bytes=2_000_000)
        await asyncio.sleep(0.05)
        assert not late[-1].done()
        seam.lost_before.clear()
        await asyncio.wait_for(asyncio.gather(*waits, *late), 10)
        assert await read_all(log) == joined(batches + more + later)

    play(scenario)


def test_when_the_budget_has_ended_the_claim_is_over_and_the_next_one_knows(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, seam = await machine.broker("one", replace(QUICK, write_budget_seconds=0.02))
        log = await claimed(store)
        batches = await append(log)
        seam.lost_after["append"] = 1_000_000
        more, waits = begin_append(log)
        with pytest.raises(StorageError, match="unknown"):
            await asyncio.wait_for(waits[0], 10)
        assert not log.is_open
        seam.lost_after.clear()
        again = await claimed(store)
        assert await read_all(again) == joined(batches + more), "it was appended"

    play(scenario)


def test_a_sequencer_that_has_lost_acknowledged_records_is_noticed(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, seam = await machine.broker("one")
        idle, busy = await claimed(store), await claimed(store, ref_of(partition=1))
        await append(idle, 2)
        await append(busy, 2)
        seam.is_down = True
        assert not await store.session.beat()
        for partition in machine.state.partitions.values():
            del partition.rows[-1]
            partition.end_offset = 1
        seam.is_down = False
        with pytest.raises(DamagedError, match="acknowledged"):
            await append(busy)
        assert await store.session.beat()
        for _ in range(1000):
            if not idle.is_open:
                break
            await asyncio.sleep(0.002)
        assert isinstance(idle.lost, DamagedError)
        with pytest.raises(DamagedError, match="acknowledged"):
            await claimed(store)

    play(scenario)
