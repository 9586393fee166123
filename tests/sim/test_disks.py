"""What disks do in a simulation, and what a coordinator makes of it."""

from __future__ import annotations

import asyncio

from tests.sim.disk import FINE, DiskWeather
from tests.sim.group_clients import SimpleConsumer
from tests.sim.groups import create_topics
from tests.sim.world import World, play

from ottla.broker.coordination.coordinators import FIRST_REST_MS
from ottla.errors import ErrorCode

SYNC_SECONDS = 4.0
REST_SECONDS = FIRST_REST_MS / 1000
SLOW = DiskWeather(late=1.0, late_seconds=(SYNC_SECONDS, SYNC_SECONDS))
FULL = DiskWeather(full=1.0)


async def full_while_slow(world: World) -> None:
    """A commit is on its way to the disk when another one finds no room, and has its coordinator give up."""
    world.nodes.start_all()
    world.partition_counts = {"t": 1}
    await create_topics(world)
    client = SimpleConsumer(world, "client", "g")
    other = SimpleConsumer(world, "other", "g")
    for one in (client, other):
        await one.find_coordinator()
    world.nodes.store.weather = SLOW
    began = world.loop.time()
    commit = asyncio.ensure_future(client.ask_coordinator(client.commit_request({("t", 0): 5})))
    await asyncio.sleep(0.5)
    world.nodes.store.weather = FULL
    refused = await other.ask_coordinator(other.commit_request({("t", 0): 6}))
    assert refused is not None
    assert refused.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.nodes.store.weather = FINE
    await asyncio.sleep(REST_SECONDS)
    assert not commit.done()
    answer = await other.ask_coordinator(other.fetch_request([("t", 0)]))
    assert answer is not None
    found = answer.groups[0].topics if answer.groups else answer.topics
    assert found[0].partitions[0].committed_offset == 5
    assert world.loop.time() - began >= SYNC_SECONDS
    # It is in the log, so that is what its client is told, although the coordinator that wrote it has gone.
    kept = await commit
    assert kept is not None
    assert kept.topics[0].partitions[0].error_code == ErrorCode.NONE


def test_offsets_are_shown_when_they_are_durable_whoever_wrote_them() -> None:
    for seed in range(20):
        play(World(seed, 1, {"offsets.topic.num.partitions": 1}), full_while_slow)
