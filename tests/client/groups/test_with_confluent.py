"""Our members in one group with librdkafka's: both lead, both follow, and they mean the same."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import confluent_kafka
import pytest
from tests.client.groups.driving import Driver, create_topic, new_group, run, until
from tests.clients.confluent_kafka.closing import close_member

from ottla import Broker
from ottla.client.state.group.group_leader import assignable
from ottla.core.assignors.model import Assignment, Subscription
from ottla.core.assignors.protocol import decode_assignment, decode_subscription
from ottla.core.assignors.registry import ASSIGNORS
from ottla.model import TopicPartition
from ottla.wire.messages.describe_groups import DescribeGroupsRequest

PARTITIONS = 6


class Theirs:
    """A confluent-kafka consumer that polls on a thread."""

    def __init__(self, servers: str, group: str, assignor: str, topic: str) -> None:
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "partition.assignment.strategy": assignor,
                "heartbeat.interval.ms": 100,
                "session.timeout.ms": 10_000,
                "log_level": 0,
            }
        )
        # Not asked for with assignment(): that waits for librdkafka's rebalance, and would stop ours.
        self.assigned: set[TopicPartition] = set()
        self.consumer.subscribe(
            [topic], on_assign=self.on_assign, on_revoke=self.on_revoke, on_lost=self.on_revoke
        )
        self._stopped = False

    def on_assign(self, _: Any, partitions: list[confluent_kafka.TopicPartition]) -> None:
        self.assigned = self.assigned.union(_plain(partitions))

    def on_revoke(self, _: Any, partitions: list[confluent_kafka.TopicPartition]) -> None:
        self.assigned = self.assigned.difference(_plain(partitions))

    def poll(self) -> None:
        while not self._stopped:
            self.consumer.poll(0.05)
        close_member(self.consumer)

    def stop(self) -> None:
        self._stopped = True


def _plain(partitions: list[confluent_kafka.TopicPartition]) -> list[TopicPartition]:
    return [TopicPartition(each.topic, each.partition) for each in partitions]


@contextlib.asynccontextmanager
async def theirs(servers: str, group: str, assignor: str, topic: str) -> AsyncIterator[Theirs]:
    member = Theirs(servers, group, assignor, topic)
    polling = asyncio.get_running_loop().run_in_executor(None, member.poll)
    try:
        yield member
    finally:
        member.stop()
        await polling


async def described(driver: Driver, group: str) -> Mapping[str, tuple[Subscription, Assignment]]:
    """What all members told, and got, as the broker has it."""
    request = DescribeGroupsRequest(groups=[group])
    node = await driver.network.coordinator(0, group)
    response: Any = await driver.network.call(node, request)
    return {
        member.member_id: (
            decode_subscription(member.member_metadata),
            decode_assignment(member.member_assignment),
        )
        for member in response.groups[0].members
    }


def is_shared(*shares: set[TopicPartition], topic: str) -> bool:
    """Whether everybody has as much as everybody else, and nothing is left or doubled."""
    everything = [partition for share in shares for partition in share]
    return sorted(everything) == [TopicPartition(topic, n) for n in range(PARTITIONS)] and {
        len(share) for share in shares
    } == {PARTITIONS // len(shares)}


@pytest.mark.parametrize("leader", ["ours", "theirs"])
@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_partitions_are_shared_with_librdkafka(
    ottla_broker: Broker, ottla_topic: str, assignor: str, leader: str
) -> None:
    async def test() -> None:
        servers, group = ottla_broker.bootstrap_servers, new_group()
        async with Driver(servers, group, assignors=[assignor]) as ours:
            await create_topic(ours.network, ottla_topic, PARTITIONS)
            ours.subscribe(ottla_topic)
            async with contextlib.AsyncExitStack() as stack:
                if leader == "ours":
                    await ours.join()
                other = await stack.enter_async_context(
                    theirs(servers, group, assignor, ottla_topic)
                )
                if leader == "theirs":
                    await until(lambda: len(other.assigned) == PARTITIONS)
                ours.start_polling()
                await until(
                    lambda: (
                        is_shared(set(ours.assigned), other.assigned, topic=ottla_topic)
                        and ours.is_stable
                    )
                )
                if assignor != "cooperative-sticky":
                    # Whoever led, the result is that of our assignor, and of Kafka's.
                    members = await described(ours, group)
                    subscriptions = {name: told for name, (told, _) in members.items()}
                    expected = ASSIGNORS[assignor]().assign(
                        assignable(ours.network.cluster), subscriptions
                    )
                    found = {name: got.partitions for name, (_, got) in members.items()}
                    assert {n: sorted(each) for n, each in found.items()} == {
                        n: sorted(each.partitions) for n, each in expected.items()
                    }
            # And when they go, we have all.
            await until(lambda: ours.has(PARTITIONS))

    run(test)


def test_the_bytes_of_a_subscription_are_those_of_librdkafka(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    async def test() -> None:
        servers, group = ottla_broker.bootstrap_servers, new_group()
        async with Driver(servers, group) as ours:
            await create_topic(ours.network, ottla_topic, PARTITIONS)
            async with theirs(servers, group, "range", ottla_topic) as other:
                await until(lambda: len(other.assigned) == PARTITIONS)
                ours.subscribe(ottla_topic)
                await ours.poll_until(lambda: ours.has(3) and len(other.assigned) == 3)
                request = DescribeGroupsRequest(groups=[group])
                node = await ours.network.coordinator(0, group)
                response: Any = await ours.network.call(node, request)
                mine = ours.member.group_metadata().member_id
                told = {
                    member.member_id == mine: bytes(member.member_metadata)
                    for member in response.groups[0].members
                }
                # The version, the topics and the absence of partitions; each writes what else it knows:
                # generation and rack.
                common = 2 + 4 + 2 + len(ottla_topic)
                assert told[True][2:common] == told[False][2:common]
                assert decode_subscription(told[True]).topics == (ottla_topic,)
                assert decode_subscription(told[False]).topics == (ottla_topic,)

    run(test)
