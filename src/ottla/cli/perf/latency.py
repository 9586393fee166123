"""`ottla perf latency`."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Final

from ottla.cli.commands.perf import RECORD_BYTES
from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import admin_of, consumer_of, producer_of
from ottla.cli.errors import CommandError
from ottla.cli.exit_codes import DONE
from ottla.cli.perf.measures import INTERVAL_SECONDS, Latencies, topic_of
from ottla.cli.terminal.output import Output, say
from ottla.client.admin_model.topics import NewTopic
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.client.blocking.consumer import Consumer
    from ottla.client.blocking.producer import Producer

_WAIT_SECONDS: Final = 60.0


def latency(arguments: Arguments) -> int:
    """Send records one by one, and report the time until each was read."""
    topic = topic_of(arguments)
    output = Output(arguments.form)
    _make_topic(arguments, topic)
    # A fetch waits at the broker for the record, so that no time passes between fetches.
    with (
        consumer_of(arguments, auto_offset_reset="latest") as consumer,
        producer_of(arguments, acks=arguments.acks, linger_ms=0) as producer,
    ):
        found = [TopicPartition(topic, info.partition) for info in consumer.partitions_for(topic)]
        consumer.assign(found)
        consumer.seek_to_end(found)
        for partition in found:
            consumer.position(partition)
        trips = _RoundTrips(producer, consumer, topic, arguments.record_size or RECORD_BYTES)
        trips.make(arguments.warmup, Latencies())
        latencies = Latencies()
        try:
            trips.make(arguments.num_records, latencies)
        finally:
            _print(output, latencies)
    return DONE


def _make_topic(arguments: Arguments, topic: str) -> None:
    with admin_of(arguments) as admin:
        if topic not in admin.list_topics():
            admin.create_topics([NewTopic(topic, num_partitions=1)])
            say(f"topic {topic} created: 1 partition")


class _RoundTrips:
    """Sends records to the broker and reads them back."""

    def __init__(
        self, producer: Producer, consumer: Consumer, topic: str, record_bytes: int
    ) -> None:
        self._producer = producer
        self._consumer = consumer
        self._topic = topic
        self._record_bytes = record_bytes
        self._random = random.Random(0)

    def make(self, count: int, latencies: Latencies) -> None:
        """Measure this many round trips, one after the other."""
        told = time.perf_counter()
        for number in range(count):
            value = self._random.randbytes(self._record_bytes)
            began = time.perf_counter()
            self._producer.send(self._topic, value).result()
            self._receive(value, began)
            now = time.perf_counter()
            latencies.add((now - began) * 1000)
            if now - told >= INTERVAL_SECONDS:
                told = now
                say(f"{number}\t{(now - began) * 1000}")

    def _receive(self, value: bytes, began: float) -> None:
        while True:
            records = self._consumer.poll(_WAIT_SECONDS)
            if len(records) == 1 and records[0].value == value:
                return
            if len(records):
                raise CommandError(
                    f"another client writes to {self._topic}: a record came that was not sent here",
                    "measure with a topic of its own",
                )
            if time.perf_counter() - began > _WAIT_SECONDS:
                raise CommandError(
                    f"the record did not come back within {_WAIT_SECONDS:g} s",
                    "`ottla topics describe` shows whether the partitions have leaders",
                )


def _print(output: Output, latencies: Latencies) -> None:
    """Print the lines of Kafka's EndToEndLatency."""
    if not output.is_table:
        output.data({"records": latencies.count, "latency_ms": latencies.data()})
        return
    p50, p99, p999 = (int(latencies.percentile(share)) for share in (0.5, 0.99, 0.999))
    output.lines(
        [
            f"Avg latency: {latencies.average_ms:.4f} ms",
            f"Percentiles: 50th = {p50}, 99th = {p99}, 99.9th = {p999}",
        ]
    )
