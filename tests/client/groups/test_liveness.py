"""Staying in a group, falling out of it, and what is told then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest
from tests.client.groups.driving import Driver, add_partitions, create_topic, new_group, run, until

from ottla import Broker, testing
from ottla.client.model import OffsetAndMetadata
from ottla.client.state.group.membership import MemberState
from ottla.core.assignors.model import Assignment
from ottla.core.assignors.ranges import RangeAssignor
from ottla.errors import CommitFailedError, FatalError
from ottla.model import TopicPartition

SHORT_SESSION = {"group.min.session.timeout.ms": 100}
KEPT: dict[str, Any] = {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 50}


async def outlast_session(broker: testing.Broker) -> None:
    """Lets more time pass than a session lasts, step by step; in each the broker hears heartbeats, or would not."""
    for _ in range(4):
        heard = len(broker.requests("Heartbeat"))
        await until(lambda: len(broker.requests("Heartbeat")) >= heard + 2)  # noqa: B023
        broker.clock.advance("4s")


def test_heartbeats_keep_a_member_that_does_not_poll() -> None:
    async def test(broker: testing.Broker) -> None:
        async with Driver(broker.bootstrap_servers, new_group(), **KEPT) as member:
            await create_topic(member.network, "t", 1)
            member.subscribe("t")
            await member.join()
            generation = member.member.group_metadata().generation_id
            await outlast_session(broker)
            await member.step()
            # The coordinator refuses commits of a member that it does not know any more.
            await member.member.commit({member.assigned[0]: OffsetAndMetadata(1)})
            assert member.is_stable
            assert member.member.group_metadata().generation_id == generation

    with testing.Broker() as broker:
        broker.clock.freeze()
        run(lambda: test(broker))


def test_a_member_that_nobody_polls_leaves_and_says_so(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    async def test() -> None:
        servers, group = ottla_broker.bootstrap_servers, new_group()
        async with (
            Driver(servers, group, max_poll_interval_ms=300) as slow,
            Driver(servers, group) as quick,
        ):
            await slow.join_new(ottla_topic, 2)
            owned = slow.assigned
            quick.subscribe(ottla_topic)
            quick.start_polling()
            await until(lambda: slow.member.state is MemberState.UNJOINED)
            await until(lambda: quick.has(2))
            with pytest.raises(CommitFailedError, match=r"max\.poll\.interval\.ms = 300"):
                await slow.member.commit({owned[0]: OffsetAndMetadata(1)})
            await slow.poll_until(lambda: slow.has(1))
            assert ("lost", (0, 1)) in slow.told.calls
            assert not any(call == "revoked" for call, _ in slow.told.calls)

    run(test)


def test_waiting_in_poll_for_long_is_polling(ottla_broker: Broker, ottla_topic: str) -> None:
    async def test() -> None:
        servers = ottla_broker.bootstrap_servers
        options: dict[str, Any] = {"max_poll_interval_ms": 1500, "heartbeat_interval_ms": 5000}
        async with Driver(servers, new_group(), **options) as member:
            await member.join_new(ottla_topic, 1)
            end = time.monotonic() + 3.5
            while time.monotonic() < end:
                member.woken.clear()
                await member.member.poll()
                # As a consumer waits: for records or for the group, not for a while.
                async with asyncio.timeout(10):
                    await member.woken.wait()
                assert member.is_stable

    run(test)


def test_a_listener_that_takes_long_does_not_stop_heartbeats() -> None:
    class Slow:
        def __init__(self, broker: testing.Broker) -> None:
            self._broker = broker

        async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            await outlast_session(self._broker)

    async def test(broker: testing.Broker) -> None:
        async with Driver(broker.bootstrap_servers, new_group(), **KEPT) as member:
            await create_topic(member.network, "t", 1)
            member.subscribe("t", listener=Slow(broker))
            await member.join()
            generation = member.member.group_metadata().generation_id
            for _ in range(3):
                await member.step()
            # The coordinator refuses commits of a member that it does not know any more.
            await member.member.commit({member.assigned[0]: OffsetAndMetadata(1)})
            assert member.is_stable
            assert member.member.group_metadata().generation_id == generation

    with testing.Broker() as broker:
        broker.clock.freeze()
        run(lambda: test(broker))


def test_a_static_member_keeps_its_partitions_over_a_restart(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    async def test() -> None:
        servers, group = ottla_broker.bootstrap_servers, new_group()
        async with Driver(servers, group, group_instance_id="other") as other:
            await create_topic(other.network, ottla_topic, 4)
            other.subscribe(ottla_topic)
            other.start_polling()
            async with Driver(servers, group, group_instance_id="one") as before:
                before.subscribe(ottla_topic)
                await before.poll_until(lambda: before.has(2) and other.has(2))
                owned = before.assigned
                generation = before.member.group_metadata().generation_id
            assert other.has(2), "closing does not leave"
            async with Driver(servers, group, group_instance_id="one") as after:
                after.subscribe(ottla_topic)
                await after.join()
                assert after.assigned == owned
                metadata = after.member.group_metadata()
                assert metadata.generation_id == generation
                assert metadata.group_instance_id == "one"

    run(test)


def test_a_static_leader_that_came_back_goes_on_watching_its_topics(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    async def test() -> None:
        servers, group = ottla_broker.bootstrap_servers, new_group()
        async with Driver(servers, group, group_instance_id="one") as before:
            await before.join_new(ottla_topic, 1)
            generation = before.member.group_metadata().generation_id
        assigned: list[object] = []

        class Counting(RangeAssignor):
            def assign(self, cluster: Any, subscriptions: Any) -> dict[str, Assignment]:
                assigned.append(subscriptions)
                return super().assign(cluster, subscriptions)

        options: dict[str, Any] = {"group_instance_id": "one", "metadata_max_age_ms": 100}
        async with Driver(servers, group, assignors=[Counting()], **options) as after:
            after.subscribe(ottla_topic)
            await after.join()
            assert after.member.group_metadata().generation_id == generation
            assert assigned == [], "the group has its assignment (KIP-814)"
            await add_partitions(after.network, ottla_topic, 3)
            await after.poll_until(lambda: after.has(3))

    run(test)


def test_a_static_member_that_is_replaced_is_fenced_for_good(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    async def test() -> None:
        servers, group = ottla_broker.bootstrap_servers, new_group()
        async with (
            Driver(servers, group, group_instance_id="one") as old,
            Driver(servers, group, group_instance_id="one") as new,
        ):
            await old.join_new(ottla_topic, 1)
            new.subscribe(ottla_topic)
            await new.join()
            for _ in range(2):
                with pytest.raises(FatalError) as raised:
                    await old.poll_until(lambda: False)
                assert raised.value.name == "FENCED_INSTANCE_ID"
            with pytest.raises(FatalError) as raised:
                await old.member.commit({TopicPartition(ottla_topic, 0): OffsetAndMetadata(1)})
            assert raised.value.name == "FENCED_INSTANCE_ID"
            await new.step()
            assert new.is_stable, "the one that was fenced does not fence back"

    run(test)


def test_a_member_that_was_removed_joins_again_and_calls_its_partitions_lost() -> None:
    async def test(servers: str) -> None:
        options: dict[str, Any] = {"session_timeout_ms": 200, "heartbeat_interval_ms": 20}
        async with Driver(servers, new_group(), **options) as member:
            await create_topic(member.network, "t", 2)
            member.subscribe("t")
            await member.join()
            # Blocks the loop, as code does that does not await: no heartbeats for longer than the session.
            time.sleep(0.6)
            await member.poll_until(lambda: len(member.told.calls) == 3)
            assert member.told.calls == [
                ("assigned", (0, 1)),
                ("lost", (0, 1)),
                ("assigned", (0, 1)),
            ]

    with Broker(SHORT_SESSION) as broker:
        run(lambda: test(broker.bootstrap_servers))
