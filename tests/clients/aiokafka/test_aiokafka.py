"""What is particular to aiokafka."""

from __future__ import annotations

import asyncio

import aiokafka
import pytest
from tests.clients.aiokafka.driver import AioKafka, AioProducer
from tests.clients.broker_side import batches_of
from tests.clients.conftest import RestartableBroker
from tests.clients.messages import numbered

from ottla import Broker


@pytest.fixture
def client(ottla_broker: Broker) -> AioKafka:
    return AioKafka(ottla_broker.bootstrap_servers)


def test_an_idempotent_producer_goes_on_after_a_restart(
    restartable_broker: RestartableBroker, ottla_topic: str
) -> None:
    servers = restartable_broker.bootstrap_servers
    with AioProducer(servers, enable_idempotence=True) as producer:
        assert producer.send(ottla_topic, numbered(50)) == list(range(50))
        restartable_broker.restart()
        assert producer.send(ottla_topic, numbered(50, start=50)) == list(range(50, 100))
    batches = batches_of(servers, ottla_topic)
    values = [record.value for batch in batches for record in batch.records]
    assert values == [message.value for message in numbered(100)]
    assert len({batch.header.producer_id for batch in batches}) == 1
    assert batches[0].header.producer_id >= 0
    assert batches[-1].header.last_sequence == 99


def test_a_batch_that_the_application_built_is_stored_as_it_is(
    client: AioKafka, ottla_topic: str
) -> None:
    async def send() -> int:
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=client.bootstrap_servers
        ) as producer:
            await producer.partitions_for(ottla_topic)
            batch = producer.create_batch()
            for message in numbered(25):
                added = batch.append(
                    key=message.key,
                    value=message.value,
                    timestamp=None,
                    headers=list(message.headers),
                )
                assert added is not None
            sent = await producer.send_batch(batch, ottla_topic, partition=0)
            return int((await sent).offset)

    assert asyncio.run(send()) == 0
    (batch,) = batches_of(client.bootstrap_servers, ottla_topic)
    assert batch.header.record_count == 25
    assert [one.content for one in client.read(ottla_topic, 25)] == numbered(25)


def test_many_producers_at_once_lose_nothing(client: AioKafka, ottla_topic: str) -> None:
    async def send(number: int) -> None:
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=client.bootstrap_servers, enable_idempotence=True
        ) as producer:
            for message in numbered(20, start=100 * number):
                await producer.send_and_wait(ottla_topic, message.value, message.key, 0)

    async def send_all() -> None:
        await asyncio.gather(*(send(number) for number in range(10)))

    client.create_topic(ottla_topic)
    asyncio.run(send_all())
    received = client.read(ottla_topic, 200)
    assert [one.offset for one in received] == list(range(200))
    for number in range(10):
        sent = [message.value for message in numbered(20, start=100 * number)]
        assert [one.value for one in received if one.value in sent] == sent


def test_positions_follow_seeks(client: AioKafka, ottla_topic: str) -> None:
    client.send(ottla_topic, numbered(10))
    partition = aiokafka.TopicPartition(ottla_topic, 0)

    async def seek() -> tuple[int, int, int, int]:
        async with aiokafka.AIOKafkaConsumer(
            bootstrap_servers=client.bootstrap_servers, group_id=None
        ) as consumer:
            consumer.assign([partition])
            await consumer.seek_to_end(partition)
            end = await consumer.position(partition)
            await consumer.seek_to_beginning(partition)
            start = await consumer.position(partition)
            first = await consumer.getone(partition)
            return start, end, first.offset, consumer.highwater(partition)

    assert asyncio.run(seek()) == (0, 10, 0, 10)
