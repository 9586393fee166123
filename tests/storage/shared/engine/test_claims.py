"""Claims that meet deletions, releases and ends of sessions on their way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.storage.batches import joined, ref_of
from tests.storage.shared.engine.brokers import (
    CONFIG,
    QUICK,
    Machine,
    Seam,
    append,
    claimed,
    read_all,
)
from tests.storage.shared.engine.conftest import Play

from ottla.ports import ClaimPendingError, DamagedError, FencedError, PartitionRef, StorageError
from ottla.storage.shared.store import SharedStore

OLD, NEW = ref_of(number=1), ref_of(number=2)


def follow_topics(store: SharedStore) -> None:
    """As a broker does: the catalog's "topics" are the ids (as numbers) of those that exist."""

    def exists(ref: PartitionRef) -> bool:
        topics = store.catalog.entries().get("topics", [])
        assert isinstance(topics, list)
        return ref.topic_id.int in topics

    store.leases.follow(lambda: None, lambda: None, exists)


async def set_topics(store: SharedStore, *numbers: int) -> None:
    await asyncio.wait_for(
        store.catalog.commit({"topics": list(numbers)}, store.catalog.revision), 10
    )


async def two_brokers(machine: Machine) -> tuple[SharedStore, Seam, SharedStore]:
    """The first does nothing of its own accord that the test does not ask for."""
    one, seam = await machine.broker("one")
    two, _ = await machine.broker("two", replace(QUICK, apply_seconds=0.02))
    one.session.abandon()
    assert await one.session.beat()
    for store in (one, two):
        follow_topics(store)
    return one, seam, two


def begin_opening(store: SharedStore, ref: PartitionRef) -> asyncio.Future[None]:
    with pytest.raises(ClaimPendingError) as pending:
        store.claim(ref, CONFIG)
    done = pending.value.done
    assert isinstance(done, asyncio.Future)
    return done


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise TimeoutError


def is_own(store: SharedStore, ref: PartitionRef) -> bool:
    holding = store.leases.holding(ref)
    return holding is not None and holding.is_own


@pytest.mark.parametrize("is_held", [True, False])
def test_an_old_catalog_deletes_no_newer_topic(play: Play, is_held: bool) -> None:
    """The table of holders may be ahead of the catalog: a namesake may be the newer one."""

    async def scenario(machine: Machine) -> None:
        one, _, two = await two_brokers(machine)
        await set_topics(two, OLD.topic_id.int)
        await one.catalog.catch_up()
        if is_held:
            await one.leases.claim([OLD])
        await set_topics(two, NEW.topic_id.int)
        newer = await claimed(two, NEW)
        batches = await append(newer, 3)
        await one.holders.catch_up()
        await asyncio.wait_for(begin_opening(one, OLD), 10)
        await append(newer)
        assert (await read_all(newer)).startswith(joined(batches))
        assert (await claimed(two, NEW)).end_offset == 4

    play(scenario)


