"""Both faces of a client, called in the same way: what holds for one has to hold for the other."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.lasting import LASTING

import ottla
import ottla.aio
from ottla import Broker

FACES = ("blocking", "aio")
TEST_SECONDS = 30.0


class Face:
    """A client whose every method is awaited; one that blocks runs on a thread meanwhile."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        method = getattr(self.client, name)

        async def call(*arguments: Any, **options: Any) -> Any:
            if type(self.client).__module__.startswith("ottla.client.blocking"):
                return await asyncio.to_thread(method, *arguments, **options)
            result = method(*arguments, **options)
            return await result if inspect.iscoroutine(result) else result

        return call


class Stage:
    """Makes clients of one face, for a topic and a group of their own."""

    def __init__(self, face: str, servers: str, topic: str, stack: AsyncExitStack) -> None:
        self.face = face
        self.servers = servers
        self.topic = topic
        self.group = f"group-of-{topic}"
        self._stack = stack

    def producer(self, **options: Any) -> Face:
        return self._made(ottla.Producer, ottla.aio.Producer, options)

    def consumer(self, **options: Any) -> Face:
        quick = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 50}
        return self._made(ottla.Consumer, ottla.aio.Consumer, {**quick, **options})

    def member(self, **options: Any) -> Face:
        return self.consumer(group_id=self.group, **options)

    async def fill(self, *values: bytes, partition: int = 0) -> None:
        with ottla.Producer(bootstrap_servers=self.servers) as producer:
            for value in values:
                producer.send(self.topic, value, partition=partition, timestamp_ms=len(value))

    def _made(self, blocking: Any, native: Any, options: dict[str, Any]) -> Face:
        kind = blocking if self.face == "blocking" else native
        face = Face(kind(bootstrap_servers=self.servers, **options))
        self._stack.push_async_callback(face.close)
        return face


Play = Callable[[Callable[[Stage], Coroutine[Any, Any, None]]], None]


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A broker whose topics have two partitions."""
    with Broker(LASTING, num_partitions=2) as broker:
        yield broker


@pytest.fixture(params=FACES)
def play(request: pytest.FixtureRequest, broker: Broker, ottla_topic: str) -> Play:
    """Runs a test with clients of each face, and closes them in the end."""

    def run(test: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            async with asyncio.timeout(TEST_SECONDS), AsyncExitStack() as stack:
                servers = broker.bootstrap_servers
                await test(Stage(request.param, servers, ottla_topic, stack))

        asyncio.run(main())

    return run


async def poll_until(consumer: Face, condition: Callable[[], Coroutine[Any, Any, bool]]) -> Any:
    """All records that came until something was true."""
    found: list[Any] = []
    while not await condition():
        found += await consumer.poll(0.05)
    return found


async def read(consumer: Face, count: int) -> list[bytes]:
    """The values of so many records."""
    values: list[bytes] = []
    while len(values) < count:
        values += [record.value for record in await consumer.poll(1.0)]
    return values


async def joined(consumer: Face) -> None:
    """Poll until the group has given partitions, and what was polled is not lost."""

    async def has_partitions() -> bool:
        return bool(await consumer.assignment())

    await poll_until(consumer, has_partitions)
