"""A broker with a topic, filled by raw requests, and a loop for each test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from tests.broker.requests import batch_of, create, eventually, fetch, fill, produce
from tests.groups.brokers import Running, one_node

from ottla.client.aio.consumer.consumer import Consumer
from ottla.client.model import ConsumerRecord
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
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

    def __init__(self, broker: Running, connection: RawConnection, topic: str) -> None:
        self.broker = broker
        self.connection = connection
        self.topic = topic

    def create(self, partitions: int = 1, **configs: str) -> list[TopicPartition]:
        create(self.connection, self.topic, partitions=partitions, config=configs)
        found = [TopicPartition(self.topic, n) for n in range(partitions)]
        # Kafka leads the partitions a moment after it has answered.
        assert eventually(lambda: all(self._is_led(partition) for partition in found))
        return found

    def _is_led(self, partition: TopicPartition) -> bool:
        data = fetch(self.connection, partition.topic, 0, partition=partition.partition)
        return data.error_code == ErrorCode.NONE

    def fill(self, *values: bytes, partition: int = 0) -> list[int]:
        """A batch for each value."""
        return fill(self.connection, self.topic, *values, partition=partition)

    def fill_batch(self, *values: bytes, partition: int = 0, **options: Any) -> int:
        """One batch of all values; the offset of the first."""
        data = batch_of(*values, **options)
        written = produce(self.connection, self.topic, data, partition=partition)
        assert written.error_code == ErrorCode.NONE, written
        return written.base_offset

    def consumer(self, **options: Any) -> Consumer:
        # A fetch that waits at the broker holds up those after a seek.
        quick = {"auto_offset_reset": "earliest", "retry_backoff_ms": 10, "fetch_max_wait_ms": 50}
        options = {**quick, **options}
        return Consumer(bootstrap_servers=self.broker.bootstrap_servers, **options)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Ottla; with OTTLA_TEST_BROKER=kafka it is Apache Kafka, which shows that the tests are right."""
    with one_node(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def stage(broker: Running, ottla_topic: str) -> Iterator[Stage]:
    with RawConnection(broker.bootstrap_servers) as connection:
        yield Stage(broker, connection, ottla_topic)


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


async def poll_until(consumer: Consumer, condition: Callable[[], object]) -> None:
    """Poll, and find nothing, until something else has come to pass."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():
            await nothing_comes(consumer, 0.02)


async def nothing_comes(consumer: Consumer, seconds: float = 0.2) -> None:
    """Poll for a while and find nothing."""
    deadline = asyncio.get_running_loop().time() + seconds
    while (left := deadline - asyncio.get_running_loop().time()) > 0:
        records = await consumer.poll(left)
        assert not records, list(records)
