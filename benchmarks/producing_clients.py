"""Programs that produce with one client each.

Run: python -m benchmarks.producing_clients PROGRAM BOOTSTRAP_SERVER TOPIC SECONDS 0
All wait for all replicas, are idempotent, and send batches of up to 64 kB after at most 5 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import uvloop
from benchmarks.client_task import (
    CHUNK,
    FLUSH_SECONDS,
    VALUE_BYTES,
    Done,
    Program,
    Stopwatch,
    Task,
    run_program,
)

LINGER_MS = 5
BATCH_BYTES = 65_536
# About one batch of `send_arrow`, which are of up to 1 MiB.
ARROW_ROWS = 10_000

OTTLA_PRODUCER: dict[str, Any] = {"acks": "all", "linger_ms": LINGER_MS, "batch_size": BATCH_BYTES}
CONFLUENT_PRODUCER = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": LINGER_MS,
    "batch.size": BATCH_BYTES,
    "log_level": 0,
}
AIOKAFKA_PRODUCER = {
    "acks": "all",
    "enable_idempotence": True,
    "linger_ms": LINGER_MS,
    "max_batch_size": BATCH_BYTES,
}
KAFKA_PYTHON_PRODUCER = {
    "acks": "all",
    "enable_idempotence": True,
    "linger_ms": LINGER_MS,
    "batch_size": BATCH_BYTES,
}


@contextmanager
def ottla_producer(task: Task) -> Iterator[Any]:
    import ottla

    with ottla.Producer(bootstrap_servers=task.bootstrap_server, **OTTLA_PRODUCER) as producer:
        producer.partitions_for(task.topic)
        yield producer


def _send(
    task: Task, send: Callable[..., object], flush: Callable[[], object], options: dict[str, Any]
) -> Done:
    topic, value = task.topic, b"x" * VALUE_BYTES
    records = 0
    watch = Stopwatch(task.seconds)
    while not watch.is_over():
        for _ in range(CHUNK):
            send(topic, value, **options)
        records += CHUNK
    flush()
    return watch.done(records)


async def _send_async(task: Task, producer: Any) -> Done:
    await producer.partitions_for(task.topic)
    topic, value = task.topic, b"x" * VALUE_BYTES
    records = 0
    watch = Stopwatch(task.seconds)
    while not watch.is_over():
        for _ in range(CHUNK):
            await producer.send(topic, value)
        records += CHUNK
    await producer.flush()
    return watch.done(records)


def ottla_send(task: Task) -> Done:
    with ottla_producer(task) as producer:
        return _send(task, producer.send, producer.flush, {})


def ottla_send_with_callback(task: Task) -> Done:
    delivered = 0

    def on_delivery(_: object, error: BaseException | None) -> None:
        nonlocal delivered
        delivered += error is None

    with ottla_producer(task) as producer:
        done = _send(task, producer.send, producer.flush, {"on_delivery": on_delivery})
    assert delivered == done.records
    return done


def ottla_send_many(task: Task) -> Done:
    with ottla_producer(task) as producer:
        topic, values = task.topic, [b"x" * VALUE_BYTES] * CHUNK
        records = 0
        watch = Stopwatch(task.seconds)
        while not watch.is_over():
            producer.send_many(topic, values)
            records += CHUNK
        producer.flush()
        return watch.done(records)


def ottla_send_arrow(task: Task) -> Done:
    import pyarrow as pa

    import_module("ottla.records.arrow_encoder")
    with ottla_producer(task) as producer:
        # Made once, as the messages of `produce_batch`.
        rows = pa.table({"value": pa.array([b"x" * VALUE_BYTES] * ARROW_ROWS, pa.binary())})
        records = 0
        watch = Stopwatch(task.seconds)
        while not watch.is_over():
            producer.send_arrow(task.topic, rows)
            records += ARROW_ROWS
        producer.flush()
        return watch.done(records)


def ottla_aio_send(task: Task) -> Done:
    return uvloop.run(_ottla_aio_send(task))


async def _ottla_aio_send(task: Task) -> Done:
    import ottla.aio

    async with ottla.aio.Producer(
        bootstrap_servers=task.bootstrap_server, **OTTLA_PRODUCER
    ) as producer:
        return await _send_async(task, producer)


def confluent_producer(task: Task) -> Any:
    import confluent_kafka

    producer = confluent_kafka.Producer(
        {"bootstrap.servers": task.bootstrap_server, **CONFLUENT_PRODUCER}
    )
    producer.list_topics(task.topic, timeout=FLUSH_SECONDS)
    return producer


def confluent_produce(task: Task) -> Done:
    return _confluent_produce(task, {})


def confluent_produce_with_callback(task: Task) -> Done:
    delivered = 0

    def on_delivery(error: object, _: object) -> None:
        nonlocal delivered
        delivered += error is None

    done = _confluent_produce(task, {"on_delivery": on_delivery})
    assert delivered == done.records
    return done


def _confluent_produce(task: Task, options: dict[str, Any]) -> Done:
    producer = confluent_producer(task)
    topic, value = task.topic, b"x" * VALUE_BYTES
    records = 0
    watch = Stopwatch(task.seconds)
    while not watch.is_over():
        for _ in range(CHUNK):
            try:
                producer.produce(topic, value, **options)
            except BufferError:
                # Its queue of 100,000 records is full.
                producer.poll(0.01)
            else:
                records += 1
        producer.poll(0)
    assert producer.flush(FLUSH_SECONDS) == 0
    return watch.done(records)


def confluent_produce_batch(task: Task) -> Done:
    producer = confluent_producer(task)
    # Made once, which an application could not do: its values differ.
    topic, messages = task.topic, [{"value": b"x" * VALUE_BYTES}] * CHUNK
    records = 0
    watch = Stopwatch(task.seconds)
    while not watch.is_over():
        if len(producer) > 100_000 - CHUNK:
            producer.poll(0.001)
            continue
        records += producer.produce_batch(topic, messages)
        producer.poll(0)
    assert producer.flush(FLUSH_SECONDS) == 0
    return watch.done(records)


def aiokafka_send(task: Task) -> Done:
    return uvloop.run(_aiokafka_send(task))


async def _aiokafka_send(task: Task) -> Done:
    import aiokafka

    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=task.bootstrap_server, **AIOKAFKA_PRODUCER
    )
    async with producer:
        return await _send_async(task, producer)


def kafka_python_send(task: Task) -> Done:
    import kafka

    producer = kafka.KafkaProducer(bootstrap_servers=task.bootstrap_server, **KAFKA_PYTHON_PRODUCER)
    producer.partitions_for(task.topic)
    done = _send(task, producer.send, lambda: producer.flush(FLUSH_SECONDS), {})
    producer.close()
    return done


PRODUCERS: dict[str, Program] = {
    "ottla send": ottla_send,
    "ottla send, on_delivery": ottla_send_with_callback,
    "ottla send_many": ottla_send_many,
    "ottla send_arrow": ottla_send_arrow,
    "ottla.aio send": ottla_aio_send,
    "confluent-kafka produce": confluent_produce,
    "confluent-kafka produce, on_delivery": confluent_produce_with_callback,
    "confluent-kafka produce_batch": confluent_produce_batch,
    "aiokafka send": aiokafka_send,
    "kafka-python send": kafka_python_send,
}

if __name__ == "__main__":
    run_program(PRODUCERS)
