"""The two lanes: what goes where, in which order it is settled, and what becomes of failures."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import pytest
from tests.storage.batches import joined, make_batch, ref_of
from tests.storage.shared.engine.brokers import (
    QUICK,
    LostPuts,
    Machine,
    SlowPuts,
    append,
    begin_append,
    claimed,
    read_all,
)
from tests.storage.shared.engine.conftest import Play

from ottla.core.aborted import AbortedSpan
from ottla.core.catalog import GROUPS_TOPIC
from ottla.ports import StorageError
from ottla.storage.shared.sequencer.records import ObjectState

LARGE = 200_000


def test_small_flushes_are_inline_and_large_ones_are_objects(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, _ = await machine.broker("one")
        log = await claimed(store)
        batches = await append(log, 3)
        assert not machine.objects.stored
        batches += await append(log, 2, body_bytes=LARGE)
        assert machine.objects.stored
        assert await read_all(log) == joined(batches)

    play(scenario)


def test_internal_topics_never_wait_for_the_object_store(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, _ = await machine.broker("one")
        machine.objects.fault = LostPuts(refused=1_000_000)
        log = await claimed(store, ref_of(GROUPS_TOPIC))
        await append(log, 3, body_bytes=LARGE)
        assert not machine.objects.stored

    play(scenario)


def test_appends_of_one_turn_are_one_commit_of_all_partitions(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, seam = await machine.broker("one")
        logs = [await claimed(store, ref_of(partition=number)) for number in range(20)]
        waits = [wait for log in logs for wait in begin_append(log, 5)[1]]
        await asyncio.gather(*waits)
        assert seam.calls["append"] == 1

    play(scenario)


def test_what_is_appended_during_a_commit_is_the_next_flush(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, seam = await machine.broker("one")
        log = await claimed(store)
        held = seam.hold("append")
        first = begin_append(log)[1]
        await asyncio.sleep(0.01)
        later = [wait for _ in range(10) for wait in begin_append(log)[1]]
        await asyncio.sleep(0.01)
        assert seam.calls["append"] == 1
        assert store.metrics.unsettled_bytes == 1100
        held.set()
        await asyncio.gather(*first, *later)
        assert seam.calls["append"] == 2
        assert store.metrics.unsettled_bytes == 0

    play(scenario)


def test_a_partition_that_changes_to_objects_is_settled_in_order(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, seam = await machine.broker("one")
        log = await claimed(store)
        held = seam.hold("append")
        batches, small = begin_append(log)
        await asyncio.sleep(0.01)
        more, large = begin_append(log, 3, body_bytes=LARGE)
        await asyncio.sleep(0.02)
        assert machine.objects.stored, "it is put meanwhile"
        assert seam.calls["append"] == 1, "and committed after what was before it"
        settled: list[int] = []

        def note(number: int, _: asyncio.Future[None]) -> None:
            settled.append(number)

        for number, wait in enumerate(small + large):
            wait.add_done_callback(partial(note, number))
        held.set()
        await asyncio.gather(*small, *large)
        await asyncio.sleep(0)
        assert settled == sorted(settled)
        assert await read_all(log) == joined(batches + more)

    play(scenario)


def test_a_partition_that_is_always_in_flight_goes_over_to_objects(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, seam = await machine.broker("one")
        log = await claimed(store)
        held = seam.hold("append")
        batches, waits = begin_append(log)
        await asyncio.sleep(0.01)
        for _ in range(400):
            more, later = begin_append(log, body_bytes=939)
            batches += more
            waits += later
        await asyncio.sleep(0.02)
        assert machine.objects.stored
        held.set()
        await asyncio.gather(*waits)
        assert await read_all(log) == joined(batches)
        sizes = [row.run.size_bytes for row in machine.state.partitions[log.partition_id].rows]
        assert len(sizes) == 3
        assert sizes[1] <= QUICK.inline_flush_bytes
        assert await read_all(await claimed(store)) == joined(batches)

    play(scenario)


def test_while_the_object_store_is_slow_more_goes_inline(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, _ = await machine.broker("one", replace(QUICK, slow_put_seconds=0.02))
        stuck, other = await claimed(store), await claimed(store, ref_of(partition=1))
        machine.objects.fault = slow = SlowPuts(100)
        waits = begin_append(stuck, body_bytes=LARGE)[1]
        await asyncio.sleep(0.05)
        await append(other, 2, body_bytes=LARGE)
        assert not waits[0].done()
        slow.go.set()
        await asyncio.gather(*waits)

    play(scenario)


def test_what_is_in_flight_to_objects_is_not_overtaken_inline(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, _ = await machine.broker("one", replace(QUICK, slow_put_seconds=10.0))
        log = await claimed(store)
        machine.objects.fault = slow = SlowPuts(1)
        batches, large = begin_append(log, body_bytes=LARGE)
        await asyncio.sleep(0.01)
        more, small = begin_append(log)
        await asyncio.sleep(0.02)
        assert not small[0].done()
        slow.go.set()
        await asyncio.gather(*large, *small)
        assert await read_all(log) == joined(batches + more)
        await append(log)
        assert slow.puts == 2, "with nothing in flight it is inline again"

    play(scenario)


def test_no_append_is_acknowledged_before_its_commit(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, seam = await machine.broker("one")
        log = await claimed(store)
        for body_bytes in (39, LARGE):
            held = seam.hold("append")
            waits = begin_append(log, body_bytes=body_bytes)[1]
            await asyncio.sleep(0.02)
            assert not waits[0].done()
            assert log.settled_offset == log.end_offset - 1
            held.set()
            await asyncio.gather(*waits)
            assert log.settled_offset == log.end_offset

    play(scenario)


@pytest.mark.parametrize("fault", ["refused", "unanswered"])
def test_a_put_that_fails_is_made_again_under_another_id(play: Play, fault: str) -> None:
    async def scenario(machine: Machine) -> None:
        store, _ = await machine.broker("one")
        log = await claimed(store)
        machine.objects.fault = LostPuts(**{fault: 2})
        batches = await append(log, 2, body_bytes=LARGE)
        assert await read_all(log) == joined(batches)
        assert store.metrics.failed_puts == 2
        store.tick(0)
        await asyncio.sleep(0.05)
        states = [each.state for each in machine.state.objects.values()]
        assert states.count(ObjectState.DEAD) == 2, "the others are collected"

    play(scenario)


def test_a_slow_put_is_hedged(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, _ = await machine.broker("one")
        log = await claimed(store)
        await append(log, body_bytes=LARGE)
        machine.objects.fault = slow = SlowPuts(1)
        await append(log, body_bytes=LARGE)
        assert slow.puts == 2
        assert store.metrics.hedged_puts == 1
        slow.go.set()
        await asyncio.sleep(0.01)
        assert len(machine.objects.stored) == 3, "the late one is stored too, and of no use"

    play(scenario)


def test_when_the_budget_of_puts_has_ended_the_claim_is_over(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, _ = await machine.broker("one", replace(QUICK, write_budget_seconds=0.02))
        log = await claimed(store)
        other = await claimed(store, ref_of(partition=1))
        machine.objects.fault = LostPuts(refused=1_000_000)
        waits = begin_append(log, body_bytes=LARGE)[1]
        with pytest.raises(StorageError, match="not stored"):
            await asyncio.wait_for(waits[0], 10)
        assert not log.is_open
        await append(other)
        again = await claimed(store)
        assert again.end_offset == 0

    play(scenario)


def test_an_aborted_transaction_is_stored_with_its_marker(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, _ = await machine.broker("one")
        log = await claimed(store)
        span = AbortedSpan(7, 0, 1, 2)
        waits = begin_append(log, 2)[1]
        log.note_aborted(span)
        await asyncio.gather(*waits)
        assert list((await claimed(store)).aborted(0)) == [span]

    play(scenario)


def test_a_large_batch_does_not_hold_up_small_ones_beside_it(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, _ = await machine.broker("one")
        large, small = await claimed(store), await claimed(store, ref_of(partition=1))
        machine.objects.fault = slow = SlowPuts(100)
        waits = begin_append(large, body_bytes=LARGE)[1]
        await append(small, 3)
        assert not waits[0].done()
        slow.go.set()
        await asyncio.gather(*waits)

    play(scenario)


def test_the_first_batches_of_a_segment_are_a_run_of_their_own(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, _ = await machine.broker("one")
        log = await claimed(store)
        waits = begin_append(log, 2)[1]
        log.roll()
        waits += begin_append(log, 2)[1]
        log.roll()
        batch = make_batch(4, body=b"x" * LARGE, epoch=log.epoch)
        waits.append(log.append(batch.data, [batch.extent], 4))
        await asyncio.gather(*waits)
        assert [info.base_offset for info in log.segments()] == [0, 2, 4]
        again = await claimed(store)
        assert again.segments() == log.segments()

    play(scenario)
