"""The lease of a broker, and what it learns of others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import pytest
from tests.storage.batches import ref_of
from tests.storage.shared.engine.brokers import QUICK, Machine, Seam, claimed
from tests.storage.shared.engine.conftest import Play

from ottla.model import Endpoint
from ottla.ports import CatalogConflictError, JsonValue, StorageError, StorageUnavailableError
from ottla.ports.errors import InUseError
from ottla.ports.leases import BrokerAddresses
from ottla.storage.shared.sequencer.memory import MemorySequencer
from ottla.storage.shared.sequencer.records import BrokerDescription
from ottla.storage.shared.store import SharedStore


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise TimeoutError


def test_the_own_deadline_comes_before_that_of_the_sequencer(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, seam = await machine.broker("one")
        seam.hold("heartbeat")
        began = machine.clock.value_ms
        (broker,) = machine.state.brokers.values()
        while store.session.may_lead():
            machine.clock.value_ms += 10
        assert machine.clock.value_ms - began == 2500
        assert broker.expires_ms > machine.state.now_ms()
        seam.held["heartbeat"].set()

    play(scenario)


def test_the_lease_counts_from_before_the_heartbeat_was_sent(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, seam = await machine.broker("one")
        store.session.abandon()  # no heartbeats but those of the test
        held = seam.hold("heartbeat")
        beat = asyncio.ensure_future(store.session.beat())
        await asyncio.sleep(0.01)
        machine.clock.value_ms += 2600
        held.set()
        await beat
        assert not store.session.may_lead(), "it may have been renewed 2.6 s ago"
        seam.held.clear()
        assert await store.session.beat()
        assert store.session.may_lead()

    play(scenario)


def test_a_session_goes_on_after_an_outage_if_nobody_took_over(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, seam = await machine.broker("one")
        log = await claimed(store)
        session = store.session.id
        seam.is_down = True
        machine.clock.value_ms += 60_000
        assert not store.session.may_lead()
        seam.is_down = False
        assert await store.session.beat()
        assert store.session.may_lead()
        assert store.session.id == session
        assert log.is_open

    play(scenario)


def test_a_name_is_that_of_one_live_broker(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        await machine.broker("one")
        with pytest.raises(InUseError):
            await machine.broker("one")

    play(scenario)


async def begin_again(store: SharedStore, machine: Machine, name: str) -> None:
    """Another process takes the name of a broker that was away, whose session has ended then."""
    machine.clock.value_ms += 60_000
    await MemorySequencer(machine.state).register(BrokerDescription(name, None, {}, {}, "", None))
    assert not await store.session.beat()


def test_a_name_that_another_process_has_taken_is_told_once(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(machine: Machine) -> None:
        store, _ = await machine.broker("one")
        store.session.abandon()  # no heartbeats but those of the test
        await begin_again(store, machine, "one")
        assert not await store.session.beat()
        machine.clock.value_ms += 60_000
        assert await store.session.beat() or await store.session.beat()

    play(scenario)
    events = [getattr(each, "event", "") for each in caplog.records]
    assert events.count("broker_name_taken") == 1
    assert "storage_unavailable" not in events


def test_a_registration_that_is_refused_is_no_bug(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    class Refusing(Seam):
        async def before(self, method: str) -> None:
            if method == "register":
                raise StorageError("the role may not do this")
            await super().before(method)

    async def scenario(machine: Machine) -> None:
        store, _ = await machine.broker("one")
        store.session.abandon()
        store.session._sequencer = MemorySequencer(machine.state, Refusing())
        await begin_again(store, machine, "one")
        assert not await store.session._beat_safely()

    play(scenario)
    events = [getattr(each, "event", "") for each in caplog.records]
    assert events.count("storage_unavailable") == 1
    assert "heartbeat_impossible" not in events


def test_brokers_know_each_others_addresses_and_ends(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        one, _ = await machine.broker("one")
        two, _ = await machine.broker("two")
        changes: list[int] = []
        one.leases.follow(lambda: changes.append(1), lambda: None, lambda ref: True)
        addresses = BrokerAddresses(
            {"PLAIN": Endpoint("a", 1)}, {"PLAIN": Endpoint("b", 2)}, Endpoint("::1", 3), ""
        )
        await two.leases.describe(addresses)
        await one.session.beat()
        known = {member.node_id: member for member in one.leases.members()}
        assert known[two.leases.node_id].addresses == addresses
        assert changes
        await machine.pass_lease(one)
        known = {member.node_id: member for member in one.leases.members()}
        assert not known[two.leases.node_id].is_live

    play(scenario)


def test_what_an_expired_broker_held_is_held_no_more(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        one, paused = await machine.broker("one")
        two, _ = await machine.broker("two")
        await claimed(one)
        paused.hold("heartbeat")
        await until(lambda: two.leases.holding(ref_of()) is not None)
        holding = two.leases.holding(ref_of())
        assert holding is not None
        assert holding.is_held
        assert not holding.is_own
        await machine.pass_lease(two)
        holding = two.leases.holding(ref_of())
        assert holding is not None
        assert not holding.is_held
        paused.held["heartbeat"].set()

    play(scenario)


def _note(
    told: list[tuple[int, JsonValue]], revision: int, changes: Mapping[str, JsonValue]
) -> None:
    told.append((revision, changes["n"]))


def test_changes_of_the_catalog_reach_every_broker_in_order(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        stores = [(await machine.broker(name))[0] for name in ("one", "two", "three")]
        seen: list[list[tuple[int, JsonValue]]] = [[], [], []]
        for store, told in zip(stores, seen, strict=True):
            store.catalog.follow(partial(_note, told))
        for number in range(12):
            store = stores[number % 3]
            while True:
                try:
                    await store.catalog.commit({"n": number}, store.catalog.revision)
                except CatalogConflictError:
                    continue
                break
            # When a commit is done every live broker acts by it.
            assert [each.catalog.entries()["n"] for each in stores] == [number] * 3
        assert seen[0] == seen[1] == seen[2] == [(1 + number, number) for number in range(12)]

    play(scenario)


def test_two_commits_of_one_revision_conflict_and_the_loser_knows_the_winner(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        one, _ = await machine.broker("one")
        two, _ = await machine.broker("two")
        outcomes = await asyncio.gather(
            one.catalog.commit({"topic": "one"}, 0),
            two.catalog.commit({"topic": "two"}, 0),
            return_exceptions=True,
        )
        assert sorted(map(str, map(type, outcomes))) == sorted(
            map(str, (int, CatalogConflictError))
        )
        assert one.catalog.entries() == two.catalog.entries()

    play(scenario)


def test_a_commit_does_not_wait_long_for_a_broker_that_hangs(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        one, _ = await machine.broker("one", replace(QUICK, apply_seconds=0.1))
        _, hanging = await machine.broker("two")
        await one.session.beat()
        hanging.hold("catalog_changes")
        loop = asyncio.get_running_loop()
        began = loop.time()
        await one.catalog.commit({"a": 1}, 0)
        waited = loop.time() - began
        assert waited >= 0.09
        for number in range(5):
            await one.catalog.commit({"a": number}, one.catalog.revision)
        assert loop.time() - began - waited < 0.3, "it is waited for once"
        hanging.held["catalog_changes"].set()

    play(scenario)


def test_a_claim_with_an_old_catalog_catches_up_first(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        one, _ = await machine.broker("one")
        two, old = await machine.broker("two")
        held = old.hold("catalog_changes")
        commit = one.catalog.commit({"topic": 1}, 0)
        await asyncio.sleep(0.01)
        claim = asyncio.ensure_future(claimed(two))
        await asyncio.sleep(0.02)
        assert not claim.done()
        held.set()
        await asyncio.wait_for(claim, 10)
        assert two.catalog.entries() == {"topic": 1}
        await commit

    play(scenario)


def test_a_claim_without_the_sequencer_fails_as_unavailable(play: Play) -> None:
    async def scenario(machine: Machine) -> None:
        store, seam = await machine.broker("one", replace(QUICK, claim_budget_seconds=0.0))
        seam.is_down = True
        with pytest.raises(StorageUnavailableError):
            await claimed(store)
        seam.is_down = False
        assert (await claimed(store)).is_open

    play(scenario)
