"""Any client reads from any offset or time, at once or as soon as there is something."""

from __future__ import annotations

import threading
import time

import pytest
from tests.clients.broker_side import batches_of
from tests.clients.driver import ConsumerOptions, Driver, ProducerOptions, RefusedError
from tests.clients.messages import Message, numbered

from ottla.errors import ErrorCode
from ottla.model import TopicPartition

ONE_BATCH = ProducerOptions(linger_ms=200)
LONG_POLL_MS = 10_000
START_MS = 1_700_000_000_000


def test_reading_starts_at_any_offset_also_inside_a_batch(client: Driver, ottla_topic: str) -> None:
    messages = numbered(20)
    client.create_topic(ottla_topic)
    client.send(ottla_topic, messages[:10], options=ONE_BATCH)
    client.send(ottla_topic, messages[10:], options=ONE_BATCH)
    batches = batches_of(client.bootstrap_servers, ottla_topic)
    counts = [batch.header.record_count for batch in batches]
    assert sum(counts) == 20
    assert max(counts) > 1
    bases = [batch.header.base_offset for batch in batches]
    lasts = [batch.header.last_offset for batch in batches]
    for offset in sorted({*bases, *(base + 1 for base in bases if base < 19), *lasts}):
        received = client.read(ottla_topic, 20 - offset, offset)
        assert [one.offset for one in received] == list(range(offset, 20))
        assert [one.content for one in received] == messages[offset:]


def test_reading_in_small_steps_misses_and_repeats_nothing(
    client: Driver, ottla_topic: str
) -> None:
    messages = numbered(30)
    client.send(ottla_topic, messages, options=ONE_BATCH)
    received = []
    with client.consumer() as consumer:
        consumer.assign({TopicPartition(ottla_topic, 0): 0})
        for count in (1, 2, 7, 20):
            received += consumer.read(count)
    assert [one.content for one in received] == messages


def test_a_timestamp_finds_its_offset(client: Driver, ottla_topic: str) -> None:
    if not client.sets_timestamps:
        pytest.skip(f"{client.name} does not set timestamps")
    partition = TopicPartition(ottla_topic, 0)
    client.send(ottla_topic, numbered(10, timestamp_ms=START_MS), options=ONE_BATCH)
    client.send(ottla_topic, numbered(10, timestamp_ms=START_MS + 100_000), options=ONE_BATCH)
    expected = {
        **{-5000: 0, 0: 0, 500: 1, 4000: 4, 9000: 9, 9500: 10},
        **{100_000: 10, 104_000: 14, 109_000: 19, 109_001: None},
    }
    with client.consumer() as consumer:
        found = {
            after_ms: consumer.offset_at(partition, START_MS + after_ms) for after_ms in expected
        }
    assert found == expected


def test_timestamps_come_back_to_the_millisecond(client: Driver, ottla_topic: str) -> None:
    if not client.sets_timestamps:
        pytest.skip(f"{client.name} does not set timestamps")
    chosen = [START_MS, START_MS + 1, START_MS - 86_400_000, 1, START_MS + 123_456_789]
    messages = [Message(b"value", timestamp_ms=timestamp_ms) for timestamp_ms in chosen]
    client.send(ottla_topic, messages, options=ONE_BATCH)
    received = client.read(ottla_topic, len(chosen))
    assert [one.timestamp_ms for one in received] == chosen


def test_a_message_without_a_timestamp_gets_the_producers_time(
    client: Driver, ottla_topic: str
) -> None:
    before_ms = int(time.time() * 1000)
    client.send(ottla_topic, [Message(b"value")])
    after_ms = int(time.time() * 1000)
    (received,) = client.read(ottla_topic, 1)
    # The clocks of the processes are the same, their rounding is not.
    assert before_ms - 1 <= received.timestamp_ms <= after_ms + 1


def test_bounds_are_those_of_the_partition(client: Driver, ottla_topic: str) -> None:
    client.create_topic(ottla_topic, partitions=2)
    client.send(ottla_topic, numbered(7), partition=1)
    with client.consumer() as consumer:
        assert consumer.bounds(TopicPartition(ottla_topic, 0)) == (0, 0)
        assert consumer.bounds(TopicPartition(ottla_topic, 1)) == (0, 7)


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_both_isolation_levels_see_everything_outside_of_transactions(
    client: Driver, ottla_topic: str, isolation: str
) -> None:
    options = ConsumerOptions(isolation=isolation)
    client.send(ottla_topic, numbered(12), options=ONE_BATCH)
    received = client.read(ottla_topic, 12, options=options)
    assert [one.content for one in received] == numbered(12)
    with client.consumer(options) as consumer:
        assert consumer.bounds(TopicPartition(ottla_topic, 0)) == (0, 12)


def test_one_consumer_reads_many_partitions_each_in_order(client: Driver, ottla_topic: str) -> None:
    client.create_topic(ottla_topic, partitions=6)
    sent = {partition: numbered(10, start=100 * partition) for partition in range(6)}
    with client.producer(ONE_BATCH) as producer:
        for partition, messages in sent.items():
            producer.send(ottla_topic, messages, partition)
    starts = {partition: partition for partition in range(6)}
    with client.consumer() as consumer:
        consumer.assign(
            {TopicPartition(ottla_topic, partition): start for partition, start in starts.items()}
        )
        received = consumer.read(sum(10 - start for start in starts.values()))
    for partition, start in starts.items():
        found = [one.content for one in received if one.partition == partition]
        assert found == sent[partition][start:]


def test_an_offset_beyond_the_end_is_out_of_range(client: Driver, ottla_topic: str) -> None:
    client.send(ottla_topic, numbered(3))
    with client.consumer() as consumer:
        consumer.assign({TopicPartition(ottla_topic, 0): 1000})
        with pytest.raises(RefusedError) as caught:
            consumer.read(1)
    assert caught.value.error is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_waiting_consumer_gets_a_message_as_soon_as_it_is_there(
    client: Driver, ottla_topic: str
) -> None:
    if not client.keeps_connections:
        pytest.skip(f"{client.name} is a process per call")
    arrived_at = sent_at = 0.0
    partition = TopicPartition(ottla_topic, 0)
    options = ConsumerOptions(fetch_wait_ms=LONG_POLL_MS)

    with client.producer() as producer, client.consumer(options) as consumer:
        producer.send(ottla_topic, [Message(b"first")])
        consumer.assign({partition: 0})
        assert [one.value for one in consumer.read(1)] == [b"first"]

        def send_later() -> None:
            nonlocal sent_at
            # Long enough for the consumer to wait at the broker.
            time.sleep(0.5)
            sent_at = time.monotonic()
            producer.send(ottla_topic, [Message(b"second")])

        sender = threading.Thread(target=send_later)
        sender.start()
        received = consumer.read(1)
        arrived_at = time.monotonic()
        sender.join()
    assert [one.value for one in received] == [b"second"]
    assert sent_at > 0
    assert arrived_at - sent_at < LONG_POLL_MS / 2000


def test_a_fetch_waits_for_its_least_bytes(client: Driver, ottla_topic: str) -> None:
    if not client.keeps_connections:
        pytest.skip(f"{client.name} is a process per call")
    client.send(ottla_topic, [Message(b"small")])
    options = ConsumerOptions(fetch_min_bytes=10_000, fetch_wait_ms=1500)
    with client.consumer(options) as consumer:
        # Some clients fetch from here on.
        began_at = time.monotonic()
        consumer.assign({TopicPartition(ottla_topic, 0): 0})
        assert [one.value for one in consumer.read(1)] == [b"small"]
        assert time.monotonic() - began_at >= 1.4
