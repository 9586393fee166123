"""Sending without trouble: what arrives, where, and what the caller is told."""

from __future__ import annotations

import asyncio
import os
import pickle
import struct
import sys
import threading
import time
from typing import Any

import confluent_kafka
import pytest
from tests.client.admin.old_broker import old_broker
from tests.client.producer.meddler import Meddler, produce_error
from tests.client.producer.reading import headers_of, records_of, values_of

import ottla
import ottla.aio
from ottla.client.send.delivery import RecordFuture, accepted_before
from ottla.config.option_types import CompressionTypeWord
from ottla.errors import (
    AbortableError,
    ErrorCode,
    IllegalStateError,
    KafkaError,
    SerializationError,
    TimedOutError,
)
from ottla.records.client_kernel import partition_of_key

PARTITIONS = 2


def test_send_tells_where_the_record_is(servers: str, topic: str) -> None:
    before = int(time.time() * 1000)
    with ottla.Producer(bootstrap_servers=servers) as producer:
        sent = producer.send(
            topic, value=b"value", key=b"key", partition=1, headers=[("a", b"1"), ("b", None)]
        ).result(10)
        nulls = producer.send(topic, partition=1, timestamp_ms=12345).result(10)
    assert sent[:3] == (topic, 1, 0)
    assert before <= sent.timestamp_ms <= time.time() * 1000
    assert sent[4:] == (3, 5)
    assert nulls == (topic, 1, 1, 12345, -1, -1)
    first, second = records_of(servers, topic, 1)
    assert (first.key, first.value) == (b"key", b"value")
    assert first.headers == (("a", b"1"), ("b", None))
    assert first.timestamp == sent.timestamp_ms
    assert (second.key, second.value, second.timestamp) == (None, None, 12345)


def test_on_delivery_is_called_once_with_metadata_or_error(servers: str, topic: str) -> None:
    told: list[tuple[Any, Any]] = []
    with ottla.Producer(bootstrap_servers=servers) as producer:
        for number in range(20):
            producer.send(
                topic,
                b"%d" % number,
                partition=0,
                on_delivery=lambda metadata, error: told.append((metadata, error)),
            )
        producer.flush()
        assert [metadata.offset for metadata, _ in told] == list(range(20)), "flush waits for them"
    assert {error for _, error in told} == {None}


def test_callback_that_raises_harms_nobody(servers: str, topic: str) -> None:
    def fail(metadata: object, error: object) -> None:
        raise ZeroDivisionError

    with ottla.Producer(bootstrap_servers=servers) as producer:
        futures = [producer.send(topic, b"x", on_delivery=fail) for _ in range(3)]
        assert all(future.result(10) for future in futures)
        assert producer.send(topic, b"y").result(10)


def test_callback_may_send(servers: str, topic: str) -> None:
    with ottla.Producer(bootstrap_servers=servers) as producer:
        again: list[RecordFuture] = []
        done = threading.Event()

        def once_more(metadata: object, error: object) -> None:
            again.append(producer.send(topic, b"second", partition=0))
            done.set()

        producer.send(topic, b"first", partition=0, on_delivery=once_more)
        assert done.wait(10)
        assert again[0].result(10).offset == 1


def test_future_can_be_awaited_waited_for_and_watched(servers: str, topic: str) -> None:
    with ottla.Producer(bootstrap_servers=servers, linger_ms=20_000) as producer:
        producer.partitions_for(topic)
        future = producer.send(topic, b"x", partition=0)
        assert not future.done()
        with pytest.raises(TimedOutError):
            future.result(0.01)
        seen: list[RecordFuture] = []
        future.add_done_callback(seen.append)

        async def wait() -> int:
            # The loop of somebody else is no reason to refuse: the producer has a thread of its own.
            with pytest.raises(TimedOutError):
                future.result(0.01)
            flushing = asyncio.get_running_loop().run_in_executor(None, producer.flush)
            offset = (await future).offset
            await flushing
            return offset

        assert asyncio.run(wait()) == 0
        assert future.done()
        assert future.exception() is None
        assert seen == [future]
        future.add_done_callback(seen.append)
        assert seen == [future, future]
        assert "offset 0" in repr(future)


def test_equal_keys_go_where_java_would_put_them(servers: str, topic: str) -> None:
    with ottla.Producer(bootstrap_servers=servers) as producer:
        futures = {b"k%d" % n: producer.send(topic, b"x", b"k%d" % n) for n in range(50)}
        for key, future in futures.items():
            assert future.result(10).partition == partition_of_key(key, PARTITIONS)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_strangers_can_read_every_codec(
    servers: str, topic: str, codec: CompressionTypeWord
) -> None:
    values = [b"value %d " % number * 10 for number in range(500)]
    with ottla.Producer(bootstrap_servers=servers, compression_type=codec) as producer:
        producer.send_many(topic, values, partition=0).result(10)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": topic, "check.crcs": True}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found = consumer.consume(500, timeout=10)
    consumer.close()
    assert [message.value() for message in found] == values
    numbers = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
    assert {batch.header.codec for batch in headers_of(servers, topic)} == {numbers[codec]}


