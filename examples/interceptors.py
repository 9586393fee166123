"""Interceptors: measure how long records travel, without a change to the code that sends and receives.

    python examples/interceptors.py HOST:PORT TOPIC

Sends a hundred records, receives them, and prints how long the slowest one took.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

import ottla


class StampSendTime:
    """Adds the time of sending to each record, and counts delivered and failed records."""

    def __init__(self) -> None:
        self.delivered = 0
        self.failed = 0

    def on_send(self, record: ottla.ProducerRecord) -> ottla.ProducerRecord:
        stamp = ("sent-ns", str(time.time_ns()).encode())
        return record._replace(headers=(*record.headers, stamp))

    def on_acknowledgement(self, metadata: ottla.RecordMetadata, error: Exception | None) -> None:
        if error is None:
            self.delivered += 1
        else:
            self.failed += 1


class MeasureTravelTime:
    """Reads the stamps of consumed records, and remembers committed offsets."""

    def __init__(self) -> None:
        self.travel_ms: list[float] = []
        self.committed: dict[ottla.TopicPartition, int] = {}

    def on_consume(self, records: ottla.ConsumerRecords) -> ottla.ConsumerRecords:
        now_ns = time.time_ns()
        for record in records:
            for name, value in record.headers:
                if name == "sent-ns" and value is not None:
                    self.travel_ms.append((now_ns - int(value)) / 1e6)
        return records

    def on_commit(self, offsets: Mapping[ottla.TopicPartition, ottla.OffsetAndMetadata]) -> None:
        self.committed.update({partition: each.offset for partition, each in offsets.items()})


def run(
    bootstrap_servers: str,
    topic: str,
    count: int,
    stamping: StampSendTime,
    measuring: MeasureTravelTime,
) -> None:
    """Sends records and receives them."""
    with ottla.Producer(
        bootstrap_servers=bootstrap_servers, interceptor_classes=[stamping]
    ) as producer:
        for number in range(count):
            producer.send(topic, value=b"%d" % number)
    with ottla.Consumer(
        bootstrap_servers=bootstrap_servers,
        group_id="measuring",
        auto_offset_reset="earliest",
        interceptor_classes=[measuring],
    ) as consumer:
        consumer.subscribe([topic])
        received = 0
        while received < count:
            received += len(consumer.poll(1.0))
        consumer.commit()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python examples/interceptors.py HOST:PORT TOPIC")
    servers, topic = sys.argv[1:]
    stamping, measuring = StampSendTime(), MeasureTravelTime()
    run(servers, topic, 100, stamping, measuring)
    print(f"{stamping.delivered} delivered, {stamping.failed} failed")
    print(f"longest {max(measuring.travel_ms):.1f} ms; committed {measuring.committed}")
