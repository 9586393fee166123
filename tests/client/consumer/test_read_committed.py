"""What readers of committed records see of transactions that others write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer
from tests.client.consumer.conftest import Stage, nothing_comes, read, run, values


class Writer:
    """A transactional producer of another client."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.topic = stage.topic
        self.producer = Producer(
            {
                "bootstrap.servers": stage.broker.bootstrap_servers,
                "transactional.id": f"{name}-{stage.topic}",
                "linger.ms": 0,
            }
        )
        self.producer.init_transactions(20)

    def begin(self) -> None:
        self.producer.begin_transaction()

    def send(self, *sent: bytes, partition: int = 0) -> None:
        for value in sent:
            self.producer.produce(self.topic, value, partition=partition)
        assert self.producer.flush(20) == 0

    def commit(self) -> None:
        self.producer.commit_transaction(20)

    def abort(self) -> None:
        self.producer.abort_transaction(20)


@contextmanager
def writers(stage: Stage, count: int) -> Iterator[list[Writer]]:
    yield [Writer(stage, f"writer-{n}") for n in range(count)]


def test_aborted_records_are_left_out_and_committed_ones_are_seen(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create(2)
        with writers(stage, 2) as (first, second):
            first.begin()
            first.send(b"a1", b"a2")
            second.begin()
            second.send(b"lost")
            stage.fill(b"plain")
            second.send(b"lost too", partition=1)
            second.abort()
            first.send(b"a3", partition=1)
            first.commit()
            second.begin()
            second.send(b"b1")
            second.commit()
        async with stage.consumer(isolation_level="read_committed") as consumer:
            consumer.assign(partitions)
            found = await read(consumer, 5)
            assert [r.value for r in found if r.partition == 0] == [b"a1", b"a2", b"plain", b"b1"]
            assert [r.value for r in found if r.partition == 1] == [b"a3"]
            await nothing_comes(consumer)
            ends = await consumer.end_offsets()
            for partition in partitions:
                assert await consumer.position(partition) == ends[partition], "past the markers"
        async with stage.consumer(isolation_level="read_uncommitted") as consumer:
            consumer.assign(partitions)
            assert len(await values(consumer, 7)) == 7

    run(test)


@pytest.mark.parametrize("ends_with", ["commit", "abort"])
def test_an_open_transaction_holds_up_what_is_behind_it(stage: Stage, ends_with: str) -> None:
    async def test() -> None:
        partitions = stage.create()
        with writers(stage, 1) as (writer,):
            stage.fill(b"before")
            writer.begin()
            writer.send(b"open")
            stage.fill(b"behind")
            async with stage.consumer(isolation_level="read_committed") as consumer:
                consumer.assign(partitions)
                assert await values(consumer, 1) == [b"before"]
                await nothing_comes(consumer)
                assert await consumer.end_offsets() == {partitions[0]: 1}
                assert consumer.current_lag(partitions[0]) == 0
                async with stage.consumer() as other:
                    other.assign(partitions)
                    assert await values(other, 3) == [b"before", b"open", b"behind"]
                    assert await other.end_offsets() == {partitions[0]: 3}
                consumer.seek_to_end()
                assert await consumer.position(partitions[0]) == 1
                getattr(writer, ends_with)()
                expected = [b"open", b"behind"] if ends_with == "commit" else [b"behind"]
                assert await values(consumer, len(expected)) == expected

    run(test)


def test_a_reader_that_starts_inside_of_an_aborted_transaction_sees_none_of_it(
    stage: Stage,
) -> None:
    async def test() -> None:
        partitions = stage.create()
        with writers(stage, 1) as (writer,):
            writer.begin()
            writer.send(b"x1")
            writer.send(b"x2")
            writer.send(b"x3")
            writer.abort()
            writer.begin()
            writer.send(b"seen")
            writer.commit()
        async with stage.consumer(isolation_level="read_committed") as consumer:
            consumer.assign(partitions)
            for start in range(5):
                consumer.seek(partitions[0], start)
                assert await values(consumer, 1) == [b"seen"]

    run(test)


def test_small_polls_and_small_fetches_see_the_same(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        expected = []
        with writers(stage, 2) as pair:
            for n in range(12):
                writer = pair[n % 2]
                writer.begin()
                writer.send(b"%d" % n, b"%d again" % n)
                if n % 3:
                    writer.commit()
                    expected += [b"%d" % n, b"%d again" % n]
                else:
                    writer.abort()
        async with stage.consumer(
            isolation_level="read_committed", max_poll_records=1, max_partition_fetch_bytes=1
        ) as consumer:
            consumer.assign(partitions)
            assert await values(consumer, len(expected)) == expected

    run(test)
