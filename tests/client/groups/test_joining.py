"""How members join, share partitions and leave."""

from __future__ import annotations

import pytest
from tests.client.groups.driving import Driver, add_partitions, create_topic, new_group, run, until

from ottla import Broker
from ottla.client.model import OffsetAndMetadata
from ottla.model import TopicPartition


def partitions(topic: str, *numbers: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, number) for number in numbers)


def test_a_lone_member_gets_all_partitions(ottla_broker: Broker, ottla_topic: str) -> None:
    async def test() -> None:
        async with Driver(ottla_broker.bootstrap_servers, new_group()) as member:
            await member.join_new(ottla_topic, 3)
            assert member.assigned == partitions(ottla_topic, 0, 1, 2)
            assert member.told.calls == [("assigned", (0, 1, 2))]

    run(test)


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky"])
def test_an_eager_member_gives_all_up_before_it_shares(
    ottla_broker: Broker, ottla_topic: str, assignor: str
) -> None:
    async def test() -> None:
        servers, group = ottla_broker.bootstrap_servers, new_group()
        async with (
            Driver(servers, group, assignors=[assignor]) as first,
            Driver(servers, group, assignors=[assignor]) as second,
        ):
            await first.join_new(ottla_topic, 4)
            first.start_polling()
            second.subscribe(ottla_topic)
            await second.poll_until(lambda: second.has(2) and first.has(2))
            assert sorted(first.assigned + second.assigned) == list(
                partitions(ottla_topic, 0, 1, 2, 3)
            )
            assert first.told.calls[1] == ("revoked", (0, 1, 2, 3))

    run(test)


def test_a_cooperative_member_gives_up_only_what_moves(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    async def test() -> None:
        servers, group = ottla_broker.bootstrap_servers, new_group()
        assignors = ["cooperative-sticky"]
        async with (
            Driver(servers, group, assignors=assignors) as first,
            Driver(servers, group, assignors=assignors) as second,
        ):
            await first.join_new(ottla_topic, 4)
            first.start_polling()
            second.subscribe(ottla_topic)
            await second.poll_until(lambda: second.has(2) and first.has(2))
            moved = tuple(tp.partition for tp in second.assigned)
            assert first.told.calls[:2] == [("assigned", (0, 1, 2, 3)), ("revoked", moved)] or (
                first.told.calls[:3]
                == [("assigned", (0, 1, 2, 3)), ("revoked", moved), ("assigned", ())]
            )

    run(test)


def test_new_partitions_are_shared_by_themselves(ottla_broker: Broker, ottla_topic: str) -> None:
    async def test() -> None:
        servers = ottla_broker.bootstrap_servers
        async with Driver(servers, new_group(), metadata_max_age_ms=200) as member:
            await member.join_new(ottla_topic, 1)
            await add_partitions(member.network, ottla_topic, 3)
            await member.poll_until(lambda: member.has(3))

    run(test)


def test_what_a_member_had_goes_to_others_when_it_leaves(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    async def test() -> None:
        servers, group = ottla_broker.bootstrap_servers, new_group()
        async with Driver(servers, group) as stays:
            await create_topic(stays.network, ottla_topic, 2)
            stays.subscribe(ottla_topic)
            stays.start_polling()
            async with Driver(servers, group) as goes:
                goes.subscribe(ottla_topic)
                await goes.poll_until(lambda: goes.has(1) and stays.has(1))
            assert goes.told.calls[-1][0] == "revoked"
            await until(lambda: stays.has(2))

    run(test)


def test_rebalances_heartbeats_and_commits_are_counted(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    async def test() -> None:
        async with Driver(ottla_broker.bootstrap_servers, new_group()) as member:
            before = member.metrics.snapshot()
            assert before["rebalance-total"] == 0
            await member.join_new(ottla_topic, 1)
            await member.poll_until(lambda: member.metrics.snapshot()["heartbeat-total"] > 1)
            await member.member.commit({member.assigned[0]: OffsetAndMetadata(1)})
            found = member.metrics.snapshot()
            # The first attempt was without a member id.
            assert found["failed-rebalance-total"] == 1
            assert found["rebalance-total"] == 1
            assert found["join-total"] == 2
            assert found["sync-total"] == 1
            assert found["commit-total"] == 1
            assert 0 <= found["last-heartbeat-seconds-ago"] < 5
            assert found["partition-assigned-latency-max"] >= 0

    run(test)
