"""Listeners of tests: tiny handlers, and a runtime over a broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import ottla
from ottla.app.declarations.listener_spec import ListenerSpec, RawRecord
from ottla.app.delivery.unit import OutgoingRecord, Unit
from ottla.app.listening.clients import ClientFactory
from ottla.app.listening.runtime import Runtime
from ottla.model import TopicPartition
from ottla.testing import Broker

DEADLINE_SECONDS = 30.0


class OneByOne:
    """A handler of single records."""

    is_batch = False
    runs_in_thread = False

    def __init__(self, call: Callable[[RawRecord, Unit], Awaitable[None]]) -> None:
        self._call = call

    async def __call__(self, records: Sequence[RawRecord], unit: Unit) -> None:
        await self._call(records[0], unit)


class InThread(OneByOne):
    """A handler that is a plain function."""

    runs_in_thread = True

    def __init__(self, call: Callable[[RawRecord], None]) -> None:
        async def run(record: RawRecord, unit: Unit) -> None:
            await asyncio.to_thread(call, record)

        super().__init__(run)


class InBatches:
    """A handler of lists."""

    is_batch = True
    runs_in_thread = False

    def __init__(self, call: Callable[[Sequence[RawRecord], Unit], Awaitable[None]]) -> None:
        self._call = call

    async def __call__(self, records: Sequence[RawRecord], unit: Unit) -> None:
        await self._call(records, unit)


def listener(handler: Any, **options: Any) -> ListenerSpec:
    """A listener of `orders` in the group `billing`."""
    given = {"name": "bill", "topics": ("orders",), "group": "billing", **options}
    return ListenerSpec(handler=handler, **given)


def copy_to(topic: str, record: RawRecord, unit: Unit) -> None:
    """Send the same key and value to another topic."""
    unit.collect(OutgoingRecord(topic, record.value, record.key))


def seed(broker: Broker, topic: str, count: int, *, keys: int = 5, first: int = 0) -> None:
    """Records with their number as value, and keys in turn."""
    with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send_many(
            topic,
            [b"%d" % number for number in range(first, first + count)],
            keys=[b"k%d" % (number % keys) for number in range(first, first + count)],
        )
        producer.flush()


def committed(broker: Broker, topic: str = "orders", group: str = "billing") -> int | None:
    """The committed offset of the topic's only partition."""
    with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        found = admin.list_consumer_group_offsets([group])[group]
        position = found.get(TopicPartition(topic, 0))
        return None if position is None else position.offset


@asynccontextmanager
async def running(
    broker: Broker, *specs: ListenerSpec, **options: object
) -> AsyncIterator[Runtime]:
    """The listeners, until the end of the block, which drains them."""
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    clients = ClientFactory(
        consumer_options={**servers, "auto.offset.reset": "earliest", **options},
        producer_options=servers,
        admin_options=servers,
    )
    runtime = Runtime(specs, clients)
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await runtime.start()
            yield runtime
            await runtime.drain(DEADLINE_SECONDS)
    finally:
        await runtime.stop()
        await clients.close()