def test_send_many_keeps_order_and_spreads_keys(servers: str, topic: str) -> None:
    with ottla.Producer(bootstrap_servers=servers, batch_size=500) as producer:
        keys = [b"key %d" % (number % 7) for number in range(300)]
        values = [b"%d" % number for number in range(300)]
        sent = producer.send_many(topic, values, keys=keys, headers={"h": b"1"}, timestamp_ms=5)
        places = sent.result(10)
        assert len(sent) == 300
        assert sent[17].result(0) == places[17]
    for number, place in enumerate(places):
        assert place.partition == partition_of_key(keys[number], PARTITIONS)
        assert place[3:] == (5, 5, len(values[number]))
    for partition in range(PARTITIONS):
        records = records_of(servers, topic, partition)
        mine = [number for number in range(300) if places[number].partition == partition]
        assert [record.value for record in records] == [values[number] for number in mine]
        assert [record.offset for record in records] == [places[number].offset for number in mine]
        assert {record.headers for record in records} == {(("h", b"1"),)}


@pytest.mark.parametrize(
    "partitioner", ["org.apache.kafka.clients.producer.RoundRobinPartitioner", None]
)
def test_send_many_that_fails_says_what_it_had_taken(
    servers: str, topic: str, partitioner: str | None
) -> None:
    values = [b"a", b"b", b"x" * 3000, b"c"]
    with ottla.Producer(
        bootstrap_servers=servers, max_request_size=2000, partitioner_class=partitioner
    ) as producer:
        with pytest.raises(KafkaError) as raised:
            producer.send_many(topic, values)
        places = {at: future.result(10) for at, future in accepted_before(raised.value).items()}
    # Sizes are looked at first, unless a partitioner has to see one record after the other.
    assert [*places] == ([] if partitioner is None else [0, 1])
    found = [value for number in range(PARTITIONS) for value in values_of(servers, topic, number)]
    assert set(found) == {values[at] for at in places}
    assert len(found) == len(places)
    copied = pickle.loads(pickle.dumps(raised.value))
    assert (str(copied), accepted_before(copied)) == (str(raised.value), {})
    assert f"accepted={len(places)} of 4" in str(copied)


def test_send_many_without_keys_fills_the_partitions_by_turns(servers: str, topic: str) -> None:
    values = [None if number % 50 == 0 else b"%d" % number for number in range(3000)]
    with ottla.Producer(bootstrap_servers=servers, batch_size=500) as producer:
        sent = producer.send_many(topic, values)
        places = sent.result(10)
        assert places == [future.result(0) for future in sent]
    assert {place.partition for place in places} == set(range(PARTITIONS))
    for partition in range(PARTITIONS):
        mine = [number for number in range(3000) if places[number].partition == partition]
        # Which partition is next is random.
        assert len(mine) > 300
        records = records_of(servers, topic, partition)
        assert [record.value for record in records] == [values[number] for number in mine]
        assert [record.offset for record in records] == [places[number].offset for number in mine]


def test_send_many_without_acknowledgements_has_no_offsets(servers: str, topic: str) -> None:
    with ottla.Producer(bootstrap_servers=servers, acks=0) as producer:
        places = producer.send_many(topic, [b"a", None], keys=[b"k", None], timestamp_ms=5).result(
            10
        )
    assert [place[2:] for place in places] == [(-1, 5, 1, 1), (-1, 5, -1, -1)]


def test_send_many_takes_what_send_takes(servers: str, topic: str) -> None:
    with ottla.Producer(
        bootstrap_servers=servers,
        value_serializer="json",
        key_serializer="str",
        partitioner_class="round-robin",
    ) as producer:
        sent = producer.send_many(topic, ({"n": n} for n in range(10)), keys=list("abcdefghij"))
        assert sorted(place.partition for place in sent.result(10)) == [0] * 5 + [1] * 5
        with pytest.raises(ValueError, match="1 keys for 2 values"):
            producer.send_many(topic, [1, 2], keys=["a"])
        assert producer.send_many(topic, []).result(1) == []
    assert b'{"n":0}' in values_of(servers, topic, 0) + values_of(servers, topic, 1)


def test_threads_may_share_a_producer(servers: str, topic: str) -> None:
    with ottla.Producer(bootstrap_servers=servers, batch_size=300) as producer:

        def work(name: int) -> None:
            for number in range(500):
                told = None if number % 2 else lambda metadata, error: None
                producer.send(topic, b"%d %d" % (name, number), partition=0, on_delivery=told)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    values = [(value or b"").split() for value in values_of(servers, topic)]
    for name in range(4):
        assert [int(n) for who, n in values if int(who) == name] == list(range(500))


