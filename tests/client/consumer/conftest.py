"""A broker with a topic, filled by raw requests, and a loop for each test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from tests.broker.requests import batch_of, create, fill, produce

from ottla import Broker
from ottla.client.aio.consumer import Consumer
from ottla.client.model import ConsumerRecord
from ottla.client.raw import RawConnection
from ottla.model import TopicPartition

WAIT_SECONDS = 20.0
Run = Callable[[Callable[[], Awaitable[None]]], None]


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Run a test on a loop of its own; tasks that are left over are an error of the test."""

    async def checked() -> None:
        async with asyncio.timeout(60):
            await test()
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left

    asyncio.run(checked())


class Stage:
    """A topic at a broker, and consumers for it."""

    def __init__(self, broker: Broker, connection: RawConnection, topic: str) -> None:
        self.broker = broker
        self.connection = connection
        self.topic = topic

    def create(self, partitions: int = 1, **configs: str) -> list[TopicPartition]:
        create(self.connection, self.topic, partitions=partitions, config=configs)
        return [TopicPartition(self.topic, n) for n in range(partitions)]

    def fill(self, *values: bytes, partition: int = 0) -> list[int]:
        """A batch for each value."""
        return fill(self.connection, self.topic, *values, partition=partition)

    def fill_batch(self, *values: bytes, partition: int = 0, **options: Any) -> int:
        """One batch of all values; the offset of the first."""
        data = batch_of(*values, **options)
        return produce(self.connection, self.topic, data, partition=partition).base_offset

    def consumer(self, **options: Any) -> Consumer:
        # A fetch that waits at the broker holds up those after a seek.
        quick = {"auto_offset_reset": "earliest", "retry_backoff_ms": 10, "fetch_max_wait_ms": 50}
        options = {**quick, **options}
        return Consumer(bootstrap_servers=self.broker.bootstrap_servers, **options)


@pytest.fixture
def stage(ottla_broker: Broker, ottla_topic: str) -> Iterator[Stage]:
    with RawConnection(ottla_broker.bootstrap_servers) as connection:
        yield Stage(ottla_broker, connection, ottla_topic)


async def read(
    consumer: Consumer, count: int, seconds: float = WAIT_SECONDS
) -> list[ConsumerRecord]:
    """Poll until so many records have come."""
    found: list[ConsumerRecord] = []
    async with asyncio.timeout(seconds):
        while len(found) < count:
            found += await consumer.poll(1.0)
    assert len(found) == count, found
    return found


async def values(consumer: Consumer, count: int) -> list[Any]:
    return [record.value for record in await read(consumer, count)]


async def nothing_comes(consumer: Consumer, seconds: float = 0.2) -> None:
    """Poll for a while and find nothing."""
    deadline = asyncio.get_running_loop().time() + seconds
    while (left := deadline - asyncio.get_running_loop().time()) > 0:
        records = await consumer.poll(left)
        assert not records, list(records)
