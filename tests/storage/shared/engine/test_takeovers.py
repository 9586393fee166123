"""Another broker takes over: its log has what the first acknowledged, and nothing else of that one follows."""

from __future__ import annotations

import asyncio

import pytest
from tests.storage.batches import joined, make_batch, ref_of
from tests.storage.shared.engine.brokers import (
    CONFIG,
    Machine,
    append,
    begin_append,
    claimed,
    read_all,
)
from tests.storage.shared.engine.conftest import Play

from ottla.ports import ClaimPendingError, FencedError, Snapshot
from ottla.storage.shared.errors import HeldElsewhereError

LARGE = 200_000


def test_nobody_takes_a_partition_from_a_live_broker(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        one, _ = await machine.broker("one")
        two, _ = await machine.broker("two")
        log = await claimed(one)
        with pytest.raises(HeldElsewhereError):
            await claimed(two)
        await append(log)

    play(scenario)


@pytest.mark.parametrize("body_bytes", [39, LARGE])
def test_a_paused_brokers_appends_are_fenced(play: Play, body_bytes: int) -> None:
    async def scenario(machine: Machine) -> None:
        one, paused = await machine.broker("one")
        two, _ = await machine.broker("two")
        log = await claimed(one)
        batches = await append(log, 2, body_bytes=body_bytes)
        paused.hold("heartbeat")
        held = paused.hold("append")
        waits = begin_append(log, 2, body_bytes=body_bytes)[1]
        await machine.pass_lease(two)
        successor = await claimed(two)
        assert successor.epoch > log.epoch
        batches += await append(successor)
        held.set()
        for wait in waits:
            with pytest.raises(FencedError):
                await asyncio.wait_for(wait, 10)
        assert not log.is_open
        batches += await append(successor)
        assert await read_all(successor) == joined(batches)
        paused.held["heartbeat"].set()

    play(scenario)


@pytest.mark.parametrize("body_bytes", [39, LARGE])
def test_what_was_committed_before_a_takeover_is_acknowledged_and_there(
    play: Play, body_bytes: int
) -> None:
    """The answer is lost, another broker claims, and the repetition still finds out that it was appended."""

    async def scenario(machine: Machine) -> None:
        one, paused = await machine.broker("one")
        two, _ = await machine.broker("two")
        log = await claimed(one)
        held = asyncio.Event()

        async def lose_answer(method: str) -> None:
            if method == "append":
                await held.wait()
                paused.lost_after["append"] = 1
                await type(paused).after(paused, method)

        paused.after = lose_answer  # type: ignore[method-assign]
        batches, waits = begin_append(log, 2, body_bytes=body_bytes)
        while not paused.calls["append"]:
            await asyncio.sleep(0.001)
        paused.hold("heartbeat")
        await machine.pass_lease(two)
        successor = await claimed(two)
        assert successor.end_offset == 2
        paused.after = type(paused).after.__get__(paused)  # type: ignore[method-assign]
        held.set()
        await asyncio.wait_for(asyncio.gather(*waits), 10)
        assert one.metrics.already_answers == 1
        assert await read_all(successor) == joined(batches)
        paused.held["heartbeat"].set()

    play(scenario)


def test_a_fenced_partition_holds_up_no_other_of_its_flush(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        one, paused = await machine.broker("one")
        two, _ = await machine.broker("two")
        lost, kept = await claimed(one), await claimed(one, ref_of(partition=1))
        paused.hold("heartbeat")
        held = paused.hold("append")
        lost_waits = begin_append(lost)[1]
        kept_waits = begin_append(kept)[1]
        await machine.pass_lease(two)
        await claimed(two)
        held.set()
        with pytest.raises(FencedError):
            await asyncio.wait_for(lost_waits[0], 10)
        await asyncio.wait_for(kept_waits[0], 10)
        paused.held["heartbeat"].set()

    play(scenario)


def test_a_second_claim_of_one_broker_fences_its_first(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, seam = await machine.broker("one")
        log = await claimed(store)
        batches = await append(log)
        held = seam.hold("append")
        waits = begin_append(log)[1]
        await asyncio.sleep(0.01)
        with pytest.raises(ClaimPendingError) as pending:
            store.claim(ref_of(), CONFIG)
        assert not log.is_open
        await pending.value.done
        again = store.claim(ref_of(), CONFIG)
        assert (again.epoch, again.end_offset) == (log.epoch + 1, 1)
        held.set()
        with pytest.raises(FencedError):
            await asyncio.wait_for(waits[0], 10)
        batches += await append(again)
        assert await read_all(again) == joined(batches)

    play(scenario)


def test_a_broker_that_learns_of_a_takeover_gives_up_before_it_appends(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        one, paused = await machine.broker("one")
        two, _ = await machine.broker("two")
        log = await claimed(one)
        await append(log)
        paused.hold("heartbeat")
        await machine.pass_lease(two)
        await claimed(two)
        paused.held["heartbeat"].set()
        for _ in range(1000):
            if not log.is_open:
                break
            await asyncio.sleep(0.002)
        holding = one.leases.holding(ref_of())
        assert holding is not None
        assert not holding.is_own
        with pytest.raises(FencedError):
            begin_append(log)
        assert one.metrics.lost_sessions == 1
        for _ in range(1000):
            if one.session.may_lead():
                break
            await asyncio.sleep(0.002)
        await append(await claimed(one, ref_of(partition=1)))

    play(scenario)


def test_nothing_of_a_fenced_broker_changes_a_partition(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        one, paused = await machine.broker("one")
        two, _ = await machine.broker("two")
        paused.hold("notifications")
        logs = [await claimed(one, ref_of(partition=number)) for number in range(5)]
        for log in logs:
            await append(log, 3)
            log.roll()
            await append(log, 3)
        paused.hold("heartbeat")
        paused.hold("holders")
        await machine.pass_lease(two)
        successors = [await claimed(two, ref_of(partition=number)) for number in range(5)]
        before = [(log.start_offset, log.segments(), list(log.snapshots())) for log in successors]
        changes = [
            logs[0].trim(2),
            logs[1].save_snapshot(Snapshot(3, b"stale")),
            logs[2].save_cleaned_offset(2),
        ]
        for change in changes:
            assert change is not None
            with pytest.raises(FencedError):
                await asyncio.wait_for(change, 10)
        replacement = logs[3].begin_replacement([0])
        batch = make_batch(1, epoch=1)
        replacement.append(batch.data, [batch.extent])
        await replacement.flush()
        with pytest.raises(FencedError):
            await asyncio.wait_for(replacement.commit(), 10)
        (error,) = await one.trim_all({logs[4]: 2})
        assert isinstance(error, FencedError)
        for number in range(5):
            again = await claimed(two, ref_of(partition=number))
            found = again.start_offset, again.segments(), list(again.snapshots())
            assert found == before[number]
        paused.held["heartbeat"].set()
        paused.held["holders"].set()

    play(scenario)


def test_a_clean_stop_leaves_partitions_to_others_at_once(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        one, _ = await machine.broker("one")
        two, _ = await machine.broker("two")
        log = await claimed(one)
        batches, waits = begin_append(log, 3)
        log.save_snapshot(Snapshot(3, b"at close"))
        await asyncio.wait_for(one.close(), 10)
        await asyncio.gather(*waits)
        successor = await claimed(two)
        assert await read_all(successor) == joined(batches)
        assert list(successor.snapshots()) == [(3, b"at close")]

    play(scenario)


def test_partitions_are_claimed_and_released_in_bulk_with_a_successor(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        one, seam = await machine.broker("one")
        two, _ = await machine.broker("two")
        refs = [ref_of(partition=number) for number in range(1200)]
        await one.leases.claim(refs)
        assert seam.calls["claim"] == 3
        log = await claimed(one, refs[7])
        assert log.epoch == 1, "the claim that was made before"
        waits = begin_append(log)[1]
        await one.leases.release(dict.fromkeys(refs[:10], two.session.node_id))
        assert waits[0].done()
        for _ in range(1000):
            holding = two.leases.holding(refs[7])
            if holding is not None and not holding.is_held:
                break
            await asyncio.sleep(0.002)
        assert holding is not None
        assert (holding.wanted_node, holding.epoch) == (two.session.node_id, 1)
        await two.leases.claim(refs[:10])
        taken = two.leases.holding(refs[7])
        assert taken is not None
        assert taken.is_own
        assert taken.epoch == 2
        await append(await claimed(two, refs[7]))

    play(scenario)


def test_a_claim_that_failed_or_was_lost_is_made_again(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        one, _ = await machine.broker("one")
        two, _ = await machine.broker("two")
        await claimed(one)
        with pytest.raises(ClaimPendingError) as pending:
            two.claim(ref_of(), CONFIG)
        await pending.value.done  # it has failed, and nobody asks why
        await one.leases.release({ref_of(): None})
        await two.leases.claim([ref_of()])
        holding = two.leases.holding(ref_of())
        assert holding is not None
        assert (holding.is_own, holding.epoch) == (True, 2)
        await two.leases.claim([ref_of()])
        assert two.leases.holding(ref_of()) == holding, "one that is held is not claimed again"
        assert (await claimed(two)).epoch == 2

    play(scenario)
