"""Programs that consume with one client each.

Run: python -m benchmarks.consuming_clients PROGRAM BOOTSTRAP_SERVER TOPIC SECONDS RECORDS
All read every partition from its start, without a group, and look at every value.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from importlib import import_module
from typing import Any

import uvloop
from benchmarks.client_task import (
    CHUNK,
    FLUSH_SECONDS,
    POLL_SECONDS,
    VALUE_BYTES,
    Done,
    Program,
    Stopwatch,
    Task,
    run_program,
)
from benchmarks.peers import PARTITIONS_PER_TOPIC

POLL_MS = 10_000

# What one call of a client gives: lists of records with values.
Polled = Iterable[Sequence[Any]]


def _check(value_bytes: int, records: int) -> None:
    assert value_bytes == records * VALUE_BYTES, "values were lost or changed"


def _poll(task: Task, poll: Callable[[], Polled]) -> Done:
    records = value_bytes = 0
    watch = Stopwatch(task.seconds)
    while records < task.records and not watch.is_over():
        for messages in poll():
            for message in messages:
                value_bytes += len(message.value)
            records += len(messages)
    done = watch.done(records)
    _check(value_bytes, records)
    return done


async def _poll_async(task: Task, poll: Callable[[], Awaitable[Polled]]) -> Done:
    records = value_bytes = 0
    watch = Stopwatch(task.seconds)
    while records < task.records and not watch.is_over():
        for messages in await poll():
            for message in messages:
                value_bytes += len(message.value)
            records += len(messages)
    done = watch.done(records)
    _check(value_bytes, records)
    return done


def _iterate(task: Task, consumer: Iterable[Any]) -> Done:
    records = value_bytes = 0
    watch = Stopwatch(task.seconds)
    for message in consumer:
        value_bytes += len(message.value)
        records += 1
        if records == task.records or (records % CHUNK == 0 and watch.is_over()):
            break
    done = watch.done(records)
    _check(value_bytes, records)
    return done


@contextmanager
def ottla_consumer(task: Task) -> Iterator[Any]:
    import ottla

    with ottla.Consumer(
        bootstrap_servers=task.bootstrap_server, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([(task.topic, index) for index in range(PARTITIONS_PER_TOPIC)])
        yield consumer


def ottla_poll(task: Task) -> Done:
    with ottla_consumer(task) as consumer:
        return _poll(task, lambda: (consumer.poll(POLL_SECONDS),))


def ottla_poll_arrow(task: Task) -> Done:
    import pyarrow.compute as pc

    # It takes as long as reading a million records.
    import_module("ottla.records.arrow")
    records = value_bytes = 0
    with ottla_consumer(task) as consumer:
        # It must not wait for new records at the end, before it reads all of them again.
        ends = consumer.end_offsets(consumer.assignment())
        watch = Stopwatch(task.seconds)
        while not watch.is_over():
            polled = consumer.poll_arrow(POLL_SECONDS, end_offsets=ends)
            for batch in polled.batches:
                value_bytes += pc.sum(pc.binary_length(batch["value"])).as_py()
            records += len(polled)
            if records % task.records == 0:
                # It reads all of them in a part of the time, and then again.
                consumer.seek_to_beginning()
        done = watch.done(records)
    _check(value_bytes, records)
    return done


def ottla_iterate(task: Task) -> Done:
    with ottla_consumer(task) as consumer:
        return _iterate(task, consumer)


@asynccontextmanager
async def ottla_aio_consumer(task: Task) -> AsyncIterator[Any]:
    import ottla.aio

    async with ottla.aio.Consumer(
        bootstrap_servers=task.bootstrap_server, auto_offset_reset="earliest"
    ) as consumer:
        partitions = [(task.topic, index) for index in range(PARTITIONS_PER_TOPIC)]
        assigned: object = consumer.assign(partitions)
        if asyncio.iscoroutine(assigned):  # of an older checkout, which is compared with this one
            await assigned
        yield consumer


def ottla_aio_poll(task: Task) -> Done:
    return uvloop.run(_ottla_aio_poll(task))


async def _ottla_aio_poll(task: Task) -> Done:
    async with ottla_aio_consumer(task) as consumer:

        async def poll() -> Polled:
            return (await consumer.poll(POLL_SECONDS),)

        return await _poll_async(task, poll)


def confluent_consumer(task: Task) -> Any:
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": task.bootstrap_server,
            "group.id": "bench",
            "enable.auto.commit": False,
            # By default a consumer whose queue is full pauses for a second.
            "fetch.queue.backoff.ms": 2,
            "log_level": 0,
        }
    )
    consumer.list_topics(task.topic, timeout=FLUSH_SECONDS)
    consumer.assign(
        [
            confluent_kafka.TopicPartition(task.topic, index, 0)
            for index in range(PARTITIONS_PER_TOPIC)
        ]
    )
    return consumer


def confluent_consume(task: Task) -> Done:
    consumer = confluent_consumer(task)
    records = value_bytes = 0
    watch = Stopwatch(task.seconds)
    while records < task.records and not watch.is_over():
        messages = consumer.consume(CHUNK, POLL_SECONDS)
        for message in messages:
            assert message.error() is None
            value_bytes += len(message.value())
        records += len(messages)
    done = watch.done(records)
    _check(value_bytes, records)
    consumer.close()
    return done


def confluent_poll(task: Task) -> Done:
    consumer = confluent_consumer(task)
    records = value_bytes = 0
    watch = Stopwatch(task.seconds)
    while records < task.records and (records % CHUNK or not watch.is_over()):
        message = consumer.poll(POLL_SECONDS)
        assert message.error() is None
        value_bytes += len(message.value())
        records += 1
    done = watch.done(records)
    _check(value_bytes, records)
    consumer.close()
    return done


@asynccontextmanager
async def aiokafka_consumer(task: Task) -> AsyncIterator[Any]:
    import aiokafka

    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=task.bootstrap_server,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    async with consumer:
        partitions = [
            aiokafka.TopicPartition(task.topic, index) for index in range(PARTITIONS_PER_TOPIC)
        ]
        consumer.assign(partitions)
        yield consumer


def aiokafka_getmany(task: Task) -> Done:
    return uvloop.run(_aiokafka_getmany(task))


async def _aiokafka_getmany(task: Task) -> Done:
    async with aiokafka_consumer(task) as consumer:

        async def poll() -> Polled:
            polled = await consumer.getmany(timeout_ms=POLL_MS, max_records=CHUNK)
            found: Polled = polled.values()
            return found

        return await _poll_async(task, poll)


def aiokafka_iterate(task: Task) -> Done:
    return uvloop.run(_aiokafka_iterate(task))


async def _aiokafka_iterate(task: Task) -> Done:
    async with aiokafka_consumer(task) as consumer:
        records = value_bytes = 0
        watch = Stopwatch(task.seconds)
        async for message in consumer:
            value_bytes += len(message.value)
            records += 1
            if records == task.records or (records % CHUNK == 0 and watch.is_over()):
                break
        _check(value_bytes, records)
        return watch.done(records)


def kafka_python_consumer(task: Task) -> Any:
    import kafka

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=task.bootstrap_server,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    consumer.assign(
        [kafka.TopicPartition(task.topic, index) for index in range(PARTITIONS_PER_TOPIC)]
    )
    return consumer


def kafka_python_poll(task: Task) -> Done:
    with closing(kafka_python_consumer(task)) as consumer:
        return _poll(task, lambda: consumer.poll(POLL_MS, max_records=CHUNK).values())


def kafka_python_iterate(task: Task) -> Done:
    with closing(kafka_python_consumer(task)) as consumer:
        return _iterate(task, consumer)


CONSUMERS: dict[str, Program] = {
    "ottla poll": ottla_poll,
    "ottla iteration": ottla_iterate,
    "ottla poll_arrow": ottla_poll_arrow,
    "ottla.aio poll": ottla_aio_poll,
    "confluent-kafka consume": confluent_consume,
    "confluent-kafka poll": confluent_poll,
    "aiokafka getmany": aiokafka_getmany,
    "aiokafka iteration": aiokafka_iterate,
    "kafka-python poll": kafka_python_poll,
    "kafka-python iteration": kafka_python_iterate,
}

if __name__ == "__main__":
    run_program(CONSUMERS)
