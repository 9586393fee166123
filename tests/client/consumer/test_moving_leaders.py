"""Three brokers, and partitions that change hands while they are read."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from tests.broker.conftest import Starter, start
from tests.broker.nodes import nodes_of
from tests.broker.requests import create, fill
from tests.client.consumer.conftest import WAIT_SECONDS, run

from ottla.client.aio.consumer.consumer import Consumer
from ottla.config.option_types import ConsumerOptions
from ottla.model import TopicPartition

__all__ = ["start"]

PARTITIONS = 3


async def take(consumer: Consumer, found: dict[int, list[int]], count: int) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while sum(map(len, found.values())) < count:
            for record in await consumer.poll(1):
                assert record.value is not None
                found[record.partition].append(int(record.value))


def test_nothing_is_lost_or_doubled_while_leaders_move(start: Starter, ottla_topic: str) -> None:
    async def test() -> None:
        broker = start(nodes=3)
        with nodes_of(broker) as nodes:
            create(nodes.any, ottla_topic, PARTITIONS)
            partitions = [TopicPartition(ottla_topic, n) for n in range(PARTITIONS)]
            found: dict[int, list[int]] = {n: [] for n in range(PARTITIONS)}
            options: ConsumerOptions = {
                "bootstrap_servers": broker.bootstrap_servers,
                "auto_offset_reset": "earliest",
                "fetch_max_wait_ms": 50,
            }
            async with Consumer(**options) as consumer:
                consumer.assign(partitions)
                written = itertools.count()
                for step in range(8):
                    for n in range(PARTITIONS):
                        leader = nodes.leader(ottla_topic, n)
                        batches = [b"%d" % next(written) for _ in range(3)]
                        fill(leader, ottla_topic, *batches, partition=n)
                    nodes.move(ottla_topic, step % PARTITIONS)
                    await take(consumer, found, (step + 1) * 9)
                everything = sorted(value for each in found.values() for value in each)
                assert everything == list(range(72))
                assert all(each == sorted(each) for each in found.values())

    run(test)


@pytest.mark.parametrize("waits", [False, True])
def test_a_broker_that_dies_hands_its_partitions_on(
    start: Starter, ottla_topic: str, waits: bool
) -> None:
    async def test() -> None:
        broker = start(nodes=3)
        with nodes_of(broker) as nodes:
            create(nodes.any, ottla_topic)
            options: ConsumerOptions = {
                "bootstrap_servers": broker.bootstrap_servers,
                "auto_offset_reset": "earliest",
                "reconnect_backoff_ms": 10,
                "reconnect_backoff_max_ms": 50,
                "retry_backoff_ms": 10,
                # Either a fetch waits at the broker when it dies, or the broker is found gone.
                "fetch_max_wait_ms": 5000 if waits else 10,
            }
            async with Consumer(**options) as consumer:
                consumer.assign([(ottla_topic, 0)])
                found: dict[int, list[int]] = {0: []}
                fill(nodes.leader(ottla_topic), ottla_topic, b"0")
                await take(consumer, found, 1)
                old = broker.leader_of(ottla_topic, 0)
                if not waits:
                    await asyncio.sleep(0.05)
                nodes.kill(old)
                async with asyncio.timeout(WAIT_SECONDS):
                    while broker.leader_of(ottla_topic, 0) in (old, -1):
                        await asyncio.sleep(0.02)
                fill(nodes.leader(ottla_topic), ottla_topic, b"1")
                await take(consumer, found, 2)
                assert found == {0: [0, 1]}

    run(test)


def test_followers_bring_the_same_records(start: Starter, ottla_topic: str) -> None:
    """Nodes of one cluster share their storage: whoever leads, the offsets stay what they are."""

    async def test() -> None:
        broker = start(nodes=3)
        with nodes_of(broker) as nodes:
            create(nodes.any, ottla_topic)
            async with Consumer(
                bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
            ) as consumer:
                consumer.assign([(ottla_topic, 0)])
                for n in range(3):
                    fill(nodes.leader(ottla_topic), ottla_topic, b"%d" % n)
                    nodes.move(ottla_topic)
                assert await consumer.end_offsets() == {TopicPartition(ottla_topic, 0): 3}
                found: dict[int, list[int]] = {0: []}
                await take(consumer, found, 3)
                consumer.seek_to_beginning()
                nodes.move(ottla_topic)
                await take(consumer, found, 6)
                assert found[0] == [0, 1, 2, 0, 1, 2]

    run(test)
