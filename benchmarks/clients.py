"""Loads made by librdkafka's producer and consumer, as applications use them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from benchmarks.frames import RefusedError, end_offsets
from benchmarks.measure import Load
from benchmarks.peers import PARTITIONS_PER_TOPIC
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

NO_OPTIONS: Mapping[str, object] = MappingProxyType({})
STATISTICS_MS = 100
CONSUMED_AT_ONCE = 1_000
FLUSH_SECONDS = 60.0
CONSUME_SECONDS = 10.0
TRANSACTION_VALUE_BYTES = 100
# So often that the coordinator's part of a rebalance is seen at all; the default is 3000.
HEARTBEAT_MS = 100


class Style(NamedTuple):
    """How a producer is used; it may queue so much that it never waits for the application."""

    queued_records: int
    options: Mapping[str, object]


BATCHED = Style(100_000, {})
ONE_PER_REQUEST = Style(4_000, {"batch.num.messages": 1, "linger.ms": 0})
ONE_AT_A_TIME = Style(500, {**ONE_PER_REQUEST.options, "max.in.flight": 1})


class _Requests:
    """How many requests of a kind a client has sent, from its statistics."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.count = 0
        self.reports = 0

    def read(self, statistics: str) -> None:
        brokers = json.loads(statistics)["brokers"].values()
        self.count = sum(broker["req"].get(self.kind, 0) for broker in brokers)
        self.reports += 1

    def settle(self, poll: Callable[[float], object]) -> int:
        """The count of a report that was made after now."""
        enough = self.reports + 2
        while self.reports < enough:
            poll(STATISTICS_MS / 1000)
        return self.count


def produce(
    bootstrap_server: str,
    topic: str,
    *,
    value_bytes: int,
    seconds: float,
    style: Style,
) -> Load:
    """Produces for some seconds, flushes, and checks that the broker has every record."""
    requests = _Requests("Produce")
    failures: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            "bootstrap.servers": bootstrap_server,
            "queue.buffering.max.messages": style.queued_records,
            "delivery.report.only.error": True,
            "statistics.interval.ms": STATISTICS_MS,
            "stats_cb": requests.read,
            "log_level": 0,
            **style.options,
        }
    )
    producer.list_topics(topic, timeout=FLUSH_SECONDS)
    # One dictionary many times: librdkafka copies the value.
    messages = [{"value": b"x" * value_bytes}] * (style.queued_records // 20)
    records = 0
    started = time.perf_counter()
    end = started + seconds
    while time.perf_counter() < end:
        if len(producer) > style.queued_records - len(messages):
            producer.poll(0.001)
            continue
        records += producer.produce_batch(topic, messages, on_delivery=on_delivery)
    left = producer.flush(FLUSH_SECONDS)
    elapsed = time.perf_counter() - started
    request_count = requests.settle(producer.poll)
    if left or failures:
        raise RefusedError(f"{left} records were not delivered, {len(failures)} failed")
    kept = sum(end_offsets(bootstrap_server, topic, PARTITIONS_PER_TOPIC))
    if kept != records:
        raise RefusedError(f"{records} records were acknowledged and {kept} are there")
    return Load(request_count, records, records * value_bytes, elapsed)


def commit(bootstrap_server: str, topic: str, *, partition_count: int, seconds: float) -> Load:
    """Commits one transaction after the other, each with a record for every partition."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_server,
            "transactional.id": f"librdkafka-{topic}",
            "log_level": 0,
        }
    )
    producer.init_transactions(FLUSH_SECONDS)
    value = b"x" * TRANSACTION_VALUE_BYTES
    committed = 0
    started = time.perf_counter()
    end = started + seconds
    while time.perf_counter() < end:
        producer.begin_transaction()
        for partition in range(partition_count):
            producer.produce(topic, value, partition=partition)
        producer.commit_transaction(FLUSH_SECONDS)
        committed += 1
    elapsed = time.perf_counter() - started
    records = committed * partition_count
    return Load(committed, records, 0, elapsed)


def consume(
    bootstrap_server: str,
    topics: Sequence[str],
    *,
    records_per_partition: int,
    value_bytes: int,
    seconds: float,
    options: Mapping[str, object] = NO_OPTIONS,
) -> Load:
    """Reads the topics from their start to their end, again and again."""
    requests = _Requests("Fetch")
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_server,
            "group.id": "bench",
            "enable.auto.commit": False,
            # By default a consumer whose queue is full pauses for a second, and one that starts again waits for
            # its fetch at the end, half a second: that is what would be measured.
            "fetch.queue.backoff.ms": 2,
            "fetch.wait.max.ms": 5,
            "statistics.interval.ms": STATISTICS_MS,
            "stats_cb": requests.read,
            "log_level": 0,
            **options,
        }
    )
    partitions = [(topic, index) for topic in topics for index in range(PARTITIONS_PER_TOPIC)]
    records_per_pass = len(partitions) * records_per_partition
    for topic in topics:
        consumer.list_topics(topic, timeout=FLUSH_SECONDS)
    records = 0
    started = time.perf_counter()
    end = started + seconds
    while time.perf_counter() < end:
        consumer.assign([TopicPartition(*partition, 0) for partition in partitions])
        left = records_per_pass
        while left and time.perf_counter() < end:
            messages = consumer.consume(min(left, CONSUMED_AT_ONCE), CONSUME_SECONDS)
            failed = next((each.error() for each in messages if each.error() is not None), None)
            if failed is not None or not messages:
                raise RefusedError(f"the consumer stopped: {failed}")
            left -= len(messages)
            records += len(messages)
    elapsed = time.perf_counter() - started
    consumer.unassign()
    request_count = requests.settle(consumer.poll)
    consumer.close()
    return Load(request_count, records, records * value_bytes, elapsed)


class Consumers:
    """Consumers of one group, polled in turn by one thread: most of their work is done by threads of their own."""

    def __init__(self, bootstrap_server: str, group_id: str, topic: str, count: int) -> None:
        self.topic = topic
        self.assigned: dict[int, list[TopicPartition]] = {}
        self.consumers = [
            Consumer(
                {
                    "bootstrap.servers": bootstrap_server,
                    "group.id": group_id,
                    "heartbeat.interval.ms": HEARTBEAT_MS,
                    "enable.auto.commit": False,
                    "log_level": 0,
                }
            )
            for _ in range(count)
        ]

    def form(self) -> float:
        """Everybody subscribes; seconds until every partition has an owner and every consumer was told."""
        started = time.perf_counter()
        for number, consumer in enumerate(self.consumers):
            consumer.subscribe(
                [self.topic], on_assign=self._note(number), on_revoke=self._drop(number)
            )
        while not self._is_complete():
            for consumer in self.consumers:
                consumer.poll(0.001)
            if time.perf_counter() - started > FLUSH_SECONDS:
                raise RefusedError("no complete assignment")
        return time.perf_counter() - started

    def _note(self, number: int) -> Callable[[Consumer, list[TopicPartition]], None]:
        def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
            self.assigned[number] = partitions

        return assigned

    def _drop(self, number: int) -> Callable[[Consumer, list[TopicPartition]], None]:
        def revoked(_: Consumer, __: list[TopicPartition]) -> None:
            del self.assigned[number]

        return revoked

    def _is_complete(self) -> bool:
        owned = [partition.partition for each in self.assigned.values() for partition in each]
        return len(self.assigned) == len(self.consumers) and sorted(owned) == list(
            range(PARTITIONS_PER_TOPIC)
        )

    def close(self) -> None:
        for consumer in self.consumers:
            consumer.close()
