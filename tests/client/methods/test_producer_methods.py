"""Every method of a producer, on both faces."""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow as pa
import pytest
from tests.client.methods.conftest import Face, Play, Stage, read

from ottla.client.send.sent_rows import WrittenRows
from ottla.errors import IllegalStateError
from ottla.model import TopicPartition
from ottla.records.batch import build_batch
from ottla.records.record import Record


async def outcome(stage: Stage, future: Any) -> Any:
    return await future if stage.face == "aio" else await asyncio.to_thread(future.result, 10)


async def committed(stage: Stage, count: int) -> list[bytes]:
    consumer = stage.consumer(isolation_level="read_committed")
    await consumer.assign([(stage.topic, 0)])
    return await read(consumer, count)


async def transactional(stage: Stage) -> Face:
    producer = stage.producer(transactional_id=stage.topic)
    await producer.init_transactions()
    return producer


def test_send(play: Play) -> None:
    async def test(stage: Stage) -> None:
        told: list[Any] = []
        producer = stage.producer()
        future = await producer.send(
            stage.topic,
            b"value",
            b"key",
            partition=0,
            headers=[("h", b"1")],
            timestamp_ms=77,
            on_delivery=lambda *outcome: told.append(outcome),
        )
        place = await outcome(stage, future)
        assert (place.topic, place.partition, place.offset) == (stage.topic, 0, 0)
        assert (place.serialized_key_size, place.serialized_value_size) == (3, 5)
        assert told == [(place, None)]
        consumer = stage.consumer()
        await consumer.assign([(stage.topic, 0)])
        (record,) = await consumer.poll(10)
        assert (record.key, record.value, record.timestamp_ms) == (b"key", b"value", 77)
        assert record.headers == (("h", b"1"),)

    play(test)


def test_send_many(play: Play) -> None:
    async def test(stage: Stage) -> None:
        producer = stage.producer()
        sent = await producer.send_many(
            stage.topic, [b"a", b"b"], keys=[b"1", b"2"], partition=0, timestamp_ms=5
        )
        places = await outcome(stage, sent)
        assert [each.offset for each in places] == [0, 1]
        assert await committed(stage, 2) == [b"a", b"b"]

    play(test)


def test_send_arrow(play: Play) -> None:
    async def test(stage: Stage) -> None:
        producer = await transactional(stage)
        await producer.begin_transaction()
        rows = pa.table({"value": ["a", "b"], "partition": [0, 0]})
        sent = await producer.send_arrow(stage.topic, rows)
        assert await outcome(stage, sent) == [WrittenRows(stage.topic, 0, 0, 2)]
        await producer.commit_transaction()
        assert await committed(stage, 2) == [b"a", b"b"]

    play(test)


def test_send_encoded(play: Play) -> None:
    async def test(stage: Stage) -> None:
        producer = await transactional(stage)
        await producer.begin_transaction()
        batch = build_batch([Record(0, 5, None, b"a"), Record(1, 5, None, b"b")])
        future = await producer.send_encoded(stage.topic, 0, batch)
        assert (await outcome(stage, future)).offset == 0
        await producer.commit_transaction()
        assert await committed(stage, 2) == [b"a", b"b"]

    play(test)


def test_flush(play: Play) -> None:
    async def test(stage: Stage) -> None:
        producer = stage.producer(linger_ms=20_000)
        futures = [await producer.send(stage.topic, b"x") for _ in range(3)]
        assert not any(future.done() for future in futures)
        await producer.flush(10)
        assert all(future.done() for future in futures)

    play(test)


def test_partitions_for_and_metrics(play: Play) -> None:
    async def test(stage: Stage) -> None:
        producer = stage.producer()
        partitions = await producer.partitions_for(stage.topic)
        assert [each.partition for each in partitions] == [0, 1]
        await outcome(stage, await producer.send(stage.topic, b"x"))
        assert (await producer.metrics())["record-send-total"] == 1

    play(test)


def test_transactions_are_begun_committed_and_aborted(play: Play) -> None:
    async def test(stage: Stage) -> None:
        producer = await transactional(stage)
        await producer.begin_transaction()
        await producer.send(stage.topic, b"no", partition=0)
        await producer.flush()
        await producer.abort_transaction()
        await producer.begin_transaction()
        await producer.send(stage.topic, b"yes", partition=0)
        await producer.commit_transaction()
        assert await committed(stage, 1) == [b"yes"]
        with pytest.raises(IllegalStateError):
            await producer.send(stage.topic, b"outside")

    play(test)


def test_transaction(play: Play) -> None:
    async def test(stage: Stage) -> None:
        producer = await transactional(stage)

        async def send_in_transaction(value: bytes, error: Exception | None) -> None:
            if stage.face == "aio":
                async with producer.client.transaction():
                    await producer.send(stage.topic, value, partition=0)
                    if error is not None:
                        raise error
            else:
                with producer.client.transaction():
                    producer.client.send(stage.topic, value, partition=0)
                    if error is not None:
                        raise error

        with pytest.raises(ZeroDivisionError):
            await send_in_transaction(b"no", ZeroDivisionError())
        await send_in_transaction(b"yes", None)
        assert await committed(stage, 1) == [b"yes"]

    play(test)


@pytest.mark.parametrize("by", ["group id", "group metadata"])
def test_send_offsets_to_transaction(play: Play, by: str) -> None:
    async def test(stage: Stage) -> None:
        partition = TopicPartition(stage.topic, 0)
        await stage.fill(b"a")
        producer = await transactional(stage)
        consumer = stage.member()
        group = stage.group if by == "group id" else await consumer.group_metadata()
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({partition: 3}, group)
        await producer.abort_transaction()
        assert await consumer.committed([partition]) == {partition: None}
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({(stage.topic, 0): 4}, group)
        await producer.commit_transaction()
        assert (await consumer.committed([partition]))[partition].offset == 4

    play(test)


def test_close(play: Play) -> None:
    async def test(stage: Stage) -> None:
        producer = stage.producer(linger_ms=20_000)
        future = await producer.send(stage.topic, b"x", partition=0)
        await producer.close(timeout=10)
        await producer.close()
        assert (await outcome(stage, future)).offset == 0
        with pytest.raises(IllegalStateError, match="closed"):
            await producer.send(stage.topic, b"y")

    play(test)
