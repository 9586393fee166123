"""Members and their offsets while the coordinator moves, dies, or does not answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from tests.client.groups.driving import Driver, new_group, run
from tests.groups.moves import OFFSETS_PARTITIONS, OFFSETS_TOPIC, move_coordinator

from ottla import Broker
from ottla.client.model import OffsetAndMetadata
from ottla.model import coordinator_partition


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(nodes=3) as broker:
        yield broker


def coordinator_of(broker: Broker, group: str) -> int:
    return broker.leader_of(OFFSETS_TOPIC, coordinator_partition(group, OFFSETS_PARTITIONS))


def test_a_member_stays_in_its_generation_when_the_coordinator_moves(
    broker: Broker, ottla_topic: str
) -> None:
    async def test() -> None:
        group = new_group()
        async with Driver(broker.bootstrap_servers, group) as member:
            await member.join_new(ottla_topic, 1)
            generation = member.member.group_metadata()
            for offset in range(6):
                move_coordinator(broker, group)
                offsets = {member.assigned[0]: OffsetAndMetadata(offset)}
                await member.member.commit(offsets)
                await member.step()
                assert await member.member.committed(member.assigned) == offsets
            assert member.is_stable
            assert member.member.group_metadata() == generation
            assert member.told.calls == [("assigned", (0,))]

    run(test)


def test_asynchronous_commits_are_told_in_order_while_the_coordinator_moves(
    broker: Broker, ottla_topic: str
) -> None:
    async def test() -> None:
        group = new_group()
        async with Driver(broker.bootstrap_servers, group) as member:
            await member.join_new(ottla_topic, 1)
            told: list[int] = []
            for offset in range(50):
                if offset % 10 == 5:
                    move_coordinator(broker, group)
                member.member.commit_async(
                    {member.assigned[0]: OffsetAndMetadata(offset)},
                    lambda offsets, error: told.append(next(iter(offsets.values())).offset),
                )
                await asyncio.sleep(0.005)
            await member.member.commit({member.assigned[0]: OffsetAndMetadata(99)})
            assert told == list(range(50))
            found = await member.member.committed(member.assigned)
            assert found[member.assigned[0]] == OffsetAndMetadata(99)

    run(test)


def test_a_member_survives_the_death_of_its_coordinator(broker: Broker, ottla_topic: str) -> None:
    async def test() -> None:
        group = new_group()
        async with Driver(broker.bootstrap_servers, group) as member:
            await member.join_new(ottla_topic, 1)
            dying = coordinator_of(broker, group)
            await asyncio.to_thread(broker.kill_node, dying)
            try:
                offsets = {member.assigned[0]: OffsetAndMetadata(5)}
                await member.member.commit(offsets)
                await member.step()
                assert await member.member.committed(member.assigned) == offsets
                assert member.is_stable
            finally:
                await asyncio.to_thread(broker.start_node, dying)

    run(test)


def test_a_coordinator_that_does_not_answer_is_given_up_after_the_session(
    broker: Broker, ottla_topic: str
) -> None:
    async def test() -> None:
        options = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 50}
        async with Driver(broker.bootstrap_servers, new_group(), **options) as member:  # type: ignore[arg-type]
            await member.join_new(ottla_topic, 1)
            link = member.member._coordinator
            stuck = link._connection
            assert stuck is not None
            # What the broker sends is not read any more.
            assert stuck._transport is not None
            stuck._transport.pause_reading()
            member.member._heartbeats._schedule._session_timeout_ms = 300
            member.member._heartbeats._schedule.restart_session(time.monotonic() * 1000)
            await member.poll_until(lambda: link.is_known and link._connection is not stuck)
            assert stuck.closed is not None
            await member.step()
            assert member.is_stable, "the group still knows it"

    run(test)
