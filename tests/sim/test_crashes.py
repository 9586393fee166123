"""Nodes that die at named places: nothing behind the place runs any more."""

from __future__ import annotations

import asyncio

import pytest
from tests.sim.clients import Client
from tests.sim.crashes import Crashes, listening
from tests.sim.network import LinkBrokenError
from tests.sim.run import make_world
from tests.sim.world import World, play

from ottla.broker.crashpoints import CrashPoint
from ottla.core.catalog import TRANSACTIONS_TOPIC
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest


@pytest.mark.parametrize(
    ("place", "written"),
    [(CrashPoint.BEFORE_EMPTY_APPEND, 0), (CrashPoint.AFTER_EMPTY_APPEND, 1)],
)
def test_a_node_that_dies_does_nothing_behind_the_place(place: CrashPoint, written: int) -> None:
    world = make_world("producers", 0)
    crashes = Crashes(world)
    crashes.is_active, crashes.favourite, crashes.elsewhere, crashes._passes = True, place, 0.0, 1
    answers: list[object] = []

    async def scenario(world: World) -> None:
        world.nodes.start_all()
        client = Client(world, "client")
        client._versions[FindCoordinatorRequest] = 1
        found = await client.ask_any(FindCoordinatorRequest(key="t", key_type=1))
        request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000)
        try:
            answers.append(await client.call(found.node_id, request, 3.0))
        except (TimeoutError, LinkBrokenError):
            await asyncio.sleep(5)

    with listening(crashes):
        play(world, scenario)
    assert answers == []
    assert world.crashes == {place: 1}
    topic = world.nodes.cluster.catalog.topics[TRANSACTIONS_TOPIC]
    batches = [
        batch
        for partition in range(topic.partition_count)
        for batch in world.nodes.store.batches(TRANSACTIONS_TOPIC, partition)
    ]
    assert len(batches) == written