def test_serializers_of_keys_and_values(servers: str, topic: str) -> None:
    with (
        ottla.Producer(
            bootstrap_servers=servers, key_serializer="long", value_serializer=str.upper
        ) as wrong,
        pytest.raises(SerializationError, match="not bytes"),
    ):
        wrong.send(topic, value="x", key=1)
    with ottla.Producer(bootstrap_servers=servers, key_serializer="long") as producer:
        producer.send(topic, value=bytearray(b"abc"), key=7, partition=0).result(10)
        with pytest.raises(SerializationError):
            producer.send(topic, value=5, key=7)
        with pytest.raises(SerializationError, match="header"):
            producer.send(topic, value=b"x", headers=[("a", "text")])  # type: ignore[list-item]
    (record,) = records_of(servers, topic)
    assert (record.key, record.value) == (struct.pack(">q", 7), b"abc")


def test_interceptors_see_records_and_outcomes_in_order(servers: str, topic: str) -> None:
    story: list[str] = []

    class Watcher:
        def __init__(self, name: str) -> None:
            self.name = name

        def configure(self, config: dict[str, Any]) -> None:
            story.append(f"{self.name} configured for {config['client.id']}")

        def on_send(self, record: Any) -> Any:
            if self.name == "bad":
                raise ZeroDivisionError
            return record._replace(value=record.value + self.name.encode())

        def on_acknowledgement(self, metadata: Any, error: Any) -> None:
            story.append(f"{self.name} {'error' if error else metadata.offset}")

        def close(self) -> None:
            story.append(f"{self.name} closed")

    chain = [Watcher("a"), Watcher("bad"), Watcher("b")]
    with ottla.Producer(
        bootstrap_servers=servers, interceptor_classes=chain, client_id="me", max_request_size=1000
    ) as producer:
        producer.send(topic, b"x", partition=0, on_delivery=lambda *_: story.append("told")).result(
            10
        )
        with pytest.raises(AbortableError):
            producer.send(topic, b"x" * 2000)
    assert values_of(servers, topic) == [b"xab"]
    assert story == [
        *("a configured for me", "bad configured for me", "b configured for me"),
        *("a 0", "bad 0", "b 0", "told"),
        *("a error", "bad error", "b error"),
        *("a closed", "bad closed", "b closed"),
    ]


def test_callback_that_exits_stops_nothing(servers: str, topic: str) -> None:
    """It runs on the producer's thread, which all other records need."""
    with ottla.Producer(bootstrap_servers=servers) as producer:
        first = producer.send(topic, b"x", partition=0, on_delivery=lambda *_: sys.exit("enough"))
        first.add_done_callback(lambda _: sys.exit("enough"))
        assert first.result(10).offset == 0
        assert producer.send(topic, b"y", partition=0).result(10).offset == 1


def test_interceptors_learn_where_a_record_was_not_written(
    servers: str, meddler: Meddler, topic: str
) -> None:
    told: list[tuple[str, int, int, bool]] = []

    class Watcher:
        def on_acknowledgement(self, metadata: Any, error: Any) -> None:
            told.append((metadata.topic, metadata.partition, metadata.offset, error is None))

    with ottla.Producer(bootstrap_servers=servers, interceptor_classes=[Watcher()]) as producer:
        producer.send(topic, b"x", partition=1).result(10)
        meddler.on("Produce", answer=produce_error(ErrorCode.INVALID_RECORD))
        with pytest.raises(AbortableError):
            producer.send(topic, b"y", partition=1).result(10)
    assert told == [(topic, 1, 0, True), (topic, 1, -1, False)]


def test_partitioners_get_the_clusters_metadata(servers: str, topic: str) -> None:
    class Last:
        is_closed = False
        new_batches = 0

        def partition(
            self, topic: str, key: Any, key_bytes: Any, value: Any, value_bytes: Any, cluster: Any
        ) -> int:
            assert (key, key_bytes, value, value_bytes) == (None, None, b"x", b"x")
            return int(cluster.available(topic)[-1])

        def on_new_batch(self, topic: str, cluster: Any, previous: int) -> None:
            Last.new_batches += 1

        def close(self) -> None:
            Last.is_closed = True

    with ottla.Producer(bootstrap_servers=servers, partitioner_class=Last) as producer:
        assert producer.send(topic, b"x").result(10).partition == PARTITIONS - 1
    assert Last.is_closed
    assert Last.new_batches == 1
    with (
        ottla.Producer(bootstrap_servers=servers, partitioner_class=Beyond) as producer,
        pytest.raises(ValueError, match="chose partition 99"),
    ):
        producer.send(topic, b"x")