def test_the_newest_catalog_deletes_older_topics_of_the_name(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        one, _, two = await two_brokers(machine)
        await set_topics(two, OLD.topic_id.int)
        old = await claimed(two, OLD)
        await append(old, 3)
        await set_topics(two, NEW.topic_id.int)
        await one.catalog.catch_up()
        await one.holders.catch_up()
        await claimed(one, NEW)
        assert [each.ref for each in machine.state.partitions.values()] == [NEW]

    play(scenario)


@pytest.mark.parametrize("is_bulk", [True, False])
def test_a_claim_that_catches_up_does_not_revive_a_deleted_topic(play: Play, is_bulk: bool) -> None:
    async def scenario(machine: Machine) -> None:
        one, _, two = await two_brokers(machine)
        await set_topics(two, OLD.topic_id.int)
        await one.catalog.catch_up()
        await set_topics(two)
        two.delete(OLD)
        await set_topics(two, 7)
        if is_bulk:
            await one.leases.claim([OLD, ref_of("other", number=7)])
            assert is_own(one, ref_of("other", number=7))
        else:
            await asyncio.wait_for(begin_opening(one, OLD), 10)
            with pytest.raises(StorageError, match="deleted"):
                one.claim(OLD, CONFIG)
        assert OLD not in [each.ref for each in machine.state.partitions.values()]
        assert one.leases.holding(OLD) is None

    play(scenario)


@pytest.mark.parametrize("is_open", [True, False])
def test_a_partition_that_is_released_while_it_is_opened_is_led_by_the_next(
    play: Play, is_open: bool
) -> None:
    async def scenario(machine: Machine) -> None:
        one, seam, two = await two_brokers(machine)
        await set_topics(two, OLD.topic_id.int)
        await one.catalog.catch_up()
        await one.leases.claim([OLD])
        held = seam.hold("open")
        opened = begin_opening(one, OLD)
        await until(lambda: seam.calls["open"] > 0)
        if is_open:
            held.set()
            await opened
        release = asyncio.ensure_future(one.leases.release({OLD: two.session.node_id}))
        await asyncio.sleep(0.01)
        if not is_open:
            with pytest.raises(FencedError):
                one.claim(OLD, CONFIG)
            assert not release.done()
        held.set()
        await asyncio.wait_for(release, 10)
        assert not is_own(one, OLD)
        await two.holders.catch_up()
        await append(await claimed(two, OLD))
        await two.leases.release({OLD: one.session.node_id})
        await one.holders.catch_up()
        await one.leases.claim([OLD])
        assert is_own(one, OLD)
        assert (await claimed(one, OLD)).end_offset == 1

    play(scenario)


def test_an_opener_claims_nothing_that_is_being_released(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        one, seam, two = await two_brokers(machine)
        await set_topics(two, OLD.topic_id.int)
        await one.catalog.catch_up()
        await one.leases.claim([OLD])
        one.raise_epochs([OLD])
        seam.calls.clear()
        done = begin_opening(one, OLD)
        await one.leases.release({OLD: two.session.node_id})
        assert done.done()
        assert not seam.calls["claim"]
        assert not is_own(one, OLD)

    play(scenario)


async def another_session(machine: Machine, one: SharedStore, two: SharedStore) -> None:
    """Two ends the session of one, which begins another."""
    before = one.session.id
    await machine.pass_lease(two)
    await two.leases.claim([ref_of(partition=9)])
    for _ in range(2):
        await one.session.beat()
    assert one.session.id != before
    assert one.session.may_lead()


@pytest.mark.parametrize("begin", ["bulk", "open"])
def test_the_answer_of_a_claim_belongs_to_the_session_that_asked(play: Play, begin: str) -> None:
    async def scenario(machine: Machine) -> None:
        one, seam, two = await two_brokers(machine)
        await set_topics(two, OLD.topic_id.int)
        await one.catalog.catch_up()
        await one.leases.claim([ref_of(partition=9)])
        seam.calls.clear()
        held = seam.hold_answers("claim")
        claim: asyncio.Future[None] = (
            asyncio.ensure_future(one.leases.claim([OLD]))
            if begin == "bulk"
            else begin_opening(one, OLD)
        )
        await until(lambda: seam.calls["claim"] > 0)
        await another_session(machine, one, two)
        held.set()
        await asyncio.wait([claim])
        assert not is_own(one, OLD)
        assert not one.claims.has(OLD)
        if begin == "bulk":
            assert isinstance(claim.exception(), FencedError)
        else:
            with pytest.raises(FencedError):
                one.claim(OLD, CONFIG)
        await one.leases.claim([OLD])
        assert is_own(one, OLD)

    play(scenario)


@pytest.mark.parametrize("when", ["session", "deletion", "takeover"])
def test_a_log_whose_claim_ends_while_it_is_opened_is_not_handed_out(play: Play, when: str) -> None:
    async def scenario(machine: Machine) -> None:
        one, seam, two = await two_brokers(machine)
        await set_topics(two, OLD.topic_id.int)
        await one.catalog.catch_up()
        await one.leases.claim([OLD, ref_of(partition=9)])
        held = seam.hold_answers("open")
        opened = begin_opening(one, OLD)
        await until(lambda: seam.calls["open"] > 0)
        if when == "session":
            await another_session(machine, one, two)
        elif when == "deletion":
            two.delete(OLD)
            await set_topics(two)
            await one.holders.catch_up()
        else:
            await machine.pass_lease(two)
            await two.leases.claim([OLD])
            await one.holders.catch_up()
        held.set()
        await asyncio.wait_for(opened, 10)
        with pytest.raises(FencedError):
            one.claim(OLD, CONFIG)

    play(scenario)


@pytest.mark.parametrize("end", ["deleted_here", "deleted_there", "taken"])
def test_a_log_that_waits_to_be_handed_out_ends_with_its_claim(play: Play, end: str) -> None:
    async def scenario(machine: Machine) -> None:
        one, _, two = await two_brokers(machine)
        await set_topics(two, OLD.topic_id.int)
        await one.catalog.catch_up()
        await asyncio.wait_for(begin_opening(one, OLD), 10)
        assert one.claims.has(OLD)
        ends: dict[str, Callable[[], None]] = {
            "deleted_here": lambda: one.delete(OLD),
            "deleted_there": lambda: two.delete(OLD),
            "taken": lambda: None,
        }
        ends[end]()
        if end == "taken":
            await machine.pass_lease(two)
            await two.leases.claim([OLD])
        await two.catalog.commit({"next": 1}, two.catalog.revision)
        await one.holders.catch_up()
        assert not one.claims.has(OLD)

    play(scenario)


def test_a_log_whose_claim_the_database_has_forgotten_is_lost(play: Play) -> None:
    """After it went back in time somebody else gets the same epoch: ends alone do not tell."""

    async def scenario(machine: Machine) -> None:
        one, seam, _ = await two_brokers(machine)
        one.leases.follow(lambda: None, lambda: None, lambda ref: True)
        log = await claimed(one)
        kept = await claimed(one, ref_of(partition=1))
        await append(log, 3)
        (partition,) = (each for each in machine.state.partitions.values() if each.ref == log.ref)
        partition.epoch -= 1
        seam.is_down = True
        assert not await one.session.beat()
        seam.is_down = False
        assert await one.session.beat()
        await until(lambda: not log.is_open)
        assert isinstance(log.lost, DamagedError)
        assert kept.is_open

    play(scenario)


@pytest.mark.parametrize("what", ["catalog", "holders"])
def test_a_broker_leads_nothing_when_the_database_went_back(play: Play, what: str) -> None:
    async def scenario(machine: Machine) -> None:
        one, _, two = await two_brokers(machine)
        await set_topics(two, OLD.topic_id.int)
        await one.catalog.catch_up()
        log = await claimed(one, OLD)
        assert await one.session.beat()
        assert one.session.may_lead()
        if what == "catalog":
            machine.state.catalog_revision -= 1
        else:
            machine.state.holders_revision -= 1
        assert await one.session.beat()
        assert not one.session.may_lead()
        assert not log.is_open
        machine.state.catalog_revision += 2
        machine.state.holders_revision += 2
        assert await one.session.beat()
        assert not one.session.may_lead(), "its copies are wrong for good"

    play(scenario)


def test_what_is_told_while_a_broker_catches_up_is_caught_up_with(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        one, seam, two = await two_brokers(machine)
        await set_topics(two, 1)
        await one.catalog.catch_up()
        await two.leases.claim([OLD])
        held = seam.hold_answers("holders")
        seam.calls.clear()
        assert await one.session.beat()
        await until(lambda: seam.calls["holders"] > 0)
        await set_topics(two, 1, 2)
        await two.leases.claim([NEW])
        assert await one.session.beat()
        held.set()
        await until(lambda: one.leases.holding(NEW) is not None)
        assert one.catalog.revision == two.catalog.revision

    play(scenario)


def test_a_deletion_that_failed_goes_on_with_the_next_heartbeat(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        one, seam = await machine.broker("one", replace(QUICK, write_budget_seconds=0.0))
        await claimed(one)
        seam.lost_before["delete"] = 1
        one.delete(ref_of())
        await until(lambda: seam.calls["delete"] == 1)
        assert await one.session.beat()
        await until(lambda: not machine.state.partitions)

    play(scenario)
