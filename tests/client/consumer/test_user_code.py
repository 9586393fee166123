"""Deserializers and interceptors of a consumer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.broker.requests import produce
from tests.client.consumer.conftest import Stage, nothing_comes, read, run, values

from ottla.client.model import ConsumerRecords
from ottla.errors import DeserializationError
from ottla.records.batch import build_batch
from ottla.records.record import Record


def test_keys_and_values_are_what_the_deserializers_make_of_them(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        record = Record(0, 1, b"\x00\x00\x00\x07", '{"a": "ä"}'.encode(), (("h", b"1"),))
        produce(stage.connection, stage.topic, build_batch([record]))
        seen: list[Any] = []

        class Json:
            def configure(self, config: Mapping[str, Any], is_key: bool) -> None:
                seen.append((config["client.id"], is_key))

            def deserialize(self, topic: str, headers: Any, data: bytes) -> Any:
                seen.append((topic, headers))
                return json.loads(data)

            def close(self) -> None:
                seen.append("closed")

        async with stage.consumer(
            key_deserializer="integer", value_deserializer=Json, client_id="me"
        ) as consumer:
            consumer.assign(partitions)
            (found,) = await read(consumer, 1)
            assert (found.key, found.value) == (7, {"a": "ä"})
            assert (found.serialized_key_size, found.serialized_value_size) == (4, 11)
        assert seen == [("me", False), (stage.topic, (("h", b"1"),)), "closed"]

    run(test)


def test_text_is_read_in_its_encoding(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        stage.fill("ä".encode("latin-1"))
        for options in (
            {"value_deserializer_encoding": "latin-1"},
            {"deserializer_encoding": "latin-1"},
        ):
            async with stage.consumer(value_deserializer="string", **options) as consumer:
                consumer.assign(partitions)
                assert await values(consumer, 1) == ["ä"]

    run(test)


def test_a_record_that_cannot_be_deserialized_can_be_skipped(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        stage.fill_batch(b"1", b"2", b"bad", b"4")
        async with stage.consumer(value_deserializer=lambda data: int(data)) as consumer:
            consumer.assign(partitions)
            assert await values(consumer, 2) == [1, 2]
            for _ in range(2):
                with pytest.raises(DeserializationError, match="value") as caught:
                    await consumer.poll(5)
                assert (caught.value.partition, caught.value.offset) == (partitions[0], 2)
                assert caught.value.raw == b"bad"
                assert await consumer.position(partitions[0]) == 2
            assert caught.value.partition is not None
            consumer.seek(caught.value.partition, 3)
            assert await values(consumer, 1) == [4]

    run(test)


def test_null_keys_and_values_are_none(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        produce(stage.connection, stage.topic, build_batch([Record(0, 0, None, None)]))
        async with stage.consumer(
            key_deserializer=lambda data: int(data), value_deserializer="json"
        ) as consumer:
            consumer.assign(partitions)
            (found,) = await read(consumer, 1)
            assert (found.key, found.value) == (None, None)

    run(test)


class Doubling:
    """Makes two of every value."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def configure(self, config: Mapping[str, Any]) -> None:
        self.calls.append(f"configure {config['max.poll.records']}")

    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        self.calls.append("on_consume")
        return ConsumerRecords(
            {
                partition: [r._replace(value=r.value * 2) for r in records.records(partition)]
                for partition in records.partitions()
            },
            records.next_offsets,
        )

    def close(self) -> None:
        self.calls.append("close")


class Failing:
    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        raise ValueError("broken")


class Dropping:
    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        return ConsumerRecords({}, records.next_offsets)


def test_interceptors_see_records_in_order_and_their_errors_harm_nobody(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        partitions = stage.create()
        stage.fill(b"a")
        first, last = Doubling(), Doubling()
        async with stage.consumer(
            interceptor_classes=[first, Failing, last], max_poll_records=9
        ) as consumer:
            consumer.assign(partitions)
            assert await values(consumer, 1) == [b"aaaa"]
        for each in (first, last):
            assert each.calls == ["configure 9", "on_consume", "close"]
        assert "Failing.on_consume failed" in caplog.text

    run(test)


def test_records_that_an_interceptor_drops_are_consumed_all_the_same(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        stage.fill(b"a", b"b")
        async with stage.consumer(interceptor_classes=[Dropping]) as consumer:
            consumer.assign(partitions)
            async with asyncio.timeout(10):
                while await consumer.position(partitions[0]) < 2:
                    await nothing_comes(consumer, 0.02)

    run(test)