class Beyond:
    def partition(self, *_: object) -> int:
        return 99

    def close(self) -> None: ...


def test_closed_producer_refuses_calls(servers: str, topic: str) -> None:
    producer = ottla.Producer(bootstrap_servers=servers, linger_ms=10_000)
    future = producer.send(topic, b"x")
    producer.close()
    assert future.result(0).offset == 0, "close sends what lingers"
    for call in (
        lambda: producer.send(topic, b"x"),
        lambda: producer.send_many(topic, [b"x"]),
        producer.flush,
        lambda: producer.partitions_for(topic),
    ):
        with pytest.raises(IllegalStateError, match="closed"):
            call()
    producer.close()


def test_close_that_has_no_time_fails_what_is_left(
    meddler: Meddler, servers: str, topic: str
) -> None:
    producer = ottla.Producer(bootstrap_servers=servers, linger_ms=0)
    producer.send(topic, b"x", partition=0).result(10)
    hold = threading.Event()
    meddler.on("Produce", hold=hold)
    future = producer.send(topic, b"y", partition=0)
    producer.close(0.1)
    with pytest.raises(AbortableError, match="closed before the record was sent"):
        future.result(0)
    hold.set()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_child_process_does_not_take_records(servers: str, topic: str) -> None:
    with ottla.Producer(bootstrap_servers=servers) as producer:
        producer.send(topic, b"x").result(10)
        child = os.fork()
        if not child:
            try:
                producer.send(topic, b"from the child")
            except IllegalStateError as error:
                os._exit(0 if "fork" in str(error) else 2)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert producer.send(topic, b"y").result(10)


def test_kafka_2_1_is_enough(topic: str) -> None:
    with (
        old_broker() as servers,
        ottla.Producer(
            bootstrap_servers=servers, compression_type="zstd", transactional_id="old"
        ) as producer,
    ):
        producer.init_transactions()
        with producer.transaction():
            assert producer.send(topic, b"x").result(10).offset == 0
            producer.send_offsets_to_transaction({(topic, 0): 1}, "g")
        producer.begin_transaction()
        producer.send(topic, b"y").result(10)
        producer.abort_transaction()
        with producer.transaction():
            producer.send(topic, b"z").result(10)


# asyncio


def test_asyncio_producer(servers: str, topic: str) -> None:
    async def main() -> None:
        async with ottla.aio.Producer(
            bootstrap_servers=servers, transactional_id=topic
        ) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                futures = [await producer.send(topic, b"%d" % n, partition=0) for n in range(10)]
                many = await producer.send_many(topic, [b"a", b"b"], partition=0)
                await producer.send_offsets_to_transaction({(topic, 0): 1}, topic)
            assert [(await future).offset for future in futures] == list(range(10))
            assert [place.offset for place in await many] == [10, 11]

            async def fail() -> None:
                async with producer.transaction():
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await fail()
            assert len(await producer.partitions_for(topic)) == PARTITIONS
            await producer.flush()
            assert producer.metrics()["record-send-total"] == 12

    asyncio.run(main())


def test_asyncio_producer_needs_a_loop(servers: str) -> None:
    with pytest.raises(IllegalStateError, match="running event loop"):
        ottla.aio.Producer(bootstrap_servers=servers)


def test_cancelled_send_leaves_no_trace(meddler: Meddler, servers: str, topic: str) -> None:
    async def main() -> None:
        async with ottla.aio.Producer(bootstrap_servers=servers, buffer_memory=20_000) as producer:
            await (await producer.send(topic, b"first", partition=0))
            hold = threading.Event()
            meddler.on("Produce", hold=hold)
            await producer.send(topic, b"x" * 10_000, partition=0)
            waiting = asyncio.create_task(producer.send(topic, b"y" * 10_000, partition=0))
            await asyncio.sleep(0.05)
            assert producer.metrics()["waiting-threads"] == 1
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            hold.set()
            await producer.flush()
            metrics = producer.metrics()
            assert metrics["buffer-available-bytes"] == 20_000
            assert metrics["waiting-threads"] == 0

    asyncio.run(main())


@pytest.mark.parametrize("headers", [{"a": b"1"}, [("a", b"1")]], ids=["dict", "pairs"])
def test_interceptors_see_headers_as_pairs_however_they_were_given(
    servers: str, topic: str, headers: ottla.HeadersToSend
) -> None:
    class Stamp:
        def on_send(self, record: ottla.ProducerRecord) -> ottla.ProducerRecord:
            return record._replace(headers=(*record.headers, ("sent-by", b"till 1")))

    with ottla.Producer(bootstrap_servers=servers, interceptor_classes=[Stamp()]) as producer:
        producer.send(topic, b"x", partition=0, headers=headers).result(10)
    (record,) = records_of(servers, topic)
    assert record.headers == (("a", b"1"), ("sent-by", b"till 1"))
