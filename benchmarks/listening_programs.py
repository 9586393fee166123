"""Programs that listen to a topic, one framework each, with a handler that only counts.

Run: python -m benchmarks.listening_programs PROGRAM BOOTSTRAP_SERVER TOPIC SECONDS RECORDS
All join a group of their own and read partition 0 from its start. The clock starts with the first record.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop
from benchmarks.client_task import (
    CHUNK,
    POLL_SECONDS,
    VALUE_BYTES,
    Done,
    Program,
    Stopwatch,
    Task,
    run_program,
)

from ottla.app import App


class Counter:
    """Counts the values of a handler, and says when it is enough."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._watch: Stopwatch | None = None
        self._records = self._value_bytes = 0
        self.done: Done | None = None
        self.is_over = asyncio.Event()

    def count(self, value: bytes) -> None:
        if self._watch is None:
            self._watch = Stopwatch(self._task.seconds)
        self._records += 1
        self._value_bytes += len(value)
        if self._records % CHUNK or self.done is not None:
            return
        if self._records == self._task.records or self._watch.is_over():
            self.done = self._watch.done(self._records)
            self.is_over.set()

    async def result(self) -> Done:
        await self.is_over.wait()
        assert self.done is not None
        assert self._value_bytes == self._records * VALUE_BYTES, "values were lost or changed"
        return self.done


def _group() -> str:
    return f"bench-{uuid.uuid4().hex}"


async def _ottla(task: Task, **listener_options: Any) -> Done:
    counter = Counter(task)
    app = App("bench", bootstrap_servers=task.bootstrap_server, auto_offset_reset="earliest")

    @app.listener(task.topic, group=_group(), **listener_options)
    async def handle(value: bytes) -> None:
        counter.count(value)

    await app.start()
    try:
        return await counter.result()
    finally:
        await app.stop()


async def _ottla_partition(task: Task) -> Done:
    return await _ottla(task)


async def _ottla_keys(task: Task) -> Done:
    return await _ottla(task, order="key", workers=32)


async def _ottla_exactly_once(task: Task) -> Done:
    return await _ottla(task, delivery="exactly-once")


async def _faststream(task: Task, broker: Any) -> Done:
    counter = Counter(task)

    async def handle(body: bytes) -> None:
        counter.count(body)

    broker.subscriber(task.topic, group_id=_group(), auto_offset_reset="earliest")(handle)
    async with broker:
        await broker.start()
        return await counter.result()


async def _faststream_aiokafka(task: Task) -> Done:
    from faststream.kafka import KafkaBroker

    return await _faststream(task, KafkaBroker(task.bootstrap_server, logger=None))


async def _faststream_confluent(task: Task) -> Done:
    from faststream.confluent import KafkaBroker

    return await _faststream(task, KafkaBroker(task.bootstrap_server, logger=None))


async def _bare_confluent(task: Task) -> Done:
    from confluent_kafka import Consumer

    counter = Counter(task)
    consumer = Consumer(
        {
            "bootstrap.servers": task.bootstrap_server,
            "group.id": _group(),
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([task.topic])
    while not counter.is_over.is_set():
        for message in consumer.consume(CHUNK, POLL_SECONDS):
            value = message.value()
            assert value is not None
            counter.count(value)
    consumer.close()
    return await counter.result()


def _on_uvloop(run: Callable[[Task], Awaitable[Done]]) -> Program:
    async def main(task: Task) -> Done:
        return await run(task)

    return lambda task: uvloop.run(main(task))


LISTENERS: dict[str, Program] = {
    "ottla app": _on_uvloop(_ottla_partition),
    "ottla app, 32 workers by key": _on_uvloop(_ottla_keys),
    "ottla app, exactly-once": _on_uvloop(_ottla_exactly_once),
    "faststream aiokafka": _on_uvloop(_faststream_aiokafka),
    "faststream confluent": _on_uvloop(_faststream_confluent),
    "confluent-kafka loop": _on_uvloop(_bare_confluent),
}

if __name__ == "__main__":
    run_program(LISTENERS)
