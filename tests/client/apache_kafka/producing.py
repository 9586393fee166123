"""What a producer has to do with any Kafka."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from tests.client.apache_kafka.stage import Stage, case
from tests.waiting import in_time

import ottla
import ottla.aio
from ottla.client.plugins.partitioners import DefaultPartitioner
from ottla.errors import ErrorCode, KafkaError, OttlaError
from ottla.model import TopicPartition

WAIT = 10.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@case(2, 1)
def test_records_arrive_as_they_were_sent(stage: Stage) -> None:
    topic = stage.topic(2)
    headers = (("a", b"1"), ("none", None), ("a", b""))
    with stage.producer() as producer:
        first = producer.send(
            topic, b"value", b"key", partition=1, headers=headers, timestamp_ms=1_700_000_000_000
        ).result(WAIT)
        second = producer.send(topic, None, b"", partition=1, timestamp_ms=1).result(WAIT)
    assert first == (topic, 1, 0, 1_700_000_000_000, 3, 5)
    assert (second.offset, second.timestamp_ms) == (1, 1)
    one, two = stage.records(topic)
    assert (one.key, one.value, one.headers) == (b"key", b"value", headers)
    assert (one.partition, one.offset, one.timestamp_ms) == (1, 0, 1_700_000_000_000)
    assert (one.timestamp_type, one.leader_epoch) == (0, 0)
    assert (two.key, two.value, two.headers, two.timestamp_ms) == (b"", None, (), 1)


@case(2, 1)
def test_a_topic_with_the_brokers_time_tells_it(stage: Stage) -> None:
    topic = stage.topic(message_timestamp_type="LogAppendTime")
    with stage.producer() as producer:
        sent = producer.send(topic, b"v", timestamp_ms=5).result(WAIT)
    (record,) = stage.records(topic)
    assert (record.timestamp_ms, record.timestamp_type) == (sent.timestamp_ms, 1)
    assert sent.timestamp_ms > 1_600_000_000_000


@case(2, 1)
def test_many_records_are_sent_at_once(stage: Stage) -> None:
    topic, values = stage.topic(3), [b"%d" % i for i in range(5000)]
    keys = [value[-2:] for value in values]
    with stage.producer() as producer:
        sent = producer.send_many(topic, values, keys=keys).result(WAIT)
    found = {(r.partition, r.offset): (r.key, r.value) for r in stage.records(topic)}
    assert len(found) == len(values)
    for place, key, value in zip(sent, keys, values, strict=True):
        assert found[place.partition, place.offset] == (key, value)
    of_one_key = [place.offset for place, key in zip(sent, keys, strict=True) if key == b"42"]
    assert of_one_key == sorted(of_one_key)


@case(2, 1)
def test_every_codec_and_acks(stage: Stage) -> None:
    topic = stage.topic()
    expected = []
    for codec in CODECS:
        for acks in ("all", 1, 0):
            values = [b"%s %s %d" % (codec.encode(), str(acks).encode(), i) for i in range(50)]
            with stage.producer(compression_type=codec, acks=acks, linger_ms=5) as producer:
                sent = producer.send_many(topic, values).result(WAIT)
                assert (sent[-1].offset == -1) is (acks == 0)
            expected += values
            # Kafka may write what it need not acknowledge after records of the next connection.
            deadline = time.monotonic() + WAIT
            while stage.ends([(topic, 0)])[TopicPartition(topic, 0)] < len(expected):
                in_time(deadline, f"{codec}, acks {acks}: not all were written")
                time.sleep(0.01)
    assert stage.values(topic) == expected


@case(2, 1)
def test_callbacks_tell_what_became_of_records(stage: Stage) -> None:
    topic, told, done = stage.topic(), [], threading.Event()

    def on_delivery(metadata: ottla.RecordMetadata | None, error: BaseException | None) -> None:
        told.append((metadata, error))
        done.set()

    with stage.producer() as producer:
        future = producer.send(topic, b"v", on_delivery=on_delivery)
        producer.flush(WAIT)
        assert future.done()
        assert done.wait(WAIT)
    assert told == [(future.result(), None)]


@case(2, 1)
def test_a_batch_that_is_too_large_is_split(stage: Stage) -> None:
    topic = stage.topic(max_message_bytes="2000")
    values = [b"%d" % i * 40 for i in range(100)]
    with stage.producer(batch_size=100_000, linger_ms=50) as producer:
        sent = producer.send_many(topic, values).result(WAIT)
        assert producer.metrics()["batch-split-total"] > 0
    assert [one.offset for one in sent] == list(range(100))
    assert stage.values(topic) == values


@case(2, 1)
def test_refusals_say_why_and_where(stage: Stage) -> None:
    small = stage.topic(max_message_bytes="1000")
    with stage.producer() as producer:
        with pytest.raises(KafkaError) as too_large:
            producer.send(small, b"x" * 5000).result(WAIT)
        # The producer goes on.
        assert producer.send(small, b"v").result(WAIT).offset == 0
    assert too_large.value.code is ErrorCode.MESSAGE_TOO_LARGE
    text = str(too_large.value)
    assert "Produce" in text
    assert f"{small}-0" in text
    assert stage.address in text


@case(2, 1)
def test_a_record_without_a_key_is_refused_by_a_compacted_topic(stage: Stage) -> None:
    topic = stage.topic(cleanup_policy="compact")
    # Before KIP-467 the code said that a repetition might help.
    is_told = stage.version >= (2, 4)
    short: dict[str, Any] = {"request_timeout_ms": 1500, "delivery_timeout_ms": 2000}
    with stage.producer(**({} if is_told else short)) as producer:
        with pytest.raises(KafkaError) as refused:
            producer.send(topic, b"v").result(WAIT)
        # The producer goes on.
        assert producer.send(topic, b"v", b"k").result(WAIT).offset == 0
    code = ErrorCode.INVALID_RECORD if is_told else ErrorCode.REQUEST_TIMED_OUT
    assert refused.value.code is code


@case(2, 1)
def test_what_does_not_exist_is_an_error_in_time(stage: Stage) -> None:
    topic = stage.topic()
    with stage.producer(max_block_ms=2000) as producer:
        with pytest.raises(KafkaError) as unknown:
            producer.send(stage.new_name("missing"), b"v")
        with pytest.raises(OttlaError):
            producer.send(topic, b"v", partition=7)
        assert producer.send(topic, b"v").result(WAIT).offset == 0
    assert unknown.value.code in (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REQUEST_TIMED_OUT,
    )


@case(2, 1)
def test_keyless_records_stick_and_keys_choose(stage: Stage) -> None:
    topic = stage.topic(8)
    with stage.producer(linger_ms=100) as producer:
        keyless = producer.send_many(topic, [b"v"] * 100).result(WAIT)
        keyed = [producer.send(topic, b"v", b"%d" % i) for i in range(100)]
        # What Java's client computes is in the vectors of the partitioner's tests.
        assert {one.partition for one in keyless} == {keyless[0].partition}
        assert len({future.result(WAIT).partition for future in keyed}) == 8
    with stage.producer(partitioner_class="round-robin") as producer:
        spread = [producer.send(topic, b"v", b"one key").result(WAIT) for _ in range(8)]
        assert sorted(one.partition for one in spread) == list(range(8))
    with stage.producer(partitioner_class=DefaultPartitioner()) as producer:
        again = [producer.send(topic, b"v", b"%d" % i).result(WAIT) for i in range(20)]
    assert [a.partition for a in again] == [f.result().partition for f in keyed[:20]]


@case(2, 1)
def test_an_asyncio_producer_does_the_same(stage: Stage) -> None:
    topic = stage.topic(2)

    async def produce() -> list[ottla.RecordMetadata]:
        async with (
            ottla.aio.Producer(bootstrap_servers=stage.address) as producer,
            ottla.aio.Producer(bootstrap_servers=stage.address, max_block_ms=500) as hasty,
        ):
            futures = [await producer.send(topic, b"%d" % i, partition=i % 2) for i in range(10)]
            many = await producer.send_many(topic, [b"a", b"b"], partition=0)
            found = [await future for future in futures]
            with pytest.raises(OttlaError):
                await hasty.send(topic, b"v", partition=9)
            return [*found, *(await many)]

    sent = asyncio.run(produce())
    assert [(one.partition, one.offset) for one in sent] == [
        *((i % 2, i // 2) for i in range(10)),
        (0, 5),
        (0, 6),
    ]
    assert len(stage.records(topic)) == 12
